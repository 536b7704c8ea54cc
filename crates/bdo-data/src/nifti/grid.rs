//! Where voxels lie in the world, as nibabel computes it, and bringing labels from one grid to another.

use super::header::{Header, Version};
use crate::problem::Problem;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AffineSource {
    Sform,
    Qform,
    /// Neither is given: the grid is centred on the origin with x flipped, which says nothing about a brain.
    Assumed,
}

/// The upper three rows of a homogeneous 4 x 4 matrix from voxel indices to millimetres.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Affine(pub [[f64; 4]; 3]);

impl Affine {
    /// The matrix if the header has one, else the quaternion, else a grid centred on the origin.
    pub(super) fn of_header(header: &Header, warnings: &mut Vec<String>) -> Result<(Self, AffineSource), Problem> {
        if header.sform_code != 0 {
            return Ok((Self(header.sform), AffineSource::Sform));
        }
        let spacings = spacings(header, warnings);
        if header.qform_code != 0 {
            return Ok((Self::from_quaternion(header, spacings, warnings)?, AffineSource::Qform));
        }
        let sizes = header.shape();
        // An image with fewer than three dimensions has unit spacing along those it lacks.
        let spacing = |i: usize| if i < header.dims.len() { spacings[i] } else { 1.0 };
        let rows = std::array::from_fn(|i| {
            let mut row = [0.0; 4];
            row[i] = if i == 0 { -spacing(0) } else { spacing(i) };
            row[3] = -((sizes[i] as f64 - 1.0) / 2.0) * row[i];
            row
        });
        Ok((Self(rows), AffineSource::Assumed))
    }

    fn from_quaternion(header: &Header, spacings: [f64; 3], warnings: &mut Vec<String>) -> Result<Self, Problem> {
        let [x, y, z] = header.quaternion;
        let squared = x * x + y * y + z * z;
        let threshold = match header.version {
            Version::One => f64::from(f32::EPSILON) * 3.0,
            Version::Two => f64::EPSILON * 3.0,
        };
        let remainder = 1.0 - squared;
        // NaN fails both comparisons and is refused with the rest.
        let w = if remainder.abs() < threshold {
            0.0
        } else if remainder >= 0.0 {
            remainder.sqrt()
        } else {
            return Err(Problem::new("quaternion", "a length of at most 1", format!("({x}, {y}, {z})")));
        };
        let mut qfac = header.pixdim[0];
        if qfac != 1.0 && qfac != -1.0 {
            warnings.push(format!("pixdim[0] (qfac) is {qfac}: taken as 1"));
            qfac = 1.0;
        }
        let norm = w * w + squared;
        let s = 2.0 / norm;
        let (xs, ys, zs) = (x * s, y * s, z * s);
        let (wx, wy, wz) = (w * xs, w * ys, w * zs);
        let (xx, xy, xz) = (x * xs, x * ys, x * zs);
        let (yy, yz, zz) = (y * ys, y * zs, z * zs);
        let rotation = [
            [1.0 - (yy + zz), xy - wz, xz + wy],
            [xy + wz, 1.0 - (xx + zz), yz - wx],
            [xz - wy, yz + wx, 1.0 - (xx + yy)],
        ];
        let [sx, sy, sz] = spacings;
        Ok(Self(std::array::from_fn(|i| {
            let [a, b, c] = rotation[i];
            [a * sx, b * sy, c * (sz * qfac), header.quaternion_offset[i]]
        })))
    }

    pub fn apply(&self, voxel: [f64; 3]) -> [f64; 3] {
        self.0.map(|[a, b, c, d]| a * voxel[0] + b * voxel[1] + c * voxel[2] + d)
    }

    /// The matrix from millimetres to voxel indices, if there is one.
    pub fn inverse(&self) -> Option<Self> {
        let finite = |affine: &Self| affine.0.iter().flatten().all(|x| x.is_finite());
        let [x, y, z] = self.0;
        let m = [x, y, z, [0.0, 0.0, 0.0, 1.0]];
        let is_triangular = y[0] == 0.0 && z[0] == 0.0 && z[1] == 0.0;
        let invert: fn(Square) -> Option<Square> = if is_triangular { invert_triangular } else { invert };
        let [x, y, z, _] = finite(self).then(|| invert(m))??;
        Some(Self([x, y, z])).filter(finite)
    }

