//! Context and target frames merged into one sorted grid, and the zero-order hold on it: which context token drives
//! which step, for how long. Plain index arithmetic, done once per batch.

use crate::config::{Lead, ModelConfig};
use crate::device::upload;
use crate::ops::{self, Kernels};
use burn::tensor::{DType, Device, Tensor, TensorData};

/// Time stamps and roles of a batch of frames, row-major [batch, frames], padding at the end of each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Frames {
    /// Number of samples.
    pub batch: usize,
    /// Frames per sample, padding included.
    pub frames: usize,
    /// Seconds since the first kept volume of the scan.
    pub times_seconds: Vec<f64>,
    /// True where the encoder may look.
    pub context: Vec<bool>,
    /// False at padding.
    pub valid: Vec<bool>,
}

/// Everything the model needs to know about the frames, computed from [`Frames`].
#[derive(Clone, Debug, PartialEq)]
pub struct UnionGrid {
    /// Number of samples, B.
    pub batch: usize,
    /// Frames per sample, K.
    pub frames: usize,
    /// Frames the encoder looks at.
    pub context: Slots,
    /// Frames that are hidden.
    pub target: Slots,
    /// Driving tokens per sample: context slots, plus one for a learned lead.
    pub tokens: usize,
    /// [B * K] row of the flattened [B * tokens] tokens that drives each step.
    pub driver: Vec<usize>,
    /// [B * K] scaled length of each step; 0 at padding.
    pub delta: Vec<f32>,
    /// [B * tokens] scaled time each token holds.
    pub held: Vec<f32>,
}

/// The frames of one role, as lists of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Slots {
    /// Per sample: the largest count in the batch.
    pub slots: usize,
    /// Real frames of each sample.
    pub count: Vec<usize>,
    /// [B * `slots`] row of the flattened [B * K] frames; padding repeats a frame of the same sample.
    pub row: Vec<usize>,
}

/// Frames that make no grid.
#[derive(Debug, thiserror::Error, PartialEq)]
#[allow(missing_docs)] // The messages say it.
pub enum GridError {
    /// A row-major vector has the wrong length.
    #[error("`{field}` must have {expected} entries (batch x frames), found {found}")]
    Length { field: &'static str, expected: usize, found: usize },
    /// An empty batch.
    #[error("a batch needs at least one sample and one frame, found {batch} x {frames}")]
    Empty { batch: usize, frames: usize },
    /// No context frame to drive the process.
    #[error("sample {sample} has no context frame; at least 1 is needed")]
    NoContext { sample: usize },
    /// Times not finite, negative or not increasing.
    #[error(
        "sample {sample}, frame {frame}: times must be finite, at least 0 and increasing, found {found} s after {previous} s"
    )]
    Time { sample: usize, frame: usize, found: f64, previous: f64 },
    /// A real frame after padding.
    #[error("sample {sample}, frame {frame}: a real frame follows padding; padding belongs at the end")]
    Padding { sample: usize, frame: usize },
}

impl Frames {
    fn check(&self) -> Result<(), GridError> {
        if self.batch == 0 || self.frames == 0 {
            return Err(GridError::Empty { batch: self.batch, frames: self.frames });
        }
        let expected = self.batch * self.frames;
        for (field, found) in
            [("times_seconds", self.times_seconds.len()), ("context", self.context.len()), ("valid", self.valid.len())]
        {
            if found != expected {
                return Err(GridError::Length { field, expected, found });
            }
        }
        (0..self.batch).try_for_each(|sample| self.check_sample(sample))
    }

    fn check_sample(&self, sample: usize) -> Result<(), GridError> {
        let rows = sample * self.frames..(sample + 1) * self.frames;
        let real = self.valid[rows.clone()].iter().take_while(|&&valid| valid).count();
        if let Some(extra) = self.valid[rows.clone()].iter().skip(real).position(|&valid| valid) {
            return Err(GridError::Padding { sample, frame: real + extra });
        }
        let times = &self.times_seconds[rows.clone()][..real];
        for (frame, &found) in times.iter().enumerate() {
            let previous = if frame == 0 { 0.0 } else { times[frame - 1] };
            let increasing = found > previous || (frame == 0 && found == 0.0);
            if !(found.is_finite() && increasing) {
                return Err(GridError::Time { sample, frame, found, previous });
            }
        }
        if !self.context[rows][..real].contains(&true) {
            return Err(GridError::NoContext { sample });
        }
        Ok(())
    }
}

