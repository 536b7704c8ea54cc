//! Networks trained with labels: the baselines over connectivity, and fine-tuned models. One learner for all of them, with the
//! epoch chosen on the validation people.

pub mod learner;
pub mod network;
pub mod recipe;
