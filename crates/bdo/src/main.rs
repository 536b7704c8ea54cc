//! The command line of BDO.
fn main() {}
