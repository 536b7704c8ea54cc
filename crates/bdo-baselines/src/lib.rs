//! The methods BDO is compared with, each complete: networks over connectivity matrices, trained with
//! labels, and models of masked tokens, trained without.
//! Modules are listed along the path data takes.

#![forbid(unsafe_code)]

pub mod connectivity;
pub mod pairwise;
pub mod brainnetcnn;
pub mod braingnn;
pub mod brainnettf;
pub mod token;
pub mod brainlm;
pub mod brainjepa;
pub mod pretrain;
pub mod head;
pub mod tune;
pub mod connectome_set;
pub mod method;
pub mod foundation;
