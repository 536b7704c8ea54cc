//! What is known about where regions are, and the codes of windows.

use super::diffusion_map::DiffusionMap;
use bdo_data::region::Region;
use bdo_model::encoder::time_code;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};

/// Millimetres to numbers of size one.
const PER_MM: f64 = 0.01;

/// One row of numbers a region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Places {
    /// Numbers a row.
    pub width: usize,
    /// Row-major [regions, width].
    pub values: Vec<f32>,
}

impl Places {
    /// Centres in units of 10 cm; `None` unless every region has one.
    pub fn of_centres(regions: &[Region]) -> Option<Self> {
        let centres: Option<Vec<[f64; 3]>> = regions.iter().map(|region| region.centroid_mm).collect();
        let values = centres?.iter().flatten().map(|mm| (mm * PER_MM) as f32).collect();
        Some(Self { width: 3, values })
    }

    /// Coordinates along functional gradients.
    pub fn of_gradients(map: &DiffusionMap) -> Self {
        Self { width: map.components, values: map.values.iter().map(|x| *x as f32).collect() }
    }

    /// [regions, width].
    pub(crate) fn on(&self, device: &Device) -> Tensor<2> {
        let regions = self.values.len() / self.width;
        Tensor::from_data(TensorData::new(self.values.clone(), [regions, self.width]), device)
    }
}

/// Sines and cosines in turn of the window's number: row-major [windows, width].
pub fn alternating_code(windows: usize, width: usize) -> Vec<f32> {
    time_code(&(0..windows).map(|w| w as f64).collect::<Vec<_>>(), width)
}

/// All sines, then all cosines: row-major [windows, width], frequency 10000^(-k / (width / 2)).
pub fn split_code(windows: usize, width: usize) -> Vec<f32> {
    let half = width / 2;
    let mut code = vec![0.0; windows * width];
    for (w, row) in code.chunks_exact_mut(width).enumerate() {
        for k in 0..half {
            let angle = w as f64 * 10000f64.powf(-(k as f64) / half as f64);
            row[k] = angle.sin() as f32;
            row[half + k] = angle.cos() as f32;
        }
    }
    code
}

/// A code [windows, width] repeated for every region: [regions * windows, width].
pub(crate) fn for_all_regions(code: &[f32], regions: usize, width: usize, device: &Device) -> Tensor<2> {
    let rows = regions * code.len() / width;
    Tensor::from_data(TensorData::new(code.repeat(regions), [rows, width]), device)
}

/// A table [regions, width] with every row repeated for all windows: [regions * windows, width].
pub(crate) fn for_all_windows(table: Tensor<2>, windows: usize) -> Tensor<2> {
    let [regions, width] = table.dims();
    table.reshape([regions, 1, width]).expand([regions, windows, width]).reshape([regions * windows, width])
}
