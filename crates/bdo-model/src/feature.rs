//! What a scan looks like from downstream: the control at every frame, everything visible and noise off, and its mean,
//! one vector a scan.

use crate::batch::{BatchError, scan_grid};
use crate::config::Pooling;
use crate::dynamics::Frames;
use crate::model::{Bdo, Role};
use crate::objective::region_mask;
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

/// Samples in one pass of [`Bdo::feature`].
const SAMPLES_TOGETHER: usize = 4;

/// The control along scans of a batch.
#[derive(Clone, Debug)]
pub struct Controls {
    /// [B, C, d]; the rows of a sample beyond its count hold unused values.
    pub control: Tensor<3>,
    /// Real frames of each sample.
    pub counts: Vec<usize>,
}

impl Bdo {
    /// series [B, K, N] -> the control at every valid frame, whatever its role. Differentiable, so the same call serves
    /// frozen probes and fine-tuning.
    pub fn controls(&self, series: &Tensor<3>, frames: &Frames, region_valid: &[bool]) -> Result<Controls, BatchError> {
        let visible = Frames { context: frames.valid.clone(), ..frames.clone() };
        let grid = scan_grid(series, &visible, region_valid, self.config())?;
        let device = series.device();
        let series = series.clone() * region_mask(region_valid, grid.batch, (&device, series.dtype()));
        let (series, _) = self.unit_sized(series, &grid, region_valid);
        let z = self.encoder.forward(self.tokens(&series, &visible, &grid, Role::Context), None);
        Ok(Controls { control: self.dynamics.control.forward(z), counts: grid.context_count })
    }

    /// series [B, K, N] -> [B, d]. Off the tape, a few samples at a time and several such groups side by side: what a group
    /// computes stays in the caches, and no thread waits for another at every layer. Samples have nothing to do with each
    /// other, so the cut changes nothing.
    pub fn feature(&self, series: &Tensor<3>, frames: &Frames, region_valid: &[bool]) -> Result<Tensor<2>, BatchError> {
        if frames.batch <= SAMPLES_TOGETHER || series.is_autodiff() || !self.encoder.kernels().run_fused(series) {
            return self.feature_at_once(series, frames, region_valid);
        }
        // The shapes of the whole are checked before they are cut.
        let visible = Frames { context: frames.valid.clone(), ..frames.clone() };
        scan_grid(series, &visible, region_valid, self.config())?;
        let groups: Vec<usize> = (0..frames.batch).step_by(SAMPLES_TOGETHER).collect();
        let parts = groups.into_par_iter().map(|from| {
            let to = (from + SAMPLES_TOGETHER).min(frames.batch);
            let regions = region_valid.len() / frames.batch;
            let series = series.clone().narrow(0, from, to - from);
            self.feature_at_once(&series, &frames.samples(from..to), &region_valid[from * regions..to * regions])
        });
        Ok(Tensor::cat(parts.collect::<Result<Vec<_>, _>>()?, 0)) // [B, d]
    }

    /// The same for all samples in one pass.
    fn feature_at_once(
        &self,
        series: &Tensor<3>,
        frames: &Frames,
        region_valid: &[bool],
    ) -> Result<Tensor<2>, BatchError> {
        let controls = self.controls(series, frames, region_valid)?;
        match self.config().pooling {
            Pooling::Mean => Ok(controls.mean()),
        }
    }
}

impl Controls {
    /// The mean over the real frames: [B, d].
    pub fn mean(self) -> Tensor<2> {
        let [batch, slots, _] = self.control.dims();
        let share = |&count: &usize| (0..slots).map(move |slot| if slot < count { 1.0 / count as f32 } else { 0.0 });
        let shares: Vec<f32> = self.counts.iter().flat_map(share).collect();
        let place = (&self.control.device(), self.control.dtype());
        let shares = Tensor::<3>::from_data(TensorData::new(shares, [batch, slots, 1]), place);
        (self.control * shares).sum_dim(1).squeeze_dim(1) // [B, d]
    }
}
