//! Principal components of feature tables.

use bdo_data::random::stream;
use bdo_kernels::linalg::{leading_eigen, product};
use faer::{Mat, MatRef};
use rand_chacha::rand_core::Rng;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pca {
    /// Row-major [rows, components].
    scores: Vec<f64>,
    /// Share of the variance in each component.
    pub(crate) explained: Vec<f64>,
}

impl Pca {
    /// The score of a row; 0 for a component that there is not.
    pub(crate) fn score(&self, row: usize, component: usize) -> f64 {
        let count = self.explained.len();
        if component < count { self.scores[row * count + component] } else { 0.0 }
    }
}

/// Components of a row-major table; `None` for fewer than three rows, no column, or a value that is not finite. The largest
/// loading of each component is positive.
pub(crate) fn pca(values: &[f32], width: usize, components: usize) -> Option<Pca> {
    let rows = values.len().checked_div(width)?;
    let components = components.min(width);
    if rows < 3 || components == 0 || values.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let mut table: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
    for c in 0..width {
        let mean = (0..rows).map(|r| table[r * width + c]).sum::<f64>() / rows as f64;
        (0..rows).for_each(|r| table[r * width + c] -= mean);
    }
    let x = MatRef::from_row_major_slice(&table, rows, width);
    // The smaller of the two products has the same values and gives the same components.
    let loadings =
        if width <= rows { leading(&product(x.transpose(), x), components)? } else { from_rows(x, components)? };
    let scores = product(x, loadings.as_ref());
    let total: f64 = table.iter().map(|v| v * v).sum();
    if total <= 0.0 {
        return None;
    }
    let explained = (0..components).map(|k| (0..rows).map(|r| scores[(r, k)].powi(2)).sum::<f64>() / total).collect();
    let flat = (0..rows).flat_map(|r| (0..components).map(move |k| (r, k))).map(|at| scores[at]).collect();
    Some(Pca { scores: flat, explained })
}

/// Eigenvectors of the largest values, largest first, signs fixed.
fn leading(matrix: &Mat<f64>, count: usize) -> Option<Mat<f64>> {
    let (_, vectors) = leading_eigen(matrix.as_ref())?;
    Some(fixed_signs(vectors.subcols(0, count).to_owned()))
}

fn from_rows(x: MatRef<'_, f64>, count: usize) -> Option<Mat<f64>> {
    let count_left = count.min(x.nrows());
    let left = leading(&product(x, x.transpose()), count_left)?;
    let mut loadings = product(x.transpose(), left.as_ref());
    for k in 0..count_left {
        let norm = (0..loadings.nrows()).map(|r| loadings[(r, k)].powi(2)).sum::<f64>().sqrt();
        (0..loadings.nrows()).for_each(|r| loadings[(r, k)] /= norm.max(f64::MIN_POSITIVE));
    }
    let loadings = Mat::from_fn(x.ncols(), count, |r, k| if k < count_left { loadings[(r, k)] } else { 0.0 });
    Some(fixed_signs(loadings))
}

fn fixed_signs(mut loadings: Mat<f64>) -> Mat<f64> {
    for k in 0..loadings.ncols() {
        let largest =
            (0..loadings.nrows()).map(|r| loadings[(r, k)]).max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0);
        if largest < 0.0 {
            (0..loadings.nrows()).for_each(|r| loadings[(r, k)] *= -1.0);
        }
    }
    loadings
}

/// Uniform numbers from -1 to 1, for tests and for starts that must not lie on a line.
pub(crate) fn uniform(seed: u64, count: usize) -> Vec<f64> {
    let mut rng = stream("report projection", &[seed]);
    (0..count).map(|_| (rng.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_first_component_is_the_direction_of_most_variance_either_way_round() {
        for (rows, width) in [(40, 3), (5, 12)] {
            let noise = uniform(1, rows * width);
            let mut values: Vec<f32> = noise.iter().map(|x| 0.01 * *x as f32).collect();
            for r in 0..rows {
                values[r * width + 1] += r as f32;
                values[r * width + 2] += 2.0 * r as f32;
            }
            let found = pca(&values, width, 2).unwrap();
            assert!(found.explained[0] > 0.999, "{:?}", found.explained);
            // Steps of sqrt(1 + 4) along the component, upwards because signs are fixed.
            let step = found.score(1, 0) - found.score(0, 0);
            assert!((step - 5f64.sqrt()).abs() < 0.1, "{step}");
            assert!(found.explained.iter().sum::<f64>() <= 1.0 + 1e-12);
        }
    }

    #[test]
    fn tables_without_components_give_none() {
        assert_eq!(pca(&[1.0; 6], 3, 2), None);
        assert_eq!(pca(&[1.0; 12], 3, 2), None, "no variance");
        assert_eq!(pca(&[f32::NAN; 12], 3, 2), None);
        assert_eq!(pca(&[], 0, 2), None);
    }
}
