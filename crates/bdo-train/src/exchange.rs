//! The sum over the micro-batches of a step, wherever they were passed over. Contributions are added up in the order of the
//! micro-batches on one rank as on many: each rank owns a slice of the gradient and adds what all of them send for it.

use crate::error::TrainError;
use crate::gradient::{NamedGradients, with_values};
use crate::learner::{Contribution, Gradients, Unread, WeightFiles};
use crate::ranks::Ranks;
use bdo_data::record::{Loss, Terms};
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Numbers of one exchange: MPI counts bytes in 32 bits.
const BUCKET: usize = 1 << 24;

/// What the micro-batches of a step add up to.
pub(crate) struct StepSum<'a, G> {
    pub(crate) loss: Loss,
    pub(crate) measures: Terms,
    gradients: G,
    unread: Option<Unread>,
    shared: Option<Shared<'a>>,
}

impl<'a, G: Gradients> StepSum<'a, G> {
    /// Before the first micro-batch. `files` are those of the learner, whose first table lists what is trained.
    pub(crate) fn new(ranks: &'a dyn Ranks, files: impl Fn() -> WeightFiles, pieces: usize) -> Self {
        let shared = (ranks.size() > 1).then(|| Shared::new(ranks, &files(), pieces));
        Self { loss: Loss::default(), measures: Terms::default(), gradients: G::default(), unread: None, shared }
    }

    /// With the next of this rank's micro-batches: one of every other rank comes with it.
    pub(crate) fn plus(mut self, mut found: Contribution<G>) -> Result<Self, TrainError> {
        if let Some(shared) = &mut self.shared {
            if let Some(unread) = found.unread.take() {
                unread.read(None, &mut found.loss, &mut found.measures);
            }
            shared.round(Some(found), &mut self.loss, &mut self.measures)?;
            return Ok(self);
        }
        self.loss.add(&found.loss);
        self.measures.add(&found.measures);
        self.gradients = self.gradients.plus(found.gradients);
        self.unread = match (self.unread, found.unread) {
            (Some(sum), Some(found)) => Some(sum.plus(found)),
            (sum, found) => sum.or(found),
        };
        Ok(self)
    }

    /// Reads what is still on a device, the norm of the gradient with it.
    pub(crate) fn read(&mut self) -> Option<f64> {
        let unread = self.unread.take()?;
        unread.read(self.gradients.squared_norm(), &mut self.loss, &mut self.measures)
    }

    /// After this rank's last micro-batch, when others may still have one.
    pub(crate) fn complete(mut self) -> Result<Self, TrainError> {
        if let Some(shared) = &mut self.shared {
            while shared.rounds < shared.pieces.div_ceil(shared.ranks.size()) {
                shared.round::<G>(None, &mut self.loss, &mut self.measures)?;
            }
        }
        Ok(self)
    }

    /// The whole gradient, on every rank.
    pub(crate) fn gradients(self) -> Result<G, TrainError> {
        match self.shared {
            None => Ok(self.gradients),
            Some(shared) => shared.collected(),
        }
    }
}

/// Report of one micro-batch to all ranks. Numbers as their bits: JSON has no NaN.
#[derive(Serialize, Deserialize)]
struct PieceReport {
    loss: u64,
    terms: Vec<(String, u64)>,
    measures: Vec<(String, u64)>,
    /// Whether it has a gradient of each parameter.
    present: Vec<bool>,
    /// See [`Gradients::apart`].
    rest: Vec<Vec<u32>>,
}

fn bits(terms: &Terms) -> Vec<(String, u64)> {
    terms.0.iter().map(|(name, value)| (name.clone(), value.to_bits())).collect()
}

fn terms(bits: Vec<(String, u64)>) -> Terms {
    Terms(bits.into_iter().map(|(name, bits)| (name, f64::from_bits(bits))).collect())
}

/// The trained parameters, one after another in the order of their table.
struct Layout(Vec<(String, Range<usize>)>);

impl Layout {
    fn of(files: &WeightFiles) -> Self {
        let mut end = 0;
        let trained = files.iter().take(1).flat_map(|(_, table)| table).filter(|spec| spec.trainable);
        let place = |spec: &bdo_model::parameters::ParameterSpec| {
            let start = end;
            end += spec.shape.iter().product::<usize>();
            (spec.name.clone(), start..end)
        };
        Self(trained.map(place).collect())
    }

    fn numbers(&self) -> usize {
        self.0.last().map_or(0, |(_, range)| range.end)
    }

    /// Gradients one after another, zero where there is none, and whether there is one.
    fn flat(&self, mut gradients: NamedGradients) -> Result<(Vec<f32>, Vec<bool>), TrainError> {
        let mut flat = vec![0.0; self.numbers()];
        let mut present = vec![false; self.0.len()];
        for ((name, range), present) in self.0.iter().zip(&mut present) {
            let Some(gradient) = gradients.0.remove(name) else { continue };
            let [found] = gradient.dims();
            if found != range.len() {
                return Err(TrainError::Shape { name: name.clone(), expected: range.len(), found });
            }
            with_values(&gradient, |values| flat[range.clone()].copy_from_slice(values));
            *present = true;
        }
        match gradients.0.into_iter().next() {
            Some((name, gradient)) => Err(TrainError::Shape { name, expected: 0, found: gradient.dims()[0] }),
            None => Ok((flat, present)),
        }
    }
}

