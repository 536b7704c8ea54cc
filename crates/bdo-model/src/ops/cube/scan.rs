//! Moments of the held process: one thread per sample and channel walks through the steps, forward and back.
//!
//! Mean and variance obey the same recurrence, `x_j = a x_{j-1} + Delta phi1(y) drive` with y = s Delta Lambda and a = e^-y: s is 1
//! and the drive the control for the mean, 2 and the strength of the noise for the variance.

use super::{elements, empty_like, threads};
use crate::device::upload;
use crate::ops::fused::{FusedOp, run};
use crate::ops::scan::Drive;
use burn::backend::ops::FloatTensorOps;
use burn::backend::{Cube, DType, TensorMetadata};
use burn::tensor::{Int, Shape, Tensor};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// (1 - e^-y) / y for y >= 0; a series where the difference would lose digits.
#[cube]
fn phi1(y: f32, decay: f32) -> f32 {
    let one = f32::new(1.0_f32);
    let small = y < f32::new(0.5_f32);
    let mut series = one - y / f32::new(10.0_f32);
    series = one - y / f32::new(9.0_f32) * series;
    series = one - y / f32::new(8.0_f32) * series;
    series = one - y / f32::new(7.0_f32) * series;
    series = one - y / f32::new(6.0_f32) * series;
    series = one - y / f32::new(5.0_f32) * series;
    series = one - y / f32::new(4.0_f32) * series;
    series = one - y / f32::new(3.0_f32) * series;
    series = one - y / f32::new(2.0_f32) * series;
    select(small, series, (one - decay) / select(small, one, y))
}

/// Its derivative, `(e^-y - phi1) / y`.
#[cube]
fn phi1_slope(y: f32, decay: f32, phi1: f32) -> f32 {
    let small = y < f32::new(0.5_f32);
    let mut series = f32::new(1.0_f32 / 45360.0_f32) - y * f32::new(1.0_f32 / 403200.0_f32);
    series = f32::new(-1.0_f32 / 5760.0_f32) + y * series;
    series = f32::new(1.0_f32 / 840.0_f32) + y * series;
    series = f32::new(-1.0_f32 / 144.0_f32) + y * series;
    series = f32::new(1.0_f32 / 30.0_f32) + y * series;
    series = f32::new(-0.125_f32) + y * series;
    series = f32::new(1.0_f32 / 3.0_f32) + y * series;
    series = f32::new(-0.5_f32) + y * series;
    select(small, series, (decay - phi1) / select(small, f32::new(1.0_f32), y))
}

/// `drive` holds [B, C, d] controls, or one number. `driver` holds rows of the flattened [B * C] tokens.
#[cube(launch)]
fn forward_kernel(
    drive: &[f32],
    rates: &[f32],
    driver: &[i32],
    delta: &[f32],
    start: &[f32],
    states: &mut [f32],
    scale: f32,
    steps: usize,
    width: usize,
    columns: usize,
    #[comptime] constant: bool,
) {
    if ABSOLUTE_POS < columns {
        let sample = ABSOLUTE_POS / width;
        let channel = ABSOLUTE_POS % width;
        let mut state = start[channel];
        for step in 0..steps {
            let row = sample * steps + step;
            let token = usize::cast_from(driver[row]) * width + channel;
            let length = delta[row];
            let y = scale * length * rates[token];
            let decay = (f32::new(0.0_f32) - y).exp();
            let pushed = if constant { drive[0] } else { drive[token] };
            state = decay * state + length * phi1(y, decay) * pushed;
            states[row * width + channel] = state;
        }
    }
}

/// Gradients of the drive (if it is not constant), of the rates and of the start, which is still to be summed over samples [B, d].
#[cube(launch)]
fn backward_kernel(
    drive: &[f32],
    rates: &[f32],
    driver: &[i32],
    delta: &[f32],
    start: &[f32],
    states: &[f32],
    dstates: &[f32],
    ddrive: &mut [f32],
    drates: &mut [f32],
    dstart: &mut [f32],
    scale: f32,
    steps: usize,
    tokens: usize,
    width: usize,
    columns: usize,
    #[comptime] constant: bool,
) {
    if ABSOLUTE_POS < columns {
        let sample = ABSOLUTE_POS / width;
        let channel = ABSOLUTE_POS % width;
        for token in 0..tokens {
            let at = (sample * tokens + token) * width + channel;
            drates[at] = f32::new(0.0_f32);
            if !constant {
                ddrive[at] = f32::new(0.0_f32);
            }
        }
        let mut carried = f32::new(0.0_f32);
        for back in 0..steps {
            let step = steps - 1 - back;
            let row = sample * steps + step;
            carried += dstates[row * width + channel];
            let token = usize::cast_from(driver[row]) * width + channel;
            let length = delta[row];
            let y = scale * length * rates[token];
            let decay = (f32::new(0.0_f32) - y).exp();
            let phi = phi1(y, decay);
            let pushed = if constant { drive[0] } else { drive[token] };
            // Inside the table whatever the step; the start stands in for the state before the first.
            let earlier = select(step > 0, row * width + channel, width + channel) - width;
            let before = select(step > 0, states[earlier], start[channel]);
            let slope = length * phi1_slope(y, decay, phi) * pushed - decay * before;
            drates[token] += scale * length * slope * carried;
            if !constant {
                ddrive[token] += length * phi * carried;
            }
            carried *= decay;
        }
        dstart[ABSOLUTE_POS] = carried;
    }
}

