//! The sum over the micro-batches of a step, wherever they were passed over. Contributions are added up in the order of the
//! micro-batches on one rank as on many: each rank owns a slice of the gradient and adds what all of them send for it.

use crate::error::TrainError;
use crate::gradient::{NamedGradients, with_values};
use crate::learner::{Contribution, WeightFiles};
use crate::ranks::Ranks;
use bdo_data::record::{Loss, Terms};
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Numbers of one exchange: MPI counts bytes in 32 bits.
const BUCKET: usize = 1 << 24;
/// What changes no number it is added to: plus zero would change minus zero.
const NOTHING: f32 = -0.0;

/// What the micro-batches of a step add up to.
pub(crate) struct StepSum<'a> {
    /// Without gradients where other ranks have a part in them.
    pub(crate) of_pieces: Contribution,
    shared: Option<Shared<'a>>,
}

impl<'a> StepSum<'a> {
    /// Before the first micro-batch. `files` are those of the learner, whose first table lists what is trained.
    pub(crate) fn new(ranks: &'a dyn Ranks, files: impl Fn() -> WeightFiles, pieces: usize) -> Self {
        let shared = (ranks.size() > 1).then(|| Shared::new(ranks, &files(), pieces));
        Self { of_pieces: Contribution::default(), shared }
    }

    /// With the next of this rank's micro-batches: one of every other rank comes with it.
    pub(crate) fn plus(mut self, mut found: Contribution) -> Result<Self, TrainError> {
        let Some(shared) = &mut self.shared else {
            return Ok(Self { of_pieces: self.of_pieces.plus(found), shared: None });
        };
        if let Some(unread) = found.unread.take() {
            unread.read(None, &mut found.loss, &mut found.measures);
        }
        shared.round(Some(found), &mut self.of_pieces)?;
        Ok(self)
    }

    /// Reads what is still on a device, the norm of the gradient with it.
    pub(crate) fn read(&mut self) -> Option<f64> {
        let sum = &mut self.of_pieces;
        sum.unread.take()?.read(sum.gradients.squared_norm(), &mut sum.loss, &mut sum.measures)
    }

    /// After this rank's last micro-batch, when others may still have one.
    pub(crate) fn complete(mut self) -> Result<Self, TrainError> {
        if let Some(shared) = &mut self.shared {
            while shared.rounds < shared.pieces.div_ceil(shared.ranks.size()) {
                shared.round(None, &mut self.of_pieces)?;
            }
        }
        Ok(self)
    }

    /// The whole gradient, on every rank, and the running statistics.
    pub(crate) fn gradients(self) -> Result<(NamedGradients, Vec<Vec<f32>>), TrainError> {
        let gradients = match self.shared {
            None => self.of_pieces.gradients,
            Some(shared) => shared.collected()?,
        };
        Ok((gradients, self.of_pieces.statistics))
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
    statistics: Vec<Vec<u32>>,
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

    /// Gradients one after another, [`NOTHING`] where there is none, and whether there is one.
    fn flat(&self, mut gradients: NamedGradients) -> Result<(Vec<f32>, Vec<bool>), TrainError> {
        let mut flat = vec![NOTHING; self.numbers()];
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
    /// Whether any micro-batch so far had a gradient of each parameter.
    present: Vec<bool>,
    /// The sum of this rank's slice of each bucket, one after another.
    own: Vec<f32>,
}

impl<'a> Shared<'a> {
    fn new(ranks: &'a dyn Ranks, files: &WeightFiles, pieces: usize) -> Self {
        let layout = Layout::of(files);
        let present = vec![false; layout.0.len()];
        let mut shared = Self { ranks, layout, pieces, rounds: 0, present, own: Vec::new() };
        let slices = shared.buckets().iter().map(|bucket| shared.own_length(bucket)).sum();
        shared.own = vec![NOTHING; slices];
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

    fn own_length(&self, bucket: &Range<usize>) -> usize {
        let (cuts, rank) = (self.cuts(bucket), self.ranks.rank());
        cuts[rank + 1] - cuts[rank]
    }

    /// Exchanges one micro-batch of every rank that still has one.
    fn round(&mut self, found: Option<Contribution>, sum: &mut Contribution) -> Result<(), TrainError> {
        self.rounds += 1;
        let (flat, report) = match found {
            None => (vec![NOTHING; self.layout.numbers()], None),
            Some(Contribution { loss, measures, gradients, statistics, .. }) => {
                let (flat, present) = self.layout.flat(gradients)?;
                let statistics = statistics.iter().map(|v| v.iter().map(|x| x.to_bits()).collect()).collect();
                let (terms, measures) = (bits(&loss.terms), bits(&measures));
                (flat, Some(PieceReport { loss: loss.total.to_bits(), terms, measures, present, statistics }))
            }
        };
        let mut any = false;
        for report in self.ranks.each(&report)?.into_iter().flatten() {
            sum.loss.add(&Loss { total: f64::from_bits(report.loss), terms: terms(report.terms) });
            sum.measures.add(&terms(report.measures));
            let numbers = |bits: &Vec<u32>| bits.iter().map(|x| f32::from_bits(*x)).collect();
            sum.statistics = report.statistics.iter().map(numbers).collect();
            any |= report.present.contains(&true);
            self.present.iter_mut().zip(report.present).for_each(|(present, here)| *present |= here);
        }
        if any { self.add(&flat) } else { Ok(()) }
    }

    /// Adds the gradients of all ranks to this rank's slices, in the order of ranks.
    fn add(&mut self, flat: &[f32]) -> Result<(), TrainError> {
        let mut at = 0;
        for bucket in self.buckets() {
            let length = self.own_length(&bucket);
            let received = self.ranks.exchange(&flat[bucket.clone()], &self.cuts(&bucket))?;
            for values in received.chunks(length.max(1)) {
                self.own[at..at + length].iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
            at += length;
        }
        Ok(())
    }

    /// The slices of all ranks, as gradients.
    fn collected(self) -> Result<NamedGradients, TrainError> {
        let (mut flat, mut at) = (Vec::with_capacity(self.layout.numbers()), 0);
        for bucket in self.buckets() {
            let own = self.own_length(&bucket);
            flat.extend(self.ranks.collect(&self.own[at..at + own], &self.cuts(&bucket))?);
            at += own;
        }
        let device = Device::flex();
        let tensor = |range: &Range<usize>| {
            Tensor::from_data(TensorData::new(flat[range.clone()].to_vec(), [range.len()]), &device)
        };
        let with = self.layout.0.iter().zip(&self.present).filter(|(_, present)| **present);
        Ok(NamedGradients(with.map(|((name, range), _)| (name.clone(), tensor(range))).collect()))
    }
}
