//! What happens to features before a head sees them, fitted on training scans only.

use serde::{Deserialize, Serialize};

/// A shift and a scale of each column; both may be absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FittedTransform {
    /// Subtracted: the reference of the tangent space, or the training mean.
    pub centre: Option<Vec<f32>>,
    /// Divided by: the training spread, 1 where a column is constant.
    pub scale: Option<Vec<f32>>,
}

impl FittedTransform {
    /// Fits on the given rows, all of one length.
    pub fn fit(rows: &[&[f32]], centre: bool, scale: bool) -> Self {
        let width = rows.first().map_or(0, |row| row.len());
        let n = rows.len().max(1) as f64;
        let mut mean = vec![0.0f64; width];
        for row in rows {
            mean.iter_mut().zip(*row).for_each(|(m, &x)| *m += f64::from(x) / n);
        }
        let mut square = vec![0.0f64; width];
        for row in rows {
            for ((s, &x), m) in square.iter_mut().zip(*row).zip(&mean) {
                *s += (f64::from(x) - m).powi(2) / n;
            }
        }
        let spread = |(s, m): (&f64, &f64)| if s.sqrt() > 1e-6 * m.abs().max(1e-12) { s.sqrt() as f32 } else { 1.0 };
        Self {
            centre: (centre || scale).then(|| mean.iter().map(|m| *m as f32).collect()),
            scale: scale.then(|| square.iter().zip(&mean).map(spread).collect()),
        }
    }

    pub fn apply(&self, row: &[f32]) -> Vec<f32> {
        let mut out = row.to_vec();
        if let Some(centre) = &self.centre {
            out.iter_mut().zip(centre).for_each(|(x, c)| *x -= c);
        }
        if let Some(scale) = &self.scale {
            out.iter_mut().zip(scale).for_each(|(x, s)| *x /= s);
        }
        out
    }
}
