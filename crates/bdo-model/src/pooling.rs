//! From the control along a scan to one vector.

use crate::control::{ControlSequence, Encoded};
use crate::readout::unit_regions;
use bdo_kernels::linalg::spectral;
use faer::Mat;
use serde::{Deserialize, Serialize};

/// Of squares: a control that moves less does not move.
pub(crate) const LEAST_MOVED: f32 = 1e-12;
/// Seconds over which changes are looked at, whatever the repetition time.
pub(crate) const SECONDS_APART: [f64; 2] = [1.5, 6.0];

/// How the frames of a scan become one vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pooling {
    /// Mean over time: d numbers, the universal feature of the method.
    #[default]
    Mean,
    /// Mean and standard deviation over time: 2 d numbers.
    MeanStd,
    /// Mean; then, as logarithms, the root mean square change of the control over 1.5 and over 6 seconds, which together say how
    /// far and how fast it moves: 3 d numbers.
    MeanMovement,
    /// Covariance over time, upper triangle row by row with the diagonal: d (d + 1) / 2 numbers.
    Covariance,
    /// Fisher-transformed correlation over time, upper triangle without the diagonal: d (d - 1) / 2 numbers.
    Correlation,
    /// Matrix logarithm of the shrunk covariance, upper triangle with off-diagonals times the root of 2, so that lengths
    /// are those of the log-Euclidean metric: d (d + 1) / 2 numbers.
    LogCovariance,
    /// The same minus its mean over training people: the tangent vector at their log-Euclidean mean. The reference is
    /// fitted, so only a probe can compute it.
    Tangent,
    /// Fisher-transformed correlation over time of what the control says of the regions, upper triangle without the
    /// diagonal: N (N - 1) / 2 numbers. Needs the model's readout, as does the next one.
    Regions,
    /// Correlation over time of every region with what the control says of every region: N N numbers, the measured region
    /// slowest.
    Coupling,
}

impl Pooling {
    /// Name as typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::MeanStd => "mean-std",
            Self::MeanMovement => "mean-movement",
            Self::Covariance => "covariance",
            Self::Correlation => "correlation",
            Self::LogCovariance => "log-covariance",
            Self::Tangent => "tangent",
            Self::Regions => "regions",
            Self::Coupling => "coupling",
        }
    }

    /// The part that depends on a single scan alone: the pooling of the stored table.
    pub fn per_scan(self) -> Self {
        if self == Self::Tangent { Self::LogCovariance } else { self }
    }

    /// Whether a model without a readout cannot do it.
    pub fn needs_readout(self) -> bool {
        matches!(self, Self::Regions | Self::Coupling)
    }

    /// Numbers a scan, of a control of width `d` over `n` regions.
    pub fn width(self, d: usize, n: usize) -> usize {
        match self {
            Self::Mean => d,
            Self::MeanStd => 2 * d,
            Self::MeanMovement => (1 + SECONDS_APART.len()) * d,
            Self::Covariance | Self::LogCovariance | Self::Tangent => d * (d + 1) / 2,
            Self::Correlation => d * (d - 1) / 2,
            Self::Regions => n * (n - 1) / 2,
            Self::Coupling => n * n,
        }
    }

    /// One scan's vector, as [`per_scan`](Self::per_scan) says. The model of the scan has been asked for the readout.
    pub fn apply(self, encoded: &Encoded<'_>) -> Vec<f32> {
        let readout = || encoded.readout.expect("a model without a readout was refused before it encoded a scan");
        match self {
            Self::Regions => regions(&readout().said(&encoded.control.values)),
            Self::Coupling => coupling(&unit_regions(encoded.scan), &readout().said(&encoded.control.values)),
            Self::MeanMovement => mean_movement(&encoded.control, &encoded.scan.times_seconds),
            _ => self.of_control(&encoded.control),
        }
    }

    /// The same for what the control alone decides.
    pub fn of_control(self, control: &ControlSequence) -> Vec<f32> {
        let mean = averaged(control, |_, x| x);
        let narrow = |values: Vec<f64>| values.into_iter().map(|x| x as f32).collect();
        match self {
            Self::Mean => narrow(mean),
            Self::MeanStd => {
                let variance = averaged(control, |k, x| (x - mean[k]) * (x - mean[k]));
                let deviation = variance.into_iter().map(f64::sqrt);
                narrow(mean.iter().copied().chain(deviation).collect())
            }
            Self::Covariance => covariance(control, &mean),
            Self::LogCovariance | Self::Tangent => log_covariance(&covariance(control, &mean), control.width),
            Self::Correlation => correlation(control, &mean),
            Self::MeanMovement | Self::Regions | Self::Coupling => {
                unreachable!("{} needs more than a control", self.name())
            }
        }
    }
}

