//! CPU kernels of BDO.
