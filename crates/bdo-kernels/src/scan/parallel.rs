//! The same scan by a work-efficient tree over the steps, for a single long sequence on many threads.
//!
//! The paper's listing is corrected as in the specification: padding with the identity to a power of two, the root set
//! to the identity, the left value saved before it is overwritten, the later operand applied last, and the exclusive
//! result composed with the original element.

use super::phi::decay_and_phi1;
use super::{Moments, ScanInput, ScanShape};
use crate::isa::{Isa, vectorised};
use rayon::prelude::*;

/// Affine maps `x -> factor x + offset`, one row of `width` values per step.
struct Maps {
    factor: Vec<f32>,
    offset: Vec<f32>,
}

/// Mean and variance after every step; equal to [`super::forward`] up to rounding.
pub fn forward(isa: Isa, shape: ScanShape, input: ScanInput<'_>) -> Moments {
    input.check(shape);
    let row = shape.steps * shape.width;
    let mut moments =
        Moments { mean: Vec::with_capacity(shape.batch * row), variance: Vec::with_capacity(shape.batch * row) };
    for sample in 0..shape.batch {
        let (mean, variance) = elements(isa, shape, &input, sample);
        moments.mean.extend(applied(isa, shape, &mean, input.mean0));
        moments.variance.extend(applied(isa, shape, &variance, input.variance0));
    }
    moments
}

/// The maps of one sample, steps padded with the identity to a power of two.
fn elements(isa: Isa, shape: ScanShape, input: &ScanInput<'_>, sample: usize) -> (Maps, Maps) {
    let len = shape.steps.next_power_of_two() * shape.width;
    let identity = || Maps { factor: vec![1.0; len], offset: vec![0.0; len] };
    let (mut mean, mut variance) = (identity(), identity());
    if shape.width == 0 {
        return (mean, variance);
    }
    let maps = mean.factor.par_chunks_mut(shape.width).zip(mean.offset.par_chunks_mut(shape.width));
    let maps = maps.zip(variance.factor.par_chunks_mut(shape.width).zip(variance.offset.par_chunks_mut(shape.width)));
    maps.take(shape.steps).enumerate().for_each(|(step, ((a, b), (aa, bb)))| {
        let token = input.token_at(shape, sample, step);
        let range = token..token + shape.width;
        let delta = input.delta_of(shape, sample, step);
        element(isa, delta, input.diffusion, &input.alphahat[range.clone()], &input.lambda[range], [a, b, aa, bb]);
    });
    (mean, variance)
}

vectorised! {
    fn element<V>(delta: f32, diffusion: f32, alphahat: &[f32], lambda: &[f32], out: [&mut [f32]; 4]) {
        let [a_out, b_out, aa_out, bb_out] = out;
        let (d, half) = (V::splat(delta), V::splat(0.5));
        let mut i = 0;
        while i < lambda.len() {
            let (a, phi1) = decay_and_phi1(d.mul(V::read(lambda, i)));
            a.write(a_out, i);
            d.mul(phi1).mul(V::read(alphahat, i)).write(b_out, i);
            a.mul(a).write(aa_out, i);
            V::splat(diffusion * delta).mul(phi1.mul(a.fma(half, half))).write(bb_out, i);
            i += V::LANES;
        }
    }
}

/// Up-sweep, down-sweep, composition with the originals, application to the start.
fn applied(isa: Isa, shape: ScanShape, original: &Maps, start: &[f32]) -> Vec<f32> {
    let width = shape.width;
    let padded = shape.steps.next_power_of_two();
    if width == 0 || shape.steps == 0 {
        return Vec::new();
    }
    let mut tree = Maps { factor: original.factor.clone(), offset: original.offset.clone() };
    let mut span = 1;
    while span < padded {
        tree.each_pair(width, span, |left, right| compose_into_right(isa, left, right));
        span *= 2;
    }
    let root = (padded - 1) * width;
    tree.factor[root..].fill(1.0);
    tree.offset[root..].fill(0.0);
    while span > 1 {
        span /= 2;
        tree.each_pair(width, span, |left, right| push_down(isa, left, right));
    }
    let mut out = vec![0.0; shape.steps * width];
    out.par_chunks_mut(width).enumerate().for_each(|(step, out)| {
        let range = step * width..(step + 1) * width;
        let before = (&tree.factor[range.clone()], &tree.offset[range.clone()]);
        apply(isa, before, (&original.factor[range.clone()], &original.offset[range]), start, out);
    });
    out
}

/// The factor and offset rows of one node.
type Node<'a> = (&'a mut [f32], &'a mut [f32]);

impl Maps {
    /// Calls `f` on the last rows of the left and right half of every group of `2 * span` rows.
    fn each_pair(&mut self, width: usize, span: usize, f: impl Fn(Node<'_>, Node<'_>) + Sync + Send) {
        let group = 2 * span * width;
        self.factor.par_chunks_mut(group).zip(self.offset.par_chunks_mut(group)).for_each(|(factor, offset)| {
            let (left_a, right_a) = factor.split_at_mut(span * width);
            let (left_b, right_b) = offset.split_at_mut(span * width);
            let last = (span - 1) * width;
            f((&mut left_a[last..], &mut left_b[last..]), (&mut right_a[last..], &mut right_b[last..]));
        });
    }
}

vectorised! {
    /// right := left then right.
    fn compose_into_right<V>(left: Node<'_>, right: Node<'_>) {
        let mut i = 0;
        while i < left.0.len() {
            let (a, b) = (V::read(right.0, i), V::read(right.1, i));
            a.fma(V::read(left.1, i), b).write(right.1, i);
            a.mul(V::read(left.0, i)).write(right.0, i);
            i += V::LANES;
        }
    }
}

vectorised! {
    /// left, right := parent, parent then old left; the parent's value arrives in `right`.
    fn push_down<V>(left: Node<'_>, right: Node<'_>) {
        let mut i = 0;
        while i < left.0.len() {
            let (old_a, old_b) = (V::read(left.0, i), V::read(left.1, i));
            let (a, b) = (V::read(right.0, i), V::read(right.1, i));
            a.write(left.0, i);
            b.write(left.1, i);
            old_a.fma(b, old_b).write(right.1, i);
            old_a.mul(a).write(right.0, i);
            i += V::LANES;
        }
    }
}

vectorised! {
    /// The step's own map after the exclusive prefix, at the start.
    fn apply<V>(before: (&[f32], &[f32]), own: (&[f32], &[f32]), start: &[f32], out: &mut [f32]) {
        let mut i = 0;
        while i < out.len() {
            let reached = V::read(before.0, i).fma(V::read(start, i), V::read(before.1, i));
            V::read(own.0, i).fma(reached, V::read(own.1, i)).write(out, i);
            i += V::LANES;
        }
    }
}