fn frames(control: &ControlSequence) -> f64 {
    (control.values.len() / control.width) as f64
}

/// Mean over the frames of what `of` makes of each coordinate, by its number and its value.
fn averaged(control: &ControlSequence, of: impl Fn(usize, f64) -> f64) -> Vec<f64> {
    let mut sums = vec![0.0; control.width];
    for row in control.rows() {
        sums.iter_mut().zip(row).enumerate().for_each(|(k, (sum, &x))| *sum += of(k, f64::from(x)));
    }
    sums.iter_mut().for_each(|sum| *sum /= frames(control));
    sums
}

/// Two frames and the weight of the squared change between them in a mean.
pub(crate) type Change = (usize, usize, f64);

/// What the mean squared changes over [`SECONDS_APART`] are made of, at these frame times. Where no frame lies exactly so far from
/// another, the squares to the two around that time are interpolated; a scan that ends before is looked at from end to end.
pub(crate) fn changes(times_seconds: &[f64]) -> [Vec<Change>; SECONDS_APART.len()] {
    SECONDS_APART.map(|apart| {
        let mut found: Vec<Change> = vec![];
        let mut next = 0;
        let mut starts = 0;
        for (i, time) in times_seconds.iter().enumerate() {
            next = next.max(i + 1);
            while times_seconds.get(next).is_some_and(|later| *later < time + apart) {
                next += 1;
            }
            let Some(later) = times_seconds.get(next) else { break };
            let before = times_seconds[next - 1];
            let share = (time + apart - before) / (later - before);
            starts += 1;
            found.push((i, next, share));
            if next - 1 > i && share < 1.0 {
                found.push((i, next - 1, 1.0 - share));
            }
        }
        if starts == 0 {
            return vec![(0, times_seconds.len().saturating_sub(1), 1.0)];
        }
        found.into_iter().map(|(i, j, weight)| (i, j, weight / f64::from(starts))).collect()
    })
}

fn mean_movement(control: &ControlSequence, times_seconds: &[f64]) -> Vec<f32> {
    let mut feature = Pooling::Mean.of_control(control);
    let row = |i: usize| &control.values[i * control.width..][..control.width];
    for changes in changes(times_seconds) {
        let mut squares = vec![0.0; control.width];
        for (i, j, weight) in changes {
            let steps = row(i).iter().zip(row(j)).map(|(a, b)| f64::from(b - a));
            squares.iter_mut().zip(steps).for_each(|(sum, step)| *sum += weight * step * step);
        }
        feature.extend(squares.into_iter().map(|square| (0.5 * square.max(f64::from(LEAST_MOVED)).ln()) as f32));
    }
    feature
}

/// Upper triangle with the diagonal, row by row, over the number of frames.
fn covariance(control: &ControlSequence, mean: &[f64]) -> Vec<f32> {
    let d = control.width;
    let centred: Vec<f32> =
        control.rows().flat_map(|row| row.iter().zip(mean).map(|(&x, m)| (f64::from(x) - m) as f32)).collect();
    let mut full = vec![0.0f32; d * d];
    for row in centred.chunks_exact(d) {
        for (i, &x) in row.iter().enumerate() {
            for (sum, &y) in full[i * d + i..(i + 1) * d].iter_mut().zip(&row[i..]) {
                *sum += x * y;
            }
        }
    }
    let scale = (1.0 / frames(control)) as f32;
    (0..d).flat_map(|i| full[i * d + i..(i + 1) * d].iter().map(move |sum| sum * scale).collect::<Vec<_>>()).collect()
}

