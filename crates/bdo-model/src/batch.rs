//! One training batch, with every random number it needs.

use crate::config::ModelConfig;
use crate::dynamics::{Frames, GridError, UnionGrid};
use crate::intake::Kin;
use burn::tensor::Tensor;

/// Scans with context and target frames, and the noise of this step. All tensors live on the model's device.
#[derive(Clone, Debug)]
pub struct MaskedBatch {
    /// [B, K, N] scaled region values, 0 where missing or padded.
    pub series: Tensor<3>,
    /// Time stamps and roles of the K frames.
    pub frames: Frames,
    /// [B * N] false at missing regions: 0 in the input and outside the loss.
    pub region_valid: Vec<bool>,
    /// [B, K, d] standard normal, read at context frames; unused if the configuration does not sample latents.
    pub latent_noise: Tensor<3>,
    /// One [B, K, d] standard normal per state draw, read at target frames.
    pub process_noise: Vec<Tensor<3>>,
    /// Key of this step's dropout masks; unused at rate 0.
    pub dropout_key: [u8; 32],
    /// Whose visit each sample is.
    pub kin: Vec<Kin>,
}

/// A batch that does not fit the model.
#[derive(Debug, thiserror::Error, PartialEq)]
#[allow(missing_docs)] // The messages say it.
pub enum BatchError {
    #[error(transparent)]
    Grid(#[from] GridError),
    /// A tensor has the wrong shape.
    #[error("`{field}` has shape {found:?}, expected {expected:?}")]
    Shape { field: &'static str, expected: Vec<usize>, found: Vec<usize> },
    /// Another number of state draws than configured.
    #[error("`process_noise` must hold {expected} draws, found {found}")]
    Draws { expected: usize, found: usize },
    /// Nothing to predict.
    #[error("sample {sample} has no target frame; at least 1 is needed")]
    NoTarget { sample: usize },
    /// Nothing to compare.
    #[error("sample {sample} has no valid region; at least 1 is needed")]
    NoRegion { sample: usize },
}

impl MaskedBatch {
    /// Checks the batch against a configuration and lays out its grid.
    pub fn grid(&self, config: &ModelConfig) -> Result<UnionGrid, BatchError> {
        let grid = scan_grid(&self.series, &self.frames, &self.region_valid, config)?;
        let noise = [grid.batch, grid.frames, config.width];
        expect_shape("latent_noise", &self.latent_noise, noise)?;
        if self.process_noise.len() != config.loss.monte_carlo_samples {
            return Err(BatchError::Draws {
                expected: config.loss.monte_carlo_samples,
                found: self.process_noise.len(),
            });
        }
        for draw in &self.process_noise {
            expect_shape("process_noise", draw, noise)?;
        }
        match grid.target.count.iter().position(|&count| count == 0) {
            Some(sample) => Err(BatchError::NoTarget { sample }),
            None => Ok(grid),
        }
    }
}

/// Checks series, frames and regions against a configuration and lays out the grid.
pub(crate) fn scan_grid(
    series: &Tensor<3>,
    frames: &Frames,
    region_valid: &[bool],
    config: &ModelConfig,
) -> Result<UnionGrid, BatchError> {
    let grid = UnionGrid::new(frames, config)?;
    expect_shape("series", series, [grid.batch, grid.frames, config.regions])?;
    if region_valid.len() != grid.batch * config.regions {
        return Err(BatchError::Shape {
            field: "region_valid",
            expected: vec![grid.batch * config.regions],
            found: vec![region_valid.len()],
        });
    }
    match region_valid.chunks_exact(config.regions).position(|row| !row.contains(&true)) {
        Some(sample) => Err(BatchError::NoRegion { sample }),
        None => Ok(grid),
    }
}

fn expect_shape(field: &'static str, tensor: &Tensor<3>, expected: [usize; 3]) -> Result<(), BatchError> {
    let found = tensor.dims();
    if found == expected {
        return Ok(());
    }
    Err(BatchError::Shape { field, expected: expected.to_vec(), found: found.to_vec() })
}
