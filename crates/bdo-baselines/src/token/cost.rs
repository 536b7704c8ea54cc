//! What a token model costs, counted: floating-point operations of its matrix products, a multiply-add as two.

use super::grid::PATCH;
use super::trunk::TrunkShape;
use crate::brainjepa::{BrainJepaConfig, GRADIENTS, JepaMasks};
use crate::brainlm::BrainLmConfig;
use bdo_data::random::stream;

/// Draws of masks whose mean stands for all of them.
const DRAWS: u64 = 64;

/// Operations of one scan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenCost {
    pub tokens: usize,
    /// Those the encoder sees in training, on average.
    pub visible: f64,
    /// Of one training step.
    pub train_flops: f64,
    /// Of a feature.
    pub embed_flops: f64,
}

/// One pass of a trunk over so many tokens: four products in attention, eight in the feed-forward layers, and every pair of
/// tokens twice.
fn trunk(shape: TrunkShape, tokens: f64) -> f64 {
    let d = shape.width as f64;
    2.0 * tokens * shape.blocks as f64 * (12.0 * d * d + 2.0 * tokens * d)
}

fn linear(rows: f64, inputs: usize, outputs: usize) -> f64 {
    2.0 * rows * inputs as f64 * outputs as f64
}

impl TokenCost {
    /// BrainLM: the encoder sees a quarter, the decoder everything; a backward pass costs two forward ones.
    pub fn of_brain_lm(config: &BrainLmConfig) -> Self {
        let (e, d, tokens) = (config.encoder, config.decoder, config.grid.tokens() as f64);
        let visible = (tokens * (1.0 - config.mask_ratio) + 1e-9).floor();
        let hidden = tokens - visible;
        let encoder = |seen: f64| linear(seen, PATCH, e.width) + trunk(e, 1.0 + seen);
        let decoder = linear(1.0 + visible, e.width, d.width)
            + trunk(d, 1.0 + tokens)
            + linear(hidden, d.width, d.width / 2)
            + linear(hidden, d.width / 2, PATCH);
        // Patches need no gradient.
        let train_flops = 3.0 * (encoder(visible) + decoder) - linear(visible, PATCH, e.width);
        Self { tokens: config.grid.tokens(), visible, train_flops, embed_flops: encoder(tokens) }
    }

    /// Brain-JEPA: the slow encoder sees everything, the fast one the context, the predictor context and targets.
    pub fn of_brain_jepa(config: &BrainJepaConfig) -> Self {
        let (e, p, tokens) = (config.encoder, config.predictor, config.grid.tokens() as f64);
        let places = linear(config.grid.regions as f64, GRADIENTS, e.width / 2);
        let encoder = |seen: f64| linear(seen, PATCH, e.width) + places + trunk(e, seen);
        let (mut visible, mut fast) = (0.0, 0.0);
        for draw in 0..DRAWS {
            let masks = JepaMasks::draw(config.grid, 1, &mut stream("token cost", &[draw]));
            let (context, targets) = (masks.context[0].len() as f64, masks.target[0].len() as f64);
            let predictor =
                linear(context, e.width, p.width) + trunk(p, context + targets) + linear(targets, p.width, e.width);
            visible += context / DRAWS as f64;
            fast += (3.0 * (encoder(context) + predictor) - linear(context, PATCH, e.width)) / DRAWS as f64;
        }
        let slow = encoder(tokens);
        Self { tokens: config.grid.tokens(), visible, train_flops: fast + slow, embed_flops: slow }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::grid::Grid;

    #[test]
    fn costs_grow_as_they_should() {
        let small = Grid { regions: 50, windows: 10 };
        let large = Grid { regions: 100, windows: 10 };
        let lm = |grid| TokenCost::of_brain_lm(&BrainLmConfig::of_width(grid, 192, true));
        let jepa = |grid| TokenCost::of_brain_jepa(&BrainJepaConfig::of_width(grid, 192));
        assert_eq!((lm(small).tokens, lm(small).visible), (500, 125.0));
        // Twice the tokens cost more than twice, because of the pairs, and less than four times.
        for (a, b) in [(lm(small), lm(large)), (jepa(small), jepa(large))] {
            let grown = b.embed_flops / a.embed_flops;
            assert!(grown > 2.0 && grown < 4.0, "{grown}");
            assert!(a.train_flops > a.embed_flops);
        }
        // By hand, one block of width 2 and one token: qkv 12, proj 4, feed-forward 32 multiply-adds, pairs 2 x 2.
        let shape = TrunkShape { width: 2, blocks: 1, heads: 1 };
        assert_eq!(trunk(shape, 1.0), 2.0 * (12.0 + 4.0 + 32.0 + 4.0));
    }
}