/// Correlations of unit columns [frames, N] with each other.
fn regions(said: &Mat<f32>) -> Vec<f32> {
    let products = said.transpose() * said;
    pairs(said.ncols()).map(|(r, s)| fisher(products[(r, s)])).collect()
}

/// Correlations of unit columns with other unit columns, both [frames, N].
fn coupling(measured: &Mat<f32>, said: &Mat<f32>) -> Vec<f32> {
    let products = measured.transpose() * said;
    let n = said.ncols();
    (0..n).flat_map(|r| (0..n).map(move |s| (r, s))).map(|(r, s)| products[(r, s)]).collect()
}

fn fisher(r: f32) -> f32 {
    const LARGEST: f32 = 0.999_999;
    r.clamp(-LARGEST, LARGEST).atanh()
}

/// A coordinate that does not move is correlated with nothing.
fn correlation(control: &ControlSequence, mean: &[f64]) -> Vec<f32> {
    let covariance = covariance(control, mean);
    let at = |i: usize, j: usize| covariance[triangle_index(control.width, i, j)];
    let correlation = |(i, j): (usize, usize)| {
        let scale = (at(i, i) * at(j, j)).sqrt();
        fisher(if scale > 0.0 { at(i, j) / scale } else { 0.0 })
    };
    pairs(control.width).map(correlation).collect()
}

/// Pairs of different coordinates, row by row.
fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)))
}

/// Place of (i, j), i <= j, in an upper triangle with the diagonal, row by row.
fn triangle_index(d: usize, i: usize, j: usize) -> usize {
    i * (2 * d - i + 1) / 2 + (j - i)
}

/// Weight of the identity. A scan has fewer independent frames than a control has coordinates, so its covariance is shrunk towards
/// a multiple of the identity first; without that the logarithm of zero would decide.
const SHRINKAGE: f64 = 0.1;
/// A covariance whose mean variance is below this is that of a control that never moves.
const LEAST_VARIANCE: f64 = 1e-12;