    /// This transform after another one: first `first`, then `self`. Fused multiply-adds in the order of the rows are what
    /// BLAS does on any recent machine, so that ties fall as they do in nilearn.
    #[must_use]
    pub fn after(&self, first: &Self) -> Self {
        Self(std::array::from_fn(|i| {
            std::array::from_fn(|j| {
                let last = if j == 3 { self.0[i][3] } else { 0.0 };
                (0..3).fold(0.0, |sum, k| self.0[i][k].mul_add(first.0[k][j], sum)) + last
            })
        }))
    }

    /// True if every entry agrees within numpy's default `allclose` tolerance of `other`, as nilearn compares grids.
    pub fn is_close(&self, other: &Self) -> bool {
        let pairs = self.0.iter().flatten().zip(other.0.iter().flatten());
        pairs.into_iter().all(|(a, b)| (a - b).abs() <= 1e-8 + 1e-5 * b.abs())
    }
}

/// Spacings as nibabel repairs them: zero becomes 1, a negative one its magnitude.
fn spacings(header: &Header, warnings: &mut Vec<String>) -> [f64; 3] {
    std::array::from_fn(|i| {
        let stored = header.pixdim[i + 1];
        let repaired = if stored == 0.0 { 1.0 } else { stored.abs() };
        if stored <= 0.0 {
            warnings.push(format!("pixdim[{}] is {stored}: taken as {repaired}", i + 1));
        }
        repaired
    })
}

type Square = [[f64; 4]; 4];

/// Back substitution in the order LAPACK's `trtri` uses, column by column: the resampling of nilearn inverts an
/// upper triangular matrix that way, and a tie between two voxels is decided by the last bit.
fn invert_triangular(m: Square) -> Option<Square> {
    let mut inverse = [[0.0; 4]; 4];
    for j in 0..4 {
        if m[j][j] == 0.0 {
            return None;
        }
        inverse[j][j] = 1.0 / m[j][j];
        // The column above the diagonal: minus the inverse so far, times the column, times the new diagonal element.
        for i in 0..j {
            let sum: f64 = (i..j).map(|k| inverse[i][k] * m[k][j]).sum();
            inverse[i][j] = -inverse[j][j] * sum;
        }
    }
    Some(inverse)
}

/// Inverse by elimination with row exchanges.
fn invert(mut m: Square) -> Option<Square> {
    let mut out: Square = std::array::from_fn(|i| std::array::from_fn(|j| f64::from(u8::from(i == j))));
    for column in 0..4 {
        let pivot = (column..4).max_by(|a, b| m[*a][column].abs().total_cmp(&m[*b][column].abs()))?;
        if m[pivot][column] == 0.0 {
            return None;
        }
        m.swap(column, pivot);
        out.swap(column, pivot);
        for row in column + 1..4 {
            let factor = m[row][column] / m[column][column];
            for k in 0..4 {
                m[row][k] -= factor * m[column][k];
                out[row][k] -= factor * out[column][k];
            }
        }
    }
    for column in (0..4).rev() {
        let solved = out[column].map(|x| x / m[column][column]);
        out[column] = solved;
        for row in 0..column {
            let factor = m[row][column];
            out[row].iter_mut().zip(solved).for_each(|(x, solved)| *x -= factor * solved);
        }
    }
    Some(out)
}

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

#[cfg(test)]
mod affine_tests {
    use super::*;

    #[test]
    fn an_inverse_undoes() {
        for rows in [
            [[-2.0, 0.0, 0.0, 90.0], [0.0, 3.0, 0.5, -126.0], [0.0, 0.0, 2.5, -72.0]],
            [[-2.0, 0.1, 0.2, 90.0], [0.3, 3.0, 0.5, -126.0], [0.2, -0.4, 2.5, -72.0]],
            [[0.0, 2.0, 0.0, 1.0], [0.0, 0.0, -3.0, 2.0], [1.5, 0.0, 0.0, 3.0]],
        ] {
            let affine = Affine(rows);
            let there_and_back = affine.inverse().unwrap().after(&affine);
            for (i, row) in there_and_back.0.iter().enumerate() {
                for (j, x) in row.iter().enumerate() {
                    assert!((x - f64::from(u8::from(i == j))).abs() < 1e-13, "{there_and_back:?}");
                }
            }
        }
        assert_eq!(Affine([[0.0; 4]; 3]).inverse(), None);
        assert_eq!(Affine([[f64::NAN; 4]; 3]).inverse(), None);
    }
}
