//! What a control says of the regions: the linear map from control to region values that fits the training scans best.
//!
//! Pre-training leaves the control on a few strong directions; the others are weak but far from empty. A map fitted by least
//! squares does not care how strong a direction is, so what it reads out of the control, and everything correlated with
//! that, stays the same under any invertible change of the control's coordinates. It is fitted once, without labels, on
//! people the model was trained on, and lies beside the weights.

use crate::control::{Encoded, encode_cohort};
use crate::error::ModelError;
use crate::familiarity::{self, Familiarity};
use crate::frozen::FrozenModel;
use crate::parameters::{ParameterSpec, Parameters, Start};
use crate::weights::{WEIGHTS_FILE, read_parameters, write_parameters};
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::durable::{self, FileError};
use bdo_data::scaler::ScaledScan;
use bdo_data::shard::spread;
use bdo_kernels::linalg::solve_normal;
use burn::tensor::Device;
use faer::Mat;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Description of a readout: the people and scans it was fitted on.
pub const READOUT_FILE: &str = "readout.json";
/// Its numbers.
pub const READOUT_NUMBERS_FILE: &str = "readout.safetensors";
const WEIGHT: &str = "readout.weight";
/// Scans a readout is fitted on at most, evenly spread over the training scans: each has hundreds of frames.
const MOST_SCANS: usize = 512;
/// Penalty on a coordinate, relative to its variance: keeps coordinates that are copies of others from deciding.
const PENALTY: f64 = 1e-6;

/// The map, `[regions, width]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Readout {
    regions: usize,
    width: usize,
    weights: Vec<f32>,
    note: ReadoutNote,
}

/// Contents of [`READOUT_FILE`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadoutNote {
    /// Scans it was fitted on, all of people the model was trained on.
    pub scans: usize,
    /// Share of the variance of regions it finds in the control, over those scans.
    pub explained: f64,
    /// In how many directions the control moves over time: the square of the sum of its variances along eigenvectors over the
    /// sum of their squares, between 1 and the width. A control that has collapsed is near 1.
    pub directions: f64,
    /// BLAKE3 of the weights it belongs to: with others it means nothing.
    pub weights_blake3: String,
    /// BLAKE3 of the file of numbers.
    pub numbers_blake3: String,
}

impl Readout {
    /// Fits on scans of the cohort whose people the model was trained on.
    pub fn fit(frozen: &FrozenModel, cohort: &Cohort, observer: &dyn Observer) -> Result<Self, ModelError> {
        let known = frozen.people.known_in(cohort);
        let trained = |i: &usize| known.is_trained(&cohort.index()[*i].id.subject);
        let all: Vec<usize> = (0..cohort.len()).filter(trained).collect();
        let scans = spread(&all, MOST_SCANS);
        let config = frozen.model.config();
        let mut sums = Sums::new(config.width, config.regions);
        encode_cohort(frozen, cohort, &scans, observer, |_, encoded| sums.add(&encoded))?;
        if sums.scans == 0 {
            return Err(ModelError::refused(
                cohort.folder(),
                "scans of people the model was trained on",
                "none of them",
            ));
        }
        let (weights, explained) = sums.solve();
        let note = ReadoutNote {
            scans: sums.scans,
            explained,
            directions: sums.directions(),
            weights_blake3: weights_blake3(&frozen.folder)?,
            numbers_blake3: String::new(),
        };
        Ok(Self { regions: config.regions, width: config.width, weights, note })
    }

    /// The readout in a model directory, if there is one and it belongs to the weights beside it.
    pub(crate) fn read(folder: &Path, regions: usize, width: usize) -> Result<Option<Self>, ModelError> {
        let file = folder.join(READOUT_FILE);
        if !file.is_file() {
            return Ok(None);
        }
        let note: ReadoutNote = serde_json::from_slice(&durable::read(&file)?)
            .map_err(|error| ModelError::refused(&file, "what a readout was fitted on", error))?;
        if note.weights_blake3 != weights_blake3(folder)? {
            return Ok(None);
        }
        let numbers = folder.join(READOUT_NUMBERS_FILE);
        let found = blake3::hash(&durable::read(&numbers)?).to_hex().to_string();
        if found != note.numbers_blake3 {
            return Err(ModelError::refused(&numbers, format!("BLAKE3 {}", note.numbers_blake3), found));
        }
        let mut parameters = read_parameters(&numbers, &layout(regions, width))?;
        let weights = parameters.0.remove(WEIGHT).map(|array| array.values).unwrap_or_default();
        Ok(Some(Self { regions, width, weights, note }))
    }

