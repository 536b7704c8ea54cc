//! The slow twin in double precision.

use super::{ErrorShape, MaskedError};

/// The weighted sum of squared differences over valid columns.
pub fn masked_error(shape: ErrorShape, error: &MaskedError<'_>) -> f64 {
    let mut total = 0.0;
    for row in 0..shape.batch * shape.rows {
        for column in 0..shape.columns {
            let counts = error.valid.is_none_or(|valid| valid[row / shape.rows * shape.columns + column] > 0.5);
            if counts && error.row_weights[row] != 0.0 {
                let at = row * shape.columns + column;
                let difference = f64::from(error.prediction[at]) - f64::from(error.target[at]);
                total += f64::from(error.row_weights[row]) * difference * difference;
            }
        }
    }
    total
}
