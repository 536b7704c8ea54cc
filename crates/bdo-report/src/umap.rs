//! Rows of a table in the plane: principal components, and a compact UMAP (`McInnes`, Healy and Melville 2018) with exact
//! neighbours, one thread and a fixed seed, so that the same table always gives the same picture. For up to a few thousand scans.

use bdo_data::random::{below, stream};
use bdo_kernels::linalg::{leading_eigen, product};
use faer::{Mat, MatRef};
use rand_chacha::rand_core::Rng;
use rayon::prelude::*;

const NEIGHBOURS: usize = 15;
/// Passes over the edges.
const EPOCHS: usize = 300;
/// Curve 1 / (1 + a x^2b) that the layout's distances are compared with: the fit for a least distance of 0.1.
const A: f64 = 1.576_9;
const B: f64 = 0.895_1;
/// Pairs pushed apart for each pair pulled together.
const NEGATIVES: usize = 5;

/// Positions in the plane, one per row; `None` where there are too few rows or a value is not finite. The seed is that of the
/// pairs that are pushed apart.
pub(crate) fn umap(values: &[f32], width: usize, seed: u64) -> Option<Vec<[f64; 2]>> {
    let rows = values.len().checked_div(width)?;
    if rows < 5 {
        return None;
    }
    let start = pca(values, width, 2)?;
    let graph = fuzzy_graph(values, width, NEIGHBOURS.min(rows - 1));
    let start: Vec<[f64; 2]> = (0..rows).map(|r| [start.score(r, 0), start.score(r, 1)]).collect();
    let spread = start.iter().flatten().fold(0.0f64, |m, x| m.max(x.abs())).max(f64::MIN_POSITIVE);
    let jitter = uniform(seed, rows * 2);
    let place = |r: usize| std::array::from_fn(|c| 10.0 * start[r][c] / spread + 1e-3 * jitter[r * 2 + c]);
    let mut places: Vec<[f64; 2]> = (0..rows).map(place).collect();
    layout(&graph, &mut places, seed);
    Some(places)
}

struct Edge {
    from: usize,
    to: usize,
    weight: f64,
}

/// Edges from each row to its nearest neighbours, whose strength falls with the distance beyond the nearest one; strengths
/// of both directions are combined by the fuzzy union.
fn fuzzy_graph(values: &[f32], width: usize, k: usize) -> Vec<Edge> {
    let rows = values.len() / width;
    let row = |r: usize| &values[r * width..(r + 1) * width];
    let directed: Vec<Vec<(usize, f64)>> = (0..rows)
        .into_par_iter()
        .map(|i| {
            let distance =
                |j: usize| row(i).iter().zip(row(j)).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt();
            let mut near: Vec<(usize, f64)> = (0..rows).filter(|j| *j != i).map(|j| (j, distance(j))).collect();
            near.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
            near.truncate(k);
            strengths(near)
        })
        .collect();
    let mut weights = std::collections::BTreeMap::new();
    for (i, near) in directed.iter().enumerate() {
        for (j, w) in near {
            let entry: &mut [f64; 2] = weights.entry((i.min(*j), i.max(*j))).or_default();
            entry[usize::from(i > *j)] = *w;
        }
    }
    weights.into_iter().map(|((from, to), [a, b])| Edge { from, to, weight: a + b - a * b }).collect()
}

/// Distances into weights exp(-(d - nearest) / scale), the scale such that they sum to log2 of their number.
fn strengths(near: Vec<(usize, f64)>) -> Vec<(usize, f64)> {
    let nearest = near.first().map_or(0.0, |n| n.1);
    let mean = near.iter().map(|n| n.1).sum::<f64>() / near.len().max(1) as f64;
    let wanted = (near.len() as f64).log2();
    let weight = |d: f64, scale: f64| (-(d - nearest).max(0.0) / scale).exp();
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut scale = 1.0;
    for _ in 0..64 {
        let sum: f64 = near.iter().map(|n| weight(n.1, scale)).sum();
        if (sum - wanted).abs() < 1e-5 {
            break;
        }
        if sum > wanted {
            high = scale;
        } else {
            low = scale;
        }
        scale = if high.is_finite() { f64::midpoint(low, high) } else { scale * 2.0 };
    }
    let scale = scale.max(1e-3 * mean).max(1e-12);
    near.into_iter().map(|(j, d)| (j, weight(d, scale))).collect()
}

