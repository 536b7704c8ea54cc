//! How well the model reconstructs masked frames of people it is not trained on: the same visits every time.

use crate::bdo::{LatentSpread, latent_spread, loss_of};
use crate::error::TrainError;
use crate::feature_measures::feature_measures;
use crate::learner::Hand;
use crate::source::{Draw, ScanSource};
use bdo_data::random::{shuffle, stream};
use bdo_data::record::{Loss, Terms, ValidationEntry};
use bdo_kernels::allocator::release_freed;
use bdo_model::batch::{BatchError, MaskedBatch};
use bdo_model::ema::EmaEncoder;
use bdo_model::intake::{MaskSettings, NoiseShape, Windows};
use bdo_model::model::Bdo;
use burn::module::Module;

/// The epoch that validation visits are keyed by: no training epoch ever has this number.
const VALIDATION_EPOCH: u64 = u64::MAX;

/// Settings of a validation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValidationPlan {
    /// Seed of the run.
    pub seed: u64,
    /// Most scans looked at.
    pub most_scans: usize,
    /// Scans at once.
    pub batch_size: usize,
    /// Frames and targets.
    pub mask: MaskSettings,
    /// Those of training, which say how whole scans are encoded.
    pub trained_mask: MaskSettings,
    /// Noise.
    pub noise: NoiseShape,
}

/// Validates; `None` where nobody is held out.
pub fn validate(
    model: &Bdo,
    teacher: &EmaEncoder,
    source: &ScanSource,
    plan: &ValidationPlan,
    step: u64,
) -> Result<Option<ValidationEntry>, TrainError> {
    let mut scans = source.validation_scans().to_vec();
    shuffle(&mut scans, &mut stream("validation", &[plan.seed]));
    scans.truncate(plan.most_scans);
    let model = model.valid();
    let device = model.device();
    let mut sums = Sums::default();
    for chunk in scans.chunks(plan.batch_size) {
        let draw = Draw {
            seed: plan.seed,
            epoch: VALIDATION_EPOCH,
            mask: plan.mask,
            noise: plan.noise,
            pairs: false,
            micro_batch_size: plan.batch_size,
            hand: Hand::ALL,
        };
        let pieces = source.batch(chunk, &draw)?.map_or_else(Vec::new, |batch| batch.pieces);
        let Some(host) = pieces.into_iter().flatten().next() else { continue };
        let (count, mean_square) = (host.scans(), host.target_mean_square());
        let batch = host.into_masked(&device);
        let pass = model.train_pass(teacher, &batch, model.loss_weights())?;
        let weight = count as f64;
        sums.scans += count;
        sums.loss.add(&loss_of(&pass).scaled(weight));
        let spread = latent_spread(&pass.encoded, &pass.grid.context.count);
        sums.spread.over_time += weight * spread.over_time;
        sums.spread.over_scans += weight * spread.over_scans;
        sums.mean_square += weight * mean_square;
        sums.mse += weight * masked_mse(&model, &batch)?;
    }
    if sums.scans == 0 {
        return Ok(None);
    }
    let mut entry = sums.entry(step);
    entry.measures.0.extend(feature_measures(&model, source, Windows::of_training(&plan.trained_mask), &scans)?.0);
    // Whole scans take more than the visits of a step.
    release_freed();
    Ok(Some(entry))
}

/// Mean squared error at targets of the noise-free reconstruction, averaged over scans.
fn masked_mse(model: &Bdo, batch: &MaskedBatch) -> Result<f64, BatchError> {
    let predicted = model.reconstruct(&batch.series, &batch.frames, &batch.region_valid)?.series;
    let [scans, frames, regions] = predicted.dims();
    let values = |tensor: burn::tensor::Tensor<3>| tensor.into_data().try_to_vec::<f32>().unwrap_or_default();
    let (predicted, truth) = (values(predicted), values(batch.series.clone()));
    let mut mean = 0.0;
    for scan in 0..scans {
        let valid = &batch.region_valid[scan * regions..(scan + 1) * regions];
        let (mut sum, mut count) = (0.0, 0usize);
        for row in scan * frames..(scan + 1) * frames {
            if !batch.frames.valid[row] || batch.frames.context[row] {
                continue;
            }
            for region in (0..regions).filter(|&r| valid[r]) {
                let error = f64::from(predicted[row * regions + region]) - f64::from(truth[row * regions + region]);
                sum += error * error;
                count += 1;
            }
        }
        mean += sum / count.max(1) as f64 / scans as f64;
    }
    Ok(mean)
}

#[derive(Default)]
struct Sums {
    scans: usize,
    loss: Loss,
    spread: LatentSpread,
    mse: f64,
    mean_square: f64,
}

impl Sums {
    fn entry(self, step: u64) -> ValidationEntry {
        let n = self.scans as f64;
        ValidationEntry {
            step,
            loss: self.loss.scaled(1.0 / n),
            measures: Terms::of([
                ("mse", self.mse / n),
                ("mean_square", self.mean_square / n),
                ("explained_variance", 1.0 - self.mse / self.mean_square),
                ("spread_over_time", self.spread.over_time / n),
                ("spread_over_scans", self.spread.over_scans / n),
            ]),
            scans: self.scans,
        }
    }
}