    /// Puts it into a model directory: numbers first, because a reader starts with the note.
    pub(crate) fn write(&mut self, folder: &Path) -> Result<(), ModelError> {
        let numbers = folder.join(READOUT_NUMBERS_FILE);
        let parameters = Parameters::of([(WEIGHT, vec![self.regions, self.width], self.weights.clone())]);
        write_parameters(&numbers, &layout(self.regions, self.width), &parameters)?;
        self.note.numbers_blake3 = blake3::hash(&durable::read(&numbers)?).to_hex().to_string();
        Ok(durable::write_json(&folder.join(READOUT_FILE), &self.note)?)
    }

    /// Its description.
    pub fn note(&self) -> &ReadoutNote {
        &self.note
    }

    /// Unit columns of what the control says of every region: [frames, regions].
    pub(crate) fn said(&self, control: &[f32]) -> Mat<f32> {
        let frames = control.len() / self.width;
        let control = Mat::from_fn(frames, self.width, |t, k| control[t * self.width + k]);
        let weights = Mat::from_fn(self.width, self.regions, |k, r| self.weights[r * self.width + k]);
        unit_columns(&control * &weights)
    }
}

/// Scans that [`ensure_readout`] encodes for a model that was trained and validated on so many.
pub fn encoded_for(trained: usize, validated: usize) -> usize {
    trained.min(MOST_SCANS) + trained.min(familiarity::MOST_SCANS[0]) + validated.min(familiarity::MOST_SCANS[1])
}

/// Makes sure that the model in `folder` has a readout that belongs to its weights; scans are encoded on a device.
pub fn ensure_readout(
    folder: &Path,
    device: &Device,
    cohort: &Cohort,
    observer: &dyn Observer,
) -> Result<ReadoutNote, ModelError> {
    let frozen = FrozenModel::read_on(folder, device)?;
    ensure_familiarity(&frozen, cohort, observer)?;
    if let Some(readout) = &frozen.readout {
        return Ok(readout.note.clone());
    }
    let mut readout = Readout::fit(&frozen, cohort, observer)?;
    readout.write(folder)?;
    Ok(readout.note)
}

/// Makes sure that a model directory says which scans are familiar, from its training people and those it was validated on.
fn ensure_familiarity(frozen: &FrozenModel, cohort: &Cohort, observer: &dyn Observer) -> Result<(), ModelError> {
    if Familiarity::read(&frozen.folder, &frozen.blake3)?.is_some() {
        return Ok(());
    }
    let known = frozen.people.known_in(cohort);
    let validated = frozen.notes.as_ref().map(|notes| &notes.validation_people);
    let subject = |i: &usize| cohort.index()[*i].id.subject.as_str();
    let training: Vec<usize> = (0..cohort.len()).filter(|i| known.is_trained(subject(i))).collect();
    let others: Vec<usize> =
        (0..cohort.len()).filter(|i| validated.is_some_and(|list| known.is_listed(list, subject(i)))).collect();
    match Familiarity::of_cohort(frozen, cohort, &training, &others, observer)? {
        Some(found) => found.write(&frozen.folder, &frozen.blake3),
        None => Ok(()),
    }
}

/// Unit columns of the regions of a scan: [frames, regions]; 0 where a region is missing or constant.
pub(crate) fn unit_regions(scan: &ScaledScan) -> Mat<f32> {
    let regions = scan.region_valid.len();
    let value = |t: usize, r: usize| if scan.region_valid[r] { scan.values[t * regions + r] } else { 0.0 };
    unit_columns(Mat::from_fn(scan.times_seconds.len(), regions, value))
}

/// Every column centred and divided by its length; 0 where it does not move.
fn unit_columns(mut columns: Mat<f32>) -> Mat<f32> {
    let frames = columns.nrows();
    for mut column in columns.col_iter_mut() {
        let mean = (0..frames).map(|t| f64::from(column[t])).sum::<f64>() / frames.max(1) as f64;
        let square = (0..frames).map(|t| (f64::from(column[t]) - mean).powi(2)).sum::<f64>();
        let scale = if square > 1e-20 { 1.0 / square.sqrt() } else { 0.0 };
        (0..frames).for_each(|t| column[t] = ((f64::from(column[t]) - mean) * scale) as f32);
    }
    columns
}