/// A step that is shared between ranks. Micro-batches are dealt out like cards, and the ranks exchange one each at a time.
struct Shared<'a> {
    ranks: &'a dyn Ranks,
    layout: Layout,
    pieces: usize,
    rounds: usize,
    present: Vec<bool>,
    /// The sum of this rank's slice of each bucket, one after another.
    own: Vec<f32>,
    rest: Vec<Vec<f32>>,
}

impl<'a> Shared<'a> {
    fn new(ranks: &'a dyn Ranks, files: &WeightFiles, pieces: usize) -> Self {
        let layout = Layout::of(files);
        let (present, own) = (vec![false; layout.0.len()], vec![0.0; layout.numbers()]);
        let mut shared = Self { ranks, layout, pieces, rounds: 0, present, own, rest: Vec::new() };
        let slices: usize = shared.buckets().iter().map(|bucket| shared.own_slice(bucket).len()).sum();
        shared.own.truncate(slices);
        shared
    }

    fn buckets(&self) -> Vec<Range<usize>> {
        let end = self.layout.numbers();
        (0..end).step_by(BUCKET).map(|start| start..(start + BUCKET).min(end)).collect()
    }

    /// Where the slices of a bucket begin, and where the last ends.
    fn cuts(&self, bucket: &Range<usize>) -> Vec<usize> {
        let ranks = self.ranks.size();
        (0..=ranks).map(|rank| bucket.len() * rank / ranks).collect()
    }

    fn own_slice(&self, bucket: &Range<usize>) -> Range<usize> {
        let (cuts, rank) = (self.cuts(bucket), self.ranks.rank());
        bucket.start + cuts[rank]..bucket.start + cuts[rank + 1]
    }

    /// Exchanges one micro-batch of every rank that still has one.
    fn round<G: Gradients>(
        &mut self,
        found: Option<Contribution<G>>,
        loss: &mut Loss,
        measures: &mut Terms,
    ) -> Result<(), TrainError> {
        self.rounds += 1;
        let (flat, report) = match found {
            None => (vec![0.0; self.layout.numbers()], None),
            Some(found) => {
                let (gradients, rest) = found.gradients.apart();
                let (flat, present) = self.layout.flat(gradients)?;
                let rest = rest.iter().map(|values| values.iter().map(|value| value.to_bits()).collect()).collect();
                let (terms, measures) = (bits(&found.loss.terms), bits(&found.measures));
                (flat, Some(PieceReport { loss: found.loss.total.to_bits(), terms, measures, present, rest }))
            }
        };
        let reports = self.ranks.each(&report)?;
        let present: Vec<Vec<bool>> =
            reports.iter().map(|report| report.as_ref().map_or_else(Vec::new, |r| r.present.clone())).collect();
        for report in reports.into_iter().flatten() {
            loss.add(&Loss { total: f64::from_bits(report.loss), terms: terms(report.terms) });
            measures.add(&terms(report.measures));
            self.rest = report.rest.iter().map(|v| v.iter().map(|bits| f32::from_bits(*bits)).collect()).collect();
        }
        if present.iter().flatten().any(|present| *present) {
            self.add(&flat, &present)?;
        }
        Ok(())
    }

    /// Adds the gradients of all ranks to this rank's slices, in the order of ranks.
    fn add(&mut self, flat: &[f32], present: &[Vec<bool>]) -> Result<(), TrainError> {
        let (mut at, mut after) = (0, self.present.clone());
        for bucket in self.buckets() {
            let slice = self.own_slice(&bucket);
            let received = self.ranks.exchange(&flat[bucket.clone()], &self.cuts(&bucket))?;
            let sum = &mut self.own[at..at + slice.len()];
            at += slice.len();
            after.clone_from(&self.present);
            for (values, present) in received.chunks(slice.len().max(1)).zip(present) {
                add_present(&self.layout, (sum, &slice), values, (&mut after, present));
            }
            // A rank whose slice is empty receives nothing and must still know what there is a gradient of.
            for present in present {
                after.iter_mut().zip(present).for_each(|(after, present)| *after |= present);
            }
        }
        self.present = after;
        Ok(())
    }

    /// The slices of all ranks, as gradients.
    fn collected<G: Gradients>(self) -> Result<G, TrainError> {
        let (mut flat, mut at) = (Vec::with_capacity(self.layout.numbers()), 0);
        for bucket in self.buckets() {
            let own = self.own_slice(&bucket).len();
            flat.extend(self.ranks.collect(&self.own[at..at + own], &self.cuts(&bucket))?);
            at += own;
        }
        let device = Device::flex();
        let tensor = |range: &Range<usize>| {
            Tensor::from_data(TensorData::new(flat[range.clone()].to_vec(), [range.len()]), &device)
        };
        let with = self.layout.0.iter().zip(&self.present).filter(|(_, present)| **present);
        let named = with.map(|((name, range), _)| (name.clone(), tensor(range))).collect();
        Ok(G::together(NamedGradients(named), self.rest))
    }
}

/// Adds the part of each parameter that lies in a slice; the first gradient of a parameter is the sum so far.
fn add_present(
    layout: &Layout,
    (sum, slice): (&mut [f32], &Range<usize>),
    values: &[f32],
    (before, present): (&mut [bool], &[bool]),
) {
    for (((_, range), before), present) in layout.0.iter().zip(before).zip(present) {
        let (from, to) = (range.start.max(slice.start), range.end.min(slice.end));
        if from >= to || !present {
            continue;
        }
        let part = from - slice.start..to - slice.start;
        let (sum, values) = (&mut sum[part.clone()], &values[part]);
        if *before {
            sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        } else {
            sum.copy_from_slice(values);
        }
        *before = true;
    }
}
