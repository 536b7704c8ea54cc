//! The factorisations of faer that BDO uses, as functions that are not generic: they are compiled here once, not in every crate
//! that calls them. On one thread unless said otherwise, so that results do not depend on how many there are.

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::linalg::householder::{
    apply_block_householder_sequence_on_the_left_in_place_scratch,
    apply_block_householder_sequence_on_the_left_in_place_with_conj,
};
use faer::linalg::lu::partial_pivoting::{factor as lu, inverse as lu_inverse};
use faer::linalg::matmul::matmul;
use faer::linalg::qr::no_pivoting::factor as qr;
use faer::linalg::solvers::Solve;
use faer::{Accum, Conj, Mat, MatMut, MatRef, Par, Side, Spec};

/// Eigenvalues, smallest first, and eigenvectors (as columns) of a symmetric matrix; `None` where they were not found, which
/// finite input does not lead to.
pub fn symmetric_eigen(matrix: MatRef<'_, f64>) -> Option<(Vec<f64>, Mat<f64>)> {
    let n = matrix.nrows();
    let mut values = Diag::<f64>::zeros(n);
    let mut vectors = Mat::zeros(n, n);
    let (par, params) = (Par::Seq, Spec::default());
    let mut memory = MemBuffer::new(self_adjoint_evd_scratch::<f64>(n, ComputeEigenvectors::Yes, par, params));
    let stack = MemStack::new(&mut memory);
    self_adjoint_evd(matrix, values.as_mut(), Some(vectors.as_mut()), par, stack, params).ok()?;
    Some((values.column_vector().iter().copied().collect(), vectors))
}

/// As [`symmetric_eigen`], largest first.
pub fn leading_eigen(matrix: MatRef<'_, f64>) -> Option<(Vec<f64>, Mat<f64>)> {
    let (values, vectors) = symmetric_eigen(matrix)?;
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    let vectors = Mat::from_fn(order.len(), order.len(), |i, k| vectors[(i, order[k])]);
    Some((order.into_iter().map(|k| values[k]).collect(), vectors))
}

/// A function of a symmetric matrix, by way of its eigenvalues; `None` where they were not found.
pub fn spectral(matrix: MatRef<'_, f64>, function: &dyn Fn(f64) -> f64) -> Option<Mat<f64>> {
    let (values, vectors) = symmetric_eigen(matrix)?;
    let mut scaled = vectors.clone();
    for (column, value) in scaled.col_iter_mut().zip(values) {
        let by = function(value);
        column.iter_mut().for_each(|x| *x *= by);
    }
    Some(product(scaled.as_ref(), vectors.transpose()))
}

/// `a b`.
pub fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows(), b.ncols());
    matmul(out.as_mut(), Accum::Replace, a, b, 1.0, Par::Seq);
    out
}

/// Adds `a b` to `out`.
pub fn add_product(out: MatMut<'_, f64>, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    matmul(out, Accum::Add, a, b, 1.0, Par::Seq);
}

/// The inverse of a square matrix that is not singular.
pub fn inverse(mut matrix: Mat<f64>) -> Mat<f64> {
    let d = matrix.nrows();
    let (mut forward, mut backward) = (vec![0usize; d], vec![0usize; d]);
    let (par, params) = (Par::Seq, Spec::default());
    let mut memory = MemBuffer::new(lu::lu_in_place_scratch::<usize, f64>(d, d, par, params));
    let stack = MemStack::new(&mut memory);
    let (_, permutation) = lu::lu_in_place(matrix.as_mut(), &mut forward, &mut backward, par, stack, params);
    let mut out = Mat::zeros(d, d);
    let mut memory = MemBuffer::new(lu_inverse::inverse_scratch::<usize, f64>(d, par));
    let stack = MemStack::new(&mut memory);
    lu_inverse::inverse(out.as_mut(), matrix.as_ref(), matrix.as_ref(), permutation, par, stack);
    out
}

/// The orthogonal factor of a square matrix and the diagonal of the triangular one.
pub fn orthogonal_factor(mut matrix: Mat<f64>) -> (Mat<f64>, Vec<f64>) {
    let d = matrix.nrows();
    let block = qr::recommended_block_size::<f64>(d, d);
    let mut householder = Mat::zeros(block, d);
    let (par, params) = (Par::Seq, Spec::default());
    let mut memory = MemBuffer::new(qr::qr_in_place_scratch::<f64>(d, d, block, par, params));
    qr::qr_in_place(matrix.as_mut(), householder.as_mut(), par, MemStack::new(&mut memory), params);
    let mut q = Mat::identity(d, d);
    let scratch = apply_block_householder_sequence_on_the_left_in_place_scratch::<f64>(d, block, d);
    let mut memory = MemBuffer::new(scratch);
    apply_block_householder_sequence_on_the_left_in_place_with_conj(
        matrix.as_ref(),
        householder.as_ref(),
        Conj::No,
        q.as_mut(),
        par,
        MemStack::new(&mut memory),
    );
    let diagonal = (0..d).map(|k| matrix[(k, k)]).collect();
    (q, diagonal)
}

/// X with `positive` X = `right`; `None` if the matrix is not positive definite.
pub fn solve_positive(positive: &Mat<f64>, right: &Mat<f64>) -> Option<Mat<f64>> {
    positive.llt(Side::Lower).ok().map(|factor| factor.solve(right))
}

/// The solution of `normal x = right` for a symmetric matrix whose eigenvalues are positive but for rounding; on all threads.
pub fn solve_normal(normal: &Mat<f64>, right: &Mat<f64>) -> Mat<f64> {
    match normal.llt(Side::Lower) {
        Ok(factor) => factor.solve(right),
        // Rounding can leave a tiny negative eigenvalue; the decomposition with pivots does not mind.
        Err(_) => normal.partial_piv_lu().solve(right),
    }
}

/// Lower triangular factor L, row-major, of the symmetric n x n matrix of these entries, in a fixed order of sums; `None` where the
/// square of a diagonal entry is not above `least`.
pub fn cholesky(n: usize, least: f64, entry: impl Fn(usize, usize) -> f64) -> Option<Vec<f64>> {
    let mut l = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let dot: f64 = (0..j).map(|k| l[i * n + k] * l[j * n + k]).sum();
            let left = entry(i, j) - dot;
            if i == j {
                if left <= least {
                    return None;
                }
                l[i * n + i] = left.sqrt();
            } else {
                l[i * n + j] = left / l[j * n + j];
            }
        }
    }
    Some(l)
}

/// Solves `L L^T x = b` in place.
pub fn cholesky_solve(l: &[f64], x: &mut [f64]) {
    let n = x.len();
    for i in 0..n {
        let dot: f64 = (0..i).map(|k| l[i * n + k] * x[k]).sum();
        x[i] = (x[i] - dot) / l[i * n + i];
    }
    for i in (0..n).rev() {
        let dot: f64 = (i + 1..n).map(|k| l[k * n + i] * x[k]).sum();
        x[i] = (x[i] - dot) / l[i * n + i];
    }
}

/// Sum of products, in order.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Takes out of x what lies along each of some orthonormal directions.
pub fn remove_directions(x: &mut [f64], directions: &[Vec<f64>]) {
    for direction in directions {
        let along = dot(x, direction);
        x.iter_mut().zip(direction).for_each(|(x, d)| *x -= along * d);
    }
}