/// Second moments over scans, every scan with the same weight.
struct Sums {
    scans: usize,
    /// Of the control.
    control: Mat<f64>,
    /// Control with unit regions: [width, regions].
    cross: Mat<f64>,
    /// Regions seen, over scans.
    seen: f64,
}

impl Sums {
    fn new(width: usize, regions: usize) -> Self {
        Self { scans: 0, control: Mat::zeros(width, width), cross: Mat::zeros(width, regions), seen: 0.0 }
    }

    fn add(&mut self, encoded: &Encoded<'_>) {
        let (width, frames) = (encoded.control.width, encoded.scan.times_seconds.len());
        let mut control = Mat::from_fn(frames, width, |t, k| f64::from(encoded.control.values[t * width + k]));
        for mut column in control.col_iter_mut() {
            let mean = (0..frames).map(|t| column[t]).sum::<f64>() / frames as f64;
            (0..frames).for_each(|t| column[t] = (column[t] - mean) / (frames as f64).sqrt());
        }
        let regions = unit_regions(encoded.scan);
        let regions = Mat::from_fn(frames, regions.ncols(), |t, r| f64::from(regions[(t, r)]));
        self.control += control.transpose() * &control;
        self.cross += control.transpose() * &regions;
        self.seen += encoded.scan.region_valid.iter().filter(|valid| **valid).count() as f64;
        self.scans += 1;
    }

    fn directions(&self) -> f64 {
        let width = self.control.nrows();
        let trace = (0..width).map(|k| self.control[(k, k)]).sum::<f64>();
        let squares = self.control.col_iter().map(|column| column.squared_norm_l2()).sum::<f64>();
        if squares > 0.0 { trace * trace / squares } else { 0.0 }
    }

    /// Weights [regions, width] and the share of variance they explain. Coordinates are brought to one size first, so
    /// that the penalty means the same for all of them.
    fn solve(&self) -> (Vec<f32>, f64) {
        let (width, regions) = (self.control.nrows(), self.cross.ncols());
        let size: Vec<f64> = (0..width).map(|k| self.control[(k, k)].sqrt().max(1e-12)).collect();
        let normal = Mat::from_fn(width, width, |i, j| {
            self.control[(i, j)] / (size[i] * size[j]) + if i == j { PENALTY } else { 0.0 }
        });
        let cross = Mat::from_fn(width, regions, |k, r| self.cross[(k, r)] / size[k]);
        let solution = solve_normal(&normal, &cross);
        let explained: f64 =
            (0..regions).map(|r| (0..width).map(|k| solution[(k, r)] * cross[(k, r)]).sum::<f64>()).sum();
        let weights = (0..regions).flat_map(|r| (0..width).map(move |k| (r, k)));
        let weights = weights.map(|(r, k)| (solution[(k, r)] / size[k]) as f32).collect();
        (weights, explained / self.seen.max(1.0))
    }
}

fn weights_blake3(folder: &Path) -> Result<String, FileError> {
    Ok(blake3::hash(&durable::read(&folder.join(WEIGHTS_FILE))?).to_hex().to_string())
}

