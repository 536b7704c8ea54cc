//! Sampling grids, and bringing labels from one to another.

use super::affine::Affine;

/// A grid of voxels in the world.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    pub shape: [usize; 3],
    pub affine: Affine,
}

impl Grid {
    pub fn voxels(&self) -> usize {
        self.shape.into_iter().product()
    }

    /// True if nilearn would take values of `source` on this grid as they are.
    pub fn is_same_as(&self, source: &Self) -> bool {
        self.shape == source.shape && self.affine.is_close(&source.affine)
    }
}

/// Values of `source` at the voxels of `target`, by nearest neighbour; voxels outside the source get the default.
///
/// Which neighbour is nearest, and what counts as outside, is decided as `nilearn.image.resample_to_img` with
/// `interpolation="nearest"` decides it, down to ties: half-way goes up, and a point beyond the centre of an outermost voxel is
/// outside. `None` where the source's affine has no inverse.
pub fn resample_nearest<T: Copy + Default>(values: &[T], source: &Grid, target: &Grid) -> Option<Vec<T>> {
    if target.is_same_as(source) {
        return Some(values.to_vec());
    }
    let transform = if target.affine == source.affine {
        Affine([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    } else {
        source.affine.inverse()?.after(&target.affine)
    };
    let m = &transform.0;
    let is_diagonal = (0..3).all(|i| (0..3).all(|j| i == j || m[i][j] == 0.0));
    let [nx, ny, nz] = target.shape;
    let mut out = Vec::with_capacity(target.voxels());
    let at = |index: [Option<usize>; 3]| {
        let [Some(x), Some(y), Some(z)] = index else { return T::default() };
        values[x + source.shape[0] * (y + source.shape[1] * z)]
    };
    if is_diagonal {
        // Axes are independent: shift first, then zoom, as scipy does for a diagonal matrix.
        let along = |axis: usize, size: usize| -> Vec<Option<usize>> {
            let (zoom, shift) = (m[axis][axis], m[axis][3] / m[axis][axis]);
            (0..size).map(|k| nearest_index((k as f64 + shift) * zoom, source.shape[axis])).collect()
        };
        let (xs, ys, zs) = (along(0, nx), along(1, ny), along(2, nz));
        for z in &zs {
            for y in &ys {
                out.extend(xs.iter().map(|x| at([*x, *y, *z])));
            }
        }
    } else {
        for z in 0..nz {
            for y in 0..ny {
                for x in 0..nx {
                    let (x, y, z) = (x as f64, y as f64, z as f64);
                    let coordinate = m.map(|[a, b, c, d]| 0.0 + x * a + y * b + z * c + d);
                    out.push(at(std::array::from_fn(|i| nearest_index(coordinate[i], source.shape[i]))));
                }
            }
        }
    }
    Some(out)
}

/// The voxel a coordinate falls to; `None` outside the centres of the outermost voxels.
fn nearest_index(coordinate: f64, size: usize) -> Option<usize> {
    let last = size as f64 - 1.0;
    (coordinate >= 0.0 && coordinate <= last).then(|| (coordinate + 0.5).floor() as usize).map(|i| i.min(size - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_way_goes_up_and_beyond_the_last_centre_is_outside() {
        assert_eq!(nearest_index(0.5, 3), Some(1));
        assert_eq!(nearest_index(0.499, 3), Some(0));
        assert_eq!(nearest_index(-1e-9, 3), None);
        assert_eq!(nearest_index(2.0, 3), Some(2));
        assert_eq!(nearest_index(2.000_000_1, 3), None);
        assert_eq!(nearest_index(f64::NAN, 3), None);
    }

    #[test]
    fn the_same_grid_is_taken_as_it_is() {
        let grid = Grid {
            shape: [2, 1, 2],
            affine: Affine([[2.0, 0.0, 0.0, 5.0], [0.0, 2.0, 0.0, 5.0], [0.0, 0.0, 2.0, 5.0]]),
        };
        let mut near = grid;
        near.affine.0[0][3] = 5.000_01;
        assert_eq!(resample_nearest(&[1_u8, 2, 3, 4], &grid, &near).unwrap(), [1, 2, 3, 4]);
    }
}
