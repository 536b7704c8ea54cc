//! The slow twin in double precision.

use super::LinearShape;

/// `x W^T + b`.
pub fn forward(shape: LinearShape, x: &[f64], w: &[f64], bias: Option<&[f64]>) -> Vec<f64> {
    let mut y = Vec::with_capacity(shape.rows * shape.outputs);
    for r in 0..shape.rows {
        for o in 0..shape.outputs {
            let dot: f64 = (0..shape.inputs).map(|i| x[r * shape.inputs + i] * w[o * shape.inputs + i]).sum();
            y.push(dot + bias.map_or(0.0, |bias| bias[o]));
        }
    }
    y
}

/// (dx, dw, db) of `x W^T + b`.
pub fn backward(shape: LinearShape, x: &[f64], w: &[f64], dy: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let LinearShape { rows, inputs, outputs } = shape;
    let (mut dx, mut dw, mut db) = (vec![0.0; rows * inputs], vec![0.0; outputs * inputs], vec![0.0; outputs]);
    for r in 0..rows {
        for o in 0..outputs {
            let d = dy[r * outputs + o];
            db[o] += d;
            for i in 0..inputs {
                dx[r * inputs + i] += d * w[o * inputs + i];
                dw[o * inputs + i] += d * x[r * inputs + i];
            }
        }
    }
    (dx, dw, db)
}
