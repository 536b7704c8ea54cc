//! A linear head on a feature vector, as a network of the supervised loop.

use crate::network::{Batch, Network, Pass, Training};
use crate::table::Table;
use crate::train::objective::Reduction;
use crate::train::recipe::{Rate, Recipe, Selection};
use bdo_model::layer::{Linear, Source};
use bdo_model::parameters::{ParameterError, ParameterSpec};
use burn::module::Module;

/// Feature to one number.
#[derive(Module, Debug)]
pub struct LinearHead {
    /// d -> 1.
    pub linear: Linear,
}

impl Network for LinearHead {
    /// Width of the feature.
    type Config = usize;

    fn table(config: &usize) -> Vec<ParameterSpec> {
        let mut table = Table::default();
        table.linear("linear", *config, 1);
        table.rows()
    }

    fn build(config: &usize, source: &mut Source) -> Result<Self, ParameterError> {
        Ok(Self { linear: source.linear("linear", *config, 1, true)? })
    }

    fn pass(&self, batch: &Batch, _: Option<&Training>) -> Pass {
        let samples = batch.nodes.dims()[0];
        let output = self.linear.forward(batch.nodes.clone()).reshape([samples, 1]);
        Pass { output, penalty: None, statistics: Vec::new() }
    }
}

/// The twelve settings of the protocol's linear probe.
pub fn probe_recipes() -> Vec<Recipe> {
    let mut recipes = Vec::new();
    for batch_size in [16, 32, 64] {
        for from in [1e-2, 5e-3] {
            for to in [1e-3, 5e-3] {
                recipes.push(Recipe {
                    epochs: 50,
                    batch_size,
                    drop_last: false,
                    rate: Rate::Cosine { from, to },
                    weight_decay: 0.0,
                    mixup: false,
                    reduction: Reduction::Mean,
                    selection: Selection::Protocol,
                    layer_decay: None,
                    max_minutes: 0.0,
                });
            }
        }
    }
    recipes
}
