//! Which tokens BrainLM sees: uniformly at random over all of them.

use bdo_data::random::shuffle;
use rand_chacha::rand_core::Rng;

/// Visible and masked tokens of one scan, each ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniformMask {
    /// Encoded.
    pub visible: Vec<usize>,
    /// To be predicted.
    pub masked: Vec<usize>,
}

impl UniformMask {
    /// Hides a share of the tokens: what is left is rounded down, but at least one on either side.
    pub fn draw(tokens: usize, ratio: f64, rng: &mut impl Rng) -> Self {
        // The share is given in decimals: 4500 (1 - 0.75) must not become 1124 for want of a last bit.
        let keep = ((tokens as f64 * (1.0 - ratio) + 1e-9) as usize).clamp(1, tokens.saturating_sub(1).max(1));
        let mut order: Vec<usize> = (0..tokens).collect();
        shuffle(&mut order, rng);
        let mut masked = order.split_off(keep);
        order.sort_unstable();
        masked.sort_unstable();
        Self { visible: order, masked }
    }
}