/// Pulls the ends of edges together in proportion to their strength, and pushes random pairs apart.
fn layout(edges: &[Edge], places: &mut [[f64; 2]], seed: u64) {
    let most = edges.iter().map(|e| e.weight).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let mut rng = stream("report umap", &[seed]);
    let mut due: Vec<f64> = edges.iter().map(|e| most / e.weight.max(1e-9)).collect();
    for epoch in 0..EPOCHS {
        let rate = 1.0 - epoch as f64 / EPOCHS as f64;
        for (edge, due) in edges.iter().zip(&mut due) {
            if *due > (epoch + 1) as f64 {
                continue;
            }
            *due += most / edge.weight.max(1e-9);
            for (from, to) in [(edge.from, edge.to), (edge.to, edge.from)] {
                let apart = [places[from][0] - places[to][0], places[from][1] - places[to][1]];
                let square = apart[0].powi(2) + apart[1].powi(2);
                if square > 0.0 {
                    let pull = -2.0 * A * B * square.powf(B - 1.0) / (1.0 + A * square.powf(B));
                    for c in 0..2 {
                        let step = (pull * apart[c]).clamp(-4.0, 4.0) * rate;
                        places[from][c] += step;
                        places[to][c] -= step;
                    }
                }
                for _ in 0..NEGATIVES {
                    let other = below(&mut rng, places.len() as u64) as usize;
                    if other == from {
                        continue;
                    }
                    let apart = [places[from][0] - places[other][0], places[from][1] - places[other][1]];
                    let square = apart[0].powi(2) + apart[1].powi(2);
                    let push = 2.0 * B / ((0.001 + square) * (1.0 + A * square.powf(B)));
                    for c in 0..2 {
                        let step = if square > 0.0 { (push * apart[c]).clamp(-4.0, 4.0) } else { 4.0 };
                        places[from][c] += step * rate;
                    }
                }
            }
        }
    }
}

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
    let loadings = fixed_signs(loadings);
    let scores = product(x, loadings.as_ref());
    let total: f64 = table.iter().map(|v| v * v).sum();
    if total <= 0.0 {
        return None;
    }
    let explained = (0..components).map(|k| (0..rows).map(|r| scores[(r, k)].powi(2)).sum::<f64>() / total).collect();
    let flat = (0..rows).flat_map(|r| (0..components).map(move |k| (r, k))).map(|at| scores[at]).collect();
    Some(Pca { scores: flat, explained })
}

/// Eigenvectors of the largest values, largest first.
fn leading(matrix: &Mat<f64>, count: usize) -> Option<Mat<f64>> {
    Some(leading_eigen(matrix.as_ref())?.1.subcols(0, count).to_owned())
}

fn from_rows(x: MatRef<'_, f64>, count: usize) -> Option<Mat<f64>> {
    let count_left = count.min(x.nrows());
    let left = leading(&product(x, x.transpose()), count_left)?;
    let mut loadings = product(x.transpose(), left.as_ref());
    for k in 0..count_left {
        let norm = (0..loadings.nrows()).map(|r| loadings[(r, k)].powi(2)).sum::<f64>().sqrt();
        (0..loadings.nrows()).for_each(|r| loadings[(r, k)] /= norm.max(f64::MIN_POSITIVE));
    }
    Some(Mat::from_fn(x.ncols(), count, |r, k| if k < count_left { loadings[(r, k)] } else { 0.0 }))
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

    const WIDTH: usize = 12;

    /// Three groups of 30 rows, centres 6 apart in units of the spread inside a group.
    fn planted() -> Vec<f32> {
        let noise = uniform(7, 90 * WIDTH);
        let mut values: Vec<f32> = noise.iter().map(|x| *x as f32).collect();
        for r in 0..90 {
            values[r * WIDTH + r / 30] += 6.0;
        }
        values
    }

    fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
        ((a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2)).sqrt()
    }

    #[test]
    fn planted_groups_come_apart() {
        let places = umap(&planted(), WIDTH, 42).unwrap();
        // Everybody's ten nearest neighbours in the plane are of the same group.
        for i in 0..90 {
            let mut near: Vec<usize> = (0..90).filter(|j| *j != i).collect();
            near.sort_by(|a, b| distance(places[i], places[*a]).total_cmp(&distance(places[i], places[*b])));
            assert!(near[..10].iter().all(|j| j / 30 == i / 30), "row {i} has neighbours {:?}", &near[..10]);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
        let bits = |seed: u64| -> Vec<u64> {
            umap(&planted(), WIDTH, seed).unwrap().into_iter().flatten().map(f64::to_bits).collect()
        };
        assert!(bits(1) == bits(1) && bits(1) != bits(2));
    }

    #[test]
    fn equal_rows_and_few_rows_do_not_break_it() {
        assert_eq!(umap(&[1.0; 8], 2, 42), None);
        let mut values = vec![0.0f32; 40];
        values[0] = 1.0;
        let places = umap(&values, 2, 42).unwrap();
        assert!(places.iter().flatten().all(|x| x.is_finite()));
    }

    #[test]
    fn weights_sum_to_the_logarithm_of_their_number() {
        let near: Vec<(usize, f64)> = (0..15).map(|i| (i, 1.0 + i as f64)).collect();
        let sum: f64 = strengths(near).iter().map(|n| n.1).sum();
        assert!((sum - 15f64.log2()).abs() < 1e-4, "{sum}");
    }

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
