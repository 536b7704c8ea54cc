//! placeholder until the training step lands
