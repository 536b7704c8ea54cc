//! One vector per scan for downstream tasks: the mean control over all frames, everything visible and noise off.

use crate::batch::{BatchError, scan_grid};
use crate::config::Pooling;
use crate::dynamics::Frames;
use crate::model::{Bdo, Role};
use crate::objective::region_mask;
use burn::tensor::{Tensor, TensorData};

impl Bdo {
    /// series [B, K, N] -> [B, d]. Every valid frame counts as visible whatever its role. Differentiable, so the same
    /// call serves frozen probes and fine-tuning.
    pub fn feature(&self, series: &Tensor<3>, frames: &Frames, region_valid: &[bool]) -> Result<Tensor<2>, BatchError> {
        let visible = Frames { context: frames.valid.clone(), ..frames.clone() };
        let grid = scan_grid(series, &visible, region_valid, self.config())?;
        let device = series.device();
        let series = series.clone() * region_mask(region_valid, grid.batch, (&device, series.dtype()));
        let z = self.encoder.forward(self.tokens(&series, &visible, &grid, Role::Context), None);
        let control = self.dynamics.control.forward(z); // [B, C, d]
        match self.config().pooling {
            Pooling::Mean => {
                let slots = grid.context_slots;
                let share =
                    |&count: &usize| (0..slots).map(move |slot| if slot < count { 1.0 / count as f32 } else { 0.0 });
                let shares: Vec<f32> = grid.context_count.iter().flat_map(share).collect();
                let shares =
                    Tensor::<3>::from_data(TensorData::new(shares, [grid.batch, slots, 1]), (&device, series.dtype()));
                Ok((control * shares).sum_dim(1).squeeze_dim(1)) // [B, d]
            }
        }
    }
}
