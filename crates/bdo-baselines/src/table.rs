//! Rows of a parameter table, as the framework the originals were written in starts them.

use bdo_model::parameters::{ParameterSpec, Start};

/// A table that is being put together.
#[derive(Clone, Debug, Default)]
pub struct Table(Vec<ParameterSpec>);

impl Table {
    /// The finished rows.
    pub fn rows(self) -> Vec<ParameterSpec> {
        self.0
    }

    /// A trained parameter.
    pub fn push(&mut self, name: &str, shape: &[usize], start: Start) {
        self.0.push(ParameterSpec { name: name.to_owned(), shape: shape.to_vec(), start, trainable: true });
    }

    /// A parameter that is kept with the others but never trained.
    pub fn push_fixed(&mut self, name: &str, shape: &[usize], start: Start) {
        self.0.push(ParameterSpec { name: name.to_owned(), shape: shape.to_vec(), start, trainable: false });
    }

    /// `name.weight` and `name.bias`, uniform within one over the root of the inputs.
    pub fn linear(&mut self, name: &str, inputs: usize, outputs: usize) {
        self.affine(name, &[outputs, inputs], inputs);
    }

    /// The same for a weight of any shape whose first axis is the outputs, with `fan_in` inputs to each.
    pub fn affine(&mut self, name: &str, shape: &[usize], fan_in: usize) {
        let bound = Start::Uniform(1.0 / (fan_in as f64).sqrt());
        self.push(&format!("{name}.weight"), shape, bound);
        self.push(&format!("{name}.bias"), &shape[..1], bound);
    }

    /// `name.weight` of ones and `name.bias` of zeros.
    pub fn norm(&mut self, name: &str, width: usize) {
        self.push(&format!("{name}.weight"), &[width], Start::Ones);
        self.push(&format!("{name}.bias"), &[width], Start::Zeros);
    }

    /// A linear layer with weight uniform in the Xavier bound and bias zero.
    pub fn xavier_linear(&mut self, name: &str, inputs: usize, outputs: usize) {
        let bound = (6.0 / (inputs + outputs) as f64).sqrt();
        self.push(&format!("{name}.weight"), &[outputs, inputs], Start::Uniform(bound));
        self.push(&format!("{name}.bias"), &[outputs], Start::Zeros);
    }
}