/// Which token drives which step for how long, on the device.
#[derive(Clone, Debug)]
struct Plan {
    driver: CubeTensor,
    delta: CubeTensor,
    steps: usize,
}

/// Sizes of the walk.
struct Sizes {
    tokens: usize,
    width: usize,
    columns: usize,
}

impl Plan {
    /// drive, rates [B, C, d], start [d] -> [B, K, d].
    fn forward(&self, drive: &CubeTensor, rates: &CubeTensor, start: &CubeTensor, scale: f32) -> CubeTensor {
        let Sizes { width, columns, .. } = sizes(rates);
        let states = empty_like(rates, Shape::new([columns / width, self.steps, width]));
        let (count, dim) = threads(rates, columns);
        forward_kernel::launch(
            &rates.client,
            count,
            dim,
            drive.clone().into_buffer_arg(),
            rates.clone().into_buffer_arg(),
            self.driver.clone().into_buffer_arg(),
            self.delta.clone().into_buffer_arg(),
            start.clone().into_buffer_arg(),
            states.clone().into_buffer_arg(),
            scale,
            self.steps,
            width,
            columns,
            elements(drive) == 1,
        );
        states
    }

    /// Gradients of drive, rates and start.
    fn backward(
        &self,
        [drive, rates, start, states]: [&CubeTensor; 4],
        dstates: CubeTensor,
        scale: f32,
    ) -> (CubeTensor, CubeTensor, CubeTensor) {
        let Sizes { tokens, width, columns } = sizes(rates);
        let ddrive = empty_like(rates, drive.shape());
        let drates = empty_like(rates, rates.shape());
        let dstart = empty_like(rates, Shape::new([columns / width, width]));
        let (count, dim) = threads(rates, columns);
        backward_kernel::launch(
            &rates.client,
            count,
            dim,
            drive.clone().into_buffer_arg(),
            rates.clone().into_buffer_arg(),
            self.driver.clone().into_buffer_arg(),
            self.delta.clone().into_buffer_arg(),
            start.clone().into_buffer_arg(),
            states.clone().into_buffer_arg(),
            dstates.into_buffer_arg(),
            ddrive.clone().into_buffer_arg(),
            drates.clone().into_buffer_arg(),
            dstart.clone().into_buffer_arg(),
            scale,
            self.steps,
            tokens,
            width,
            columns,
            elements(drive) == 1,
        );
        let dstart = Cube::float_reshape(Cube::float_sum_dim(dstart, 0), start.shape());
        (ddrive, drates, dstart)
    }
}

fn sizes(rates: &CubeTensor) -> Sizes {
    let [batch, tokens, width] = rates.shape().dims();
    Sizes { tokens, width, columns: batch * width }
}

/// The mean, from control, rates and its start.
#[derive(Debug)]
struct Mean(Plan);

/// The variance, from rates and its start; the strength of the noise is a number on the device.
#[derive(Debug)]
struct Variance(Plan, CubeTensor);

impl FusedOp<3> for Mean {
    type On = Cube;
    type Saved = (Plan, [CubeTensor; 4]);

    fn forward(self, [control, rates, start]: [CubeTensor; 3]) -> (CubeTensor, Self::Saved) {
        let states = self.0.forward(&control, &rates, &start, 1.0);
        (states.clone(), (self.0, [control, rates, start, states]))
    }

    fn backward((plan, saved): &Self::Saved, dy: CubeTensor, _: [bool; 3]) -> [Option<CubeTensor>; 3] {
        let (dcontrol, drates, dstart) = plan.backward(saved.each_ref(), dy, 1.0);
        [Some(dcontrol), Some(drates), Some(dstart)]
    }
}

impl FusedOp<2> for Variance {
    type On = Cube;
    type Saved = (Plan, [CubeTensor; 4]);

    fn forward(self, [rates, start]: [CubeTensor; 2]) -> (CubeTensor, Self::Saved) {
        let states = self.0.forward(&self.1, &rates, &start, 2.0);
        (states.clone(), (self.0, [self.1, rates, start, states]))
    }

    fn backward((plan, saved): &Self::Saved, dy: CubeTensor, _: [bool; 2]) -> [Option<CubeTensor>; 2] {
        let (_, drates, dstart) = plan.backward(saved.each_ref(), dy, 2.0);
        [Some(drates), Some(dstart)]
    }
}

/// Mean and variance [B, K, d] of a driven process; `noise` is the variance of the noise per unit of scaled time.
pub(in crate::ops) fn moments(
    drive: Drive,
    mean0: Tensor<1>,
    variance0: Tensor<1>,
    noise: f64,
) -> (Tensor<3>, Tensor<3>) {
    let batch = drive.control.dims()[0];
    let device = drive.control.device().inner();
    let floats = |values: &[f32]| {
        upload::<1, burn::tensor::Float>(values, &device).try_into_primitive::<Cube>().expect("made on this device")
    };
    let rows: Vec<i32> = drive.driver.iter().map(|&row| row as i32).collect();
    let driver = upload::<1, Int>(rows.as_slice(), (&device, DType::I32)).try_into_primitive::<Cube>();
    let plan = Plan {
        driver: driver.expect("made on this device"),
        delta: floats(&drive.delta),
        steps: drive.delta.len() / batch,
    };
    let variance = Variance(plan.clone(), floats(&[noise as f32]));
    let (control, rates) = (drive.control.into_dispatch(), drive.rates.into_dispatch());
    let variance = run(variance, [rates.clone(), variance0.into_dispatch()]);
    (run(Mean(plan), [control, rates, mean0.into_dispatch()]), variance)
}
