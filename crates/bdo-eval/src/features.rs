//! Numbers that describe scans: one row a scan, one column a feature, NaN where a value is missing.

use bdo_data::cohort::CohortError;

/// A row-major matrix of features.
#[derive(Debug, Clone, PartialEq)]
pub struct Features {
    rows: usize,
    width: usize,
    values: Vec<f64>,
}

/// Why features cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FeatureError {
    /// Values that are no matrix.
    #[error("features: expected {rows} x {width} values, found {found}")]
    Shape {
        /// Rows announced.
        rows: usize,
        /// Columns announced.
        width: usize,
        /// Values given.
        found: usize,
    },
    /// Rows and people do not go together.
    #[error("feature table: expected one person a row, found {people} for {rows} rows")]
    People {
        /// Rows of the matrix.
        rows: usize,
        /// People given.
        people: usize,
    },
    /// Infinite values have no place in a linear model; NaN marks what is missing.
    #[error("features: expected finite values or NaN, found {found} in row {row}, column {column}")]
    Infinite {
        /// The row.
        row: usize,
        /// The column.
        column: usize,
        /// The value.
        found: f64,
    },
    /// The scans they are made of cannot be read.
    #[error(transparent)]
    Cohort(#[from] CohortError),
}

impl Features {
    /// Takes row-major values, which must be finite or NaN.
    pub fn new(rows: usize, width: usize, values: Vec<f64>) -> Result<Self, FeatureError> {
        if values.len() != rows * width {
            return Err(FeatureError::Shape { rows, width, found: values.len() });
        }
        if let Some(at) = values.iter().position(|x| x.is_infinite()) {
            let (row, column) = (at / width, at % width);
            return Err(FeatureError::Infinite { row, column, found: values[at] });
        }
        Ok(Self { rows, width, values })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// One row.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.width..][..self.width]
    }

    /// All values, row-major.
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

/// Features with the person each row is of. A person may have several rows (scans).
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureTable {
    subjects: Vec<String>,
    features: Features,
}

impl FeatureTable {
    /// Joins rows and people.
    pub fn new(subjects: Vec<String>, features: Features) -> Result<Self, FeatureError> {
        if subjects.len() != features.rows() {
            return Err(FeatureError::People { rows: features.rows(), people: subjects.len() });
        }
        Ok(Self { subjects, features })
    }

    /// The person of every row.
    pub fn subjects(&self) -> &[String] {
        &self.subjects
    }

    /// The matrix.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The rows of the people for whom `wanted` holds, in order.
    pub fn rows_of(&self, wanted: impl Fn(&str) -> bool) -> Vec<usize> {
        (0..self.subjects.len()).filter(|i| wanted(&self.subjects[*i])).collect()
    }

    /// BLAKE3 of the people and values of some rows: what a fit on them was fitted on.
    pub fn rows_blake3(&self, rows: &[usize]) -> String {
        let mut hasher = blake3::Hasher::new();
        for &i in rows {
            hasher.update(self.subjects[i].as_bytes()).update(b"\0");
            for x in self.features.row(i) {
                hasher.update(&x.to_le_bytes());
            }
        }
        hasher.finalize().to_hex().to_string()
    }
}