impl UnionGrid {
    /// Computes the grid, or says what is wrong with the frames.
    pub fn new(frames: &Frames, config: &ModelConfig) -> Result<Self, GridError> {
        frames.check()?;
        let k = frames.frames;
        let (context, target) = (Slots::of(frames, true), Slots::of(frames, false));
        let tokens = context.slots + usize::from(config.dynamics.lead == Lead::LearnedToken);
        let mut grid = Self {
            batch: frames.batch,
            frames: k,
            context,
            target,
            tokens,
            driver: Vec::with_capacity(frames.batch * k),
            delta: Vec::with_capacity(frames.batch * k),
            held: Vec::new(),
        };
        let mut held = vec![0f64; frames.batch * grid.tokens];
        for sample in 0..frames.batch {
            grid.hold(frames, sample, config, &mut held);
        }
        grid.held = held.into_iter().map(|length| length as f32).collect();
        Ok(grid)
    }

    /// Left-endpoint hold: the control computed at a context frame acts on the interval that starts there.
    fn hold(&mut self, frames: &Frames, sample: usize, config: &ModelConfig, held: &mut [f64]) {
        let first = sample * self.tokens;
        let mut driver = match config.dynamics.lead {
            Lead::FirstContext => first,
            Lead::LearnedToken => first + self.tokens - 1,
        };
        let mut seen = 0;
        let mut previous = 0.0;
        for row in sample * self.frames..(sample + 1) * self.frames {
            let delta = if frames.valid[row] {
                let now = config.time_scale * frames.times_seconds[row];
                let delta = now - previous;
                previous = now;
                delta
            } else {
                0.0
            };
            self.driver.push(driver);
            self.delta.push(delta as f32);
            held[driver] += delta;
            if frames.valid[row] && frames.context[row] {
                driver = first + seen;
                seen += 1;
            }
        }
    }
}

impl Slots {
    /// Of the frames that are visible, or of those that are not. A sample without any points at its own first frame, which
    /// nothing reads.
    fn of(frames: &Frames, visible: bool) -> Self {
        let k = frames.frames;
        let members = |sample: usize| -> Vec<usize> {
            (sample * k..(sample + 1) * k).filter(|&row| frames.valid[row] && frames.context[row] == visible).collect()
        };
        let lists: Vec<Vec<usize>> = (0..frames.batch).map(members).collect();
        let slots = lists.iter().map(Vec::len).max().unwrap_or(0);
        let padded = |(sample, list): (usize, &Vec<usize>)| {
            let filler = list.first().copied().unwrap_or(sample * k);
            list.iter().copied().chain(std::iter::repeat(filler)).take(slots).collect::<Vec<_>>()
        };
        let row = lists.iter().enumerate().flat_map(padded).collect();
        Self { slots, count: lists.iter().map(Vec::len).collect(), row }
    }

    /// [B, `slots`, 1]: one over the frames of a sample, and over a further number of it; 0 at padding.
    pub(crate) fn shares(&self, further: impl Fn(usize) -> usize, place: (&Device, DType)) -> Tensor<3> {
        shares(&self.count, self.slots, further, place)
    }

    /// The rows of a batch [B, K, ...] that are in the slots: [B, slots, ...].
    pub(crate) fn of_batch(&self, kernels: Kernels, values: &Tensor<3>) -> Tensor<3> {
        ops::rows(kernels, values, &self.row, self.slots)
    }
}

/// [B, `slots`, 1]: one over each of the counts and over a further number of its sample; 0 beyond the count.
pub(crate) fn shares(
    counts: &[usize],
    slots: usize,
    further: impl Fn(usize) -> usize,
    place: (&Device, DType),
) -> Tensor<3> {
    let share = |(sample, &count): (usize, &usize)| {
        let share = 1.0 / (count * further(sample)).max(1) as f32;
        (0..slots).map(move |slot| if slot < count { share } else { 0.0 })
    };
    let values: Vec<f32> = counts.iter().enumerate().flat_map(share).collect();
    upload(TensorData::new(values, [counts.len(), slots, 1]), place)
}
