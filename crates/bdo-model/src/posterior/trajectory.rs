//! The latent path of a scan: how strongly it is steered and how fast it forgets, by network.

use crate::posterior::engine::{Engine, Piece};
use crate::posterior::spread::Slopes;
use bdo_data::region::Region;

/// The state at one row.
#[derive(Clone, Debug, PartialEq)]
pub struct PathRow {
    /// Half the squared control that acts on the step to this row.
    pub control_energy: f64,
    /// Time in which each network's part of the state falls to 1/e, in seconds.
    pub time_constant_seconds: Vec<f64>,
}

/// Which coordinates of the state speak for which network.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkWeights {
    /// Names in order; regions without one are `other`.
    pub names: Vec<String>,
    /// For each network, [d] weights that sum to 1.
    weights: Vec<Vec<f64>>,
    time_scale: f64,
}

impl NetworkWeights {
    /// From the decoder's slope at the mean state of a scan and from how much each coordinate moves along it.
    pub fn of(engine: &Engine<'_>, piece: &Piece, regions: &[Region]) -> Self {
        let config = engine.frozen().model.config();
        let (width, rows) = (config.width, piece.rows.len().max(1));
        let mut mean = vec![0.0f32; width];
        for row in piece.mean.chunks_exact(width) {
            mean.iter_mut().zip(row).for_each(|(m, x)| *m += x / rows as f32);
        }
        let mut moved = vec![0.0f64; width];
        for row in piece.mean.chunks_exact(width) {
            moved.iter_mut().zip(row.iter().zip(&mean)).for_each(|(v, (x, m))| *v += f64::from(x - m).powi(2));
        }
        let slopes = Slopes::of(engine);
        let slope = slopes.slope(&slopes.open(&mean));
        let name = |region: &Region| region.network.clone().unwrap_or_else(|| "other".to_owned());
        let mut names: Vec<String> = regions.iter().map(name).collect();
        names.sort();
        names.dedup();
        let weight = |network: &String| {
            let mut weights = vec![0.0f64; width];
            for (_, row) in regions.iter().zip(slope.chunks_exact(width)).filter(|(r, _)| name(r) == *network) {
                weights.iter_mut().zip(row).zip(&moved).for_each(|((w, j), v)| *w += f64::from(*j).powi(2) * v);
            }
            let sum = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            weights.iter_mut().for_each(|w| *w /= sum);
            weights
        };
        Self { weights: names.iter().map(weight).collect(), names, time_scale: config.time_scale }
    }

    /// Energy and time constants of a row.
    pub fn path_row(&self, piece: &Piece, row: usize) -> PathRow {
        let width = piece.mean.len() / piece.rows.len().max(1);
        let at = row * width..(row + 1) * width;
        let control_energy = 0.5 * piece.control[at.clone()].iter().map(|a| f64::from(*a).powi(2)).sum::<f64>();
        let rates = &piece.rates[at];
        // The mean of rates, not of times: a coordinate that hardly decays would swamp all others.
        let time = |weights: &Vec<f64>| {
            let rate: f64 = weights.iter().zip(rates).map(|(w, r)| w * f64::from(*r)).sum();
            1.0 / (rate * self.time_scale).max(f64::MIN_POSITIVE)
        };
        PathRow { control_energy, time_constant_seconds: self.weights.iter().map(time).collect() }
    }
}
