//! The methods BDO is compared with, each complete: networks over connectivity matrices, trained with labels.
//! Modules are listed along the path data takes.

#![forbid(unsafe_code)]

pub mod connectivity;

pub mod network;
pub mod table;

pub mod pairwise;

pub mod brainnetcnn;

pub mod braingnn;

pub mod brainnettf;

pub mod train;

pub mod label;

pub mod connectome_set;

pub mod method;