/// Upper triangle with the diagonal -> upper triangle of the logarithm, off-diagonals times the root of 2.
fn log_covariance(triangle: &[f32], d: usize) -> Vec<f32> {
    let at = |i: usize, j: usize| f64::from(triangle[triangle_index(d, i.min(j), i.max(j))]) * (1.0 - SHRINKAGE);
    let mut matrix = Mat::<f64>::from_fn(d, d, at);
    let mean = (0..d).map(|i| matrix[(i, i)]).sum::<f64>() / (d as f64 * (1.0 - SHRINKAGE));
    let added = SHRINKAGE * mean.max(LEAST_VARIANCE);
    (0..d).for_each(|i| matrix[(i, i)] += added);
    // Rounding may push an eigenvalue below what shrinkage allows.
    let log = spectral(matrix.as_ref(), &|x| x.max(added * 0.5).ln());
    let log = log.expect("a finite symmetric matrix has eigenvalues");
    let scaled = |i: usize, j: usize| if i == j { log[(i, j)] } else { log[(i, j)] * std::f64::consts::SQRT_2 };
    (0..d).flat_map(|i| (i..d).map(move |j| (i, j))).map(|(i, j)| scaled(i, j) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control() -> ControlSequence {
        ControlSequence { width: 3, values: vec![1.0, 2.0, 5.0, 3.0, 0.0, 5.0, 2.0, 4.0, 5.0] }
    }

    #[test]
    fn moments_are_those_of_the_frames() {
        assert_eq!(Pooling::Mean.of_control(&control()), [2.0, 2.0, 5.0]);
        let std = (2.0f64 / 3.0).sqrt() as f32;
        assert_eq!(Pooling::MeanStd.of_control(&control()), [2.0, 2.0, 5.0, std, (8.0f64 / 3.0).sqrt() as f32, 0.0]);
        // cov(x, y) = ((-1)(0) + (1)(-2) + (0)(2)) / 3; the third coordinate never moves.
        let found = Pooling::Covariance.of_control(&control());
        let expected = [2.0 / 3.0, -2.0 / 3.0, 0.0, 8.0 / 3.0, 0.0, 0.0];
        assert!(found.iter().zip(expected).all(|(f, e): (&f32, f32)| (f - e).abs() < 1e-6), "{found:?}");
        let found = Pooling::Correlation.of_control(&control());
        assert!((found[0] - (-0.5f32).atanh()).abs() < 1e-6 && found[1] == 0.0 && found[2] == 0.0, "{found:?}");
    }

    #[test]
    fn widths_are_as_said() {
        let all = [Pooling::Mean, Pooling::MeanStd, Pooling::Covariance, Pooling::Correlation, Pooling::Tangent];
        assert_eq!(mean_movement(&control(), &[0.0, 2.0, 4.0]).len(), Pooling::MeanMovement.width(3, 5));
        for pooling in all {
            assert_eq!(pooling.of_control(&control()).len(), pooling.width(3, 5), "{}", pooling.name());
        }
        assert_eq!((triangle_index(4, 0, 3), triangle_index(4, 1, 1), triangle_index(4, 3, 3)), (3, 4, 9));
    }

    #[test]
    fn movement_is_per_second_whatever_the_repetition_time() {
        // Squared changes of y = 2 t grow with the square of time; between frames they are interpolated.
        let moved = |times: &[f64]| {
            let values = times.iter().map(|t| 2.0 * *t as f32).collect();
            mean_movement(&ControlSequence { width: 1, values }, times)[1..].to_vec()
        };
        let close = |found: Vec<f32>, squares: [f64; 2]| {
            let expected = squares.map(|square| 0.5 * square.ln() as f32);
            assert!(found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-5), "{found:?} {expected:?}");
        };
        let every = |tr: f64, count: i32| (0..count).map(|k| f64::from(k) * tr).collect::<Vec<_>>();
        close(moved(&every(0.5, 40)), [9.0, 144.0]);
        close(moved(&every(1.5, 40)), [9.0, 144.0]);
        // A frame of 3 s apart has a square of 36, of which half a step is half.
        close(moved(&every(3.0, 40)), [18.0, 144.0]);
        // A gap: from 0 and 1 to 2.5 s there is 1 and 9; from 9 on every second.
        let gap = [0.0, 1.0, 9.0, 10.0, 11.0];
        let first = 4.0 * ((1.0 + 0.5 / 8.0 * 80.0) + (1.5 / 8.0 * 64.0) + (1.0 + 0.5 * 3.0)) / 3.0;
        close(moved(&gap), [first, 4.0 * ((1.0 + 5.0 / 8.0 * 80.0) + 6.0 / 8.0 * 64.0) / 2.0]);
        // Shorter than what is looked for: from end to end.
        close(moved(&[0.0, 1.0]), [4.0, 4.0]);
    }

    #[test]
    fn the_logarithm_of_a_known_matrix() {
        // [[a, b], [b, a]] has eigenvalues a + b and a - b on the diagonals of the square.
        let (a, b) = (2.0f64, 1.0f64);
        let (shrunk_b, shrunk_a) = (b * (1.0 - SHRINKAGE), a);
        let (high, low): (f64, f64) = ((shrunk_a + shrunk_b).ln(), (shrunk_a - shrunk_b).ln());
        let found = log_covariance(&[a as f32, b as f32, a as f32], 2);
        let middle = f64::midpoint(high, low);
        let expected = [middle, (high - low) * std::f64::consts::FRAC_1_SQRT_2, middle];
        // Rounding of f32 at values near 1.
        assert!(found.iter().zip(expected).all(|(f, e)| (f64::from(*f) - e).abs() < 1e-6), "{found:?} {expected:?}");
    }

    #[test]
    fn a_control_that_never_moves_is_finite() {
        assert!(log_covariance(&[0.0; 6], 3).iter().all(|x| x.is_finite()));
    }
}
