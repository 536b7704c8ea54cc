//! How well the model reconstructs masked frames of people it is not trained on: the same visits every time.

use crate::bdo::{BdoData, BdoLearner, latent_spread, loss_of};
use crate::error::TrainError;
use crate::feature_measures::feature_measures;
use crate::learner::Hand;
use crate::source::Draw;
use bdo_data::random::{shuffle, stream};
use bdo_data::record::{Loss, Terms, ValidationEntry};
use bdo_kernels::allocator::release_freed;
use bdo_model::batch::{BatchError, MaskedBatch};
use bdo_model::intake::Windows;
use bdo_model::model::Bdo;
use burn::module::Module;

/// The epoch that validation visits are keyed by: no training epoch ever has this number.
const VALIDATION_EPOCH: u64 = u64::MAX;

/// Validates; `None` where nobody is held out.
pub(crate) fn validate(learner: &BdoLearner, data: &BdoData, step: u64) -> Result<Option<ValidationEntry>, TrainError> {
    let (seed, train, source) = (learner.seed, &learner.settings.train, &data.source);
    let mut chosen = source.validation_scans().to_vec();
    shuffle(&mut chosen, &mut stream("validation", &[seed]));
    chosen.truncate(train.validation_scans);
    let model = learner.model.valid();
    let device = model.device();
    let draw = Draw {
        seed,
        epoch: VALIDATION_EPOCH,
        mask: data.mask.at_ratio(data.mask.ratio),
        noise: data.noise,
        pairs: false,
        micro_batch_size: train.micro_batch_size,
        hand: Hand::ALL,
    };
    let (mut scans, mut loss, mut measures) = (0, Loss::default(), Terms::default());
    for chunk in chosen.chunks(train.micro_batch_size) {
        let pieces = source.batch(chunk, &draw)?.map_or_else(Vec::new, |batch| batch.pieces);
        let Some(host) = pieces.into_iter().flatten().next() else { continue };
        let (count, mean_square) = (host.scans(), host.target_mean_square());
        let batch = host.into_masked(&device);
        let pass = model.train_pass(&learner.teacher, &batch, model.loss_weights())?;
        let spread = latent_spread(&pass.encoded, &pass.grid.context.count);
        let found = Terms::of([
            ("mse", masked_mse(&model, &batch)?),
            ("mean_square", mean_square),
            ("spread_over_time", spread.over_time),
            ("spread_over_scans", spread.over_scans),
        ]);
        scans += count;
        loss.add(&loss_of(&pass).scaled(count as f64));
        measures.add(&found.scaled(count as f64));
    }
    if scans == 0 {
        return Ok(None);
    }
    let explained = 1.0 - measures.get("mse") / measures.get("mean_square");
    measures.0.values_mut().for_each(|sum| *sum /= scans as f64);
    measures.0.insert("explained_variance".to_owned(), explained);
    measures.0.extend(feature_measures(&model, source, Windows::of_training(&data.mask), &chosen)?.0);
    // Whole scans take more than the visits of a step.
    release_freed();
    Ok(Some(ValidationEntry { step, loss: loss.scaled(1.0 / scans as f64), measures, scans }))
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