fn layout(regions: usize, width: usize) -> Vec<ParameterSpec> {
    vec![ParameterSpec { name: WEIGHT.into(), shape: vec![regions, width], start: Start::Zeros, trainable: false }]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::control::ControlSequence;
    use crate::pooling::Pooling;

    #[derive(Deserialize)]
    struct Golden {
        width: usize,
        scans: Vec<GoldenScan>,
        weights: Vec<f32>,
        explained: f64,
        directions: f64,
        coupling: Vec<f32>,
        between_said: Vec<f32>,
    }

    #[derive(Deserialize)]
    struct GoldenScan {
        control: Vec<f32>,
        regions: Vec<f32>,
        valid: Vec<bool>,
    }

    fn golden() -> Golden {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/golden/readout.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    fn scaled(scan: &GoldenScan) -> ScaledScan {
        let frames = scan.regions.len() / scan.valid.len();
        ScaledScan {
            times_seconds: (0..frames).map(|t| t as f64).collect(),
            values: scan.regions.clone(),
            region_valid: scan.valid.clone(),
        }
    }

    /// The readout of the golden's scans, their controls changed by `change`, and the features of the first of them.
    fn fitted(golden: &Golden, change: impl Fn(&[f32]) -> Vec<f32>) -> (Readout, f64, Vec<f32>, Vec<f32>) {
        let scans: Vec<ScaledScan> = golden.scans.iter().map(scaled).collect();
        let controls: Vec<ControlSequence> = (golden.scans.iter())
            .map(|s| s.control.chunks_exact(golden.width).flat_map(&change).collect())
            .map(|values| ControlSequence { width: golden.width, values })
            .collect();
        let regions = golden.scans[0].valid.len();
        let mut sums = Sums::new(golden.width, regions);
        for (scan, control) in scans.iter().zip(&controls) {
            sums.add(&Encoded { control: control.clone(), scan, readout: None });
        }
        let (weights, explained) = sums.solve();
        let empty = String::new();
        let note = ReadoutNote {
            scans: 3,
            explained,
            directions: sums.directions(),
            weights_blake3: empty.clone(),
            numbers_blake3: empty,
        };
        let readout = Readout { regions, width: golden.width, weights, note };
        let first = Encoded { control: controls[0].clone(), scan: &scans[0], readout: Some(&readout) };
        let (coupling, between) = (Pooling::Coupling.apply(&first), Pooling::Regions.apply(&first));
        (readout, explained, coupling, between)
    }

    #[test]
    fn weights_and_correlations_are_those_of_scikit_learn_and_numpy() {
        let golden = golden();
        let (readout, explained, coupling, between) = fitted(&golden, <[f32]>::to_vec);
        for (found, expected) in readout.weights.iter().zip(&golden.weights) {
            assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1e-3), "{found} {expected}");
        }
        assert!((explained - golden.explained).abs() < 1e-6, "{explained} {}", golden.explained);
        let directions = readout.note().directions;
        assert!((directions - golden.directions).abs() < 1e-6, "{directions} {}", golden.directions);
        // Correlations of single precision series of at most 55 frames.
        for (found, expected) in coupling.iter().chain(&between).zip(golden.coupling.iter().chain(&golden.between_said))
        {
            assert!((found - expected).abs() < 2e-5, "{found} {expected}");
        }
        assert_eq!((coupling.len(), between.len()), (16, 6));
    }

    #[test]
    fn features_do_not_depend_on_the_coordinates_of_the_control() {
        let golden = golden();
        let (_, _, coupling, between) = fitted(&golden, <[f32]>::to_vec);
        // Sizes of the golden's coordinates taken out, neighbours mixed, shifted, and other sizes put in: the strongest is a
        // thousand times the weakest either way.
        let (old, new) = ([50.0f32, 1.0, 0.2, 3.0, 0.01], [0.02f32, 1.0, 4.0, 20.0, 0.3]);
        let mixed = |row: &[f32]| -> Vec<f32> {
            let u = |k: usize| row[k % 5] / old[k % 5];
            (0..5).map(|k| (u(k) + 0.5 * u(k + 1) - 1.0) * new[k]).collect()
        };
        let (_, _, other_coupling, other_between) = fitted(&golden, mixed);
        for (a, b) in coupling.iter().chain(&between).zip(other_coupling.iter().chain(&other_between)) {
            // The penalty is a millionth of each coordinate's variance; correlations move by no more than some of those.
            assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
    }

    #[test]
    fn a_missing_region_goes_with_nothing() {
        let golden = golden();
        let (readout, ..) = fitted(&golden, <[f32]>::to_vec);
        let (scan, width) = (scaled(&golden.scans[1]), golden.width);
        let control = ControlSequence { width, values: golden.scans[1].control.clone() };
        let coupling = Pooling::Coupling.apply(&Encoded { control, scan: &scan, readout: Some(&readout) });
        assert!(coupling[8..12].iter().all(|r| *r == 0.0), "{coupling:?}");
        assert!(coupling.iter().all(|r| r.is_finite() && r.abs() <= 1.0 + 1e-6));
    }
}
