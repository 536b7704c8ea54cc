//! BDO itself: an encoder of visible frames, linear stochastic latent dynamics driven by it, a decoder and the
//! objective that trains them. Tensors in, tensors out: no clock, no global random numbers, and files only in
//! [`weights`]. Modules are listed along the path data takes.

pub mod config;
pub mod device;
pub mod key;
pub mod parameters;
pub mod init;
pub mod weights;
pub mod noise;
pub mod intake;
pub mod batch;
pub mod dropout;
pub mod ops;
pub mod layer;
pub mod encoder;
pub mod dynamics;
pub mod decoder;
pub mod objective;
pub mod ema;
pub mod autocorrelation;
pub mod smoother;
pub mod fingerprint;
pub mod feature_heads;
pub mod model;
pub mod error;
pub mod frozen;
pub mod control;
pub mod readout;
pub mod pooling;
pub mod familiarity;
pub mod posterior;
