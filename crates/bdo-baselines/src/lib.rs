//! The methods BDO is compared with, each complete: networks over connectivity matrices, trained with
//! labels, and models of masked tokens, trained without.
//! Modules are listed along the path data takes.

#![forbid(unsafe_code)]
// A comment says what a name and its type do not; where there is nothing to add, there is none.
#![allow(missing_docs)]

pub mod connectivity;
mod select;
pub mod pairwise;
pub mod brainnetcnn;
pub mod braingnn;
pub mod brainnettf;
pub mod token;
pub mod brainlm;
pub mod brainjepa;
pub mod cost;
pub mod pretrain;
pub mod embed;
pub mod tune;
pub mod method;
pub mod foundation;
