//! What the rows and columns of a CIFTI matrix stand for.

/// One dimension of the matrix.
#[derive(Debug, Clone, PartialEq)]
pub enum Axis {
    Series {
        points: u64,
        /// Step in seconds; absent where the series is not over time.
        step_seconds: Option<f64>,
        /// Where the first point lies, in the unit of the series.
        start: f64,
    },
    /// Points of grey matter.
    BrainModels {
        /// Surfaces and volume parts, in the order of their indices.
        models: Vec<BrainModel>,
        volume: Option<VolumeGrid>,
    },
    Parcels(Vec<String>),
    Labels(Vec<LabelMap>),
    /// Named maps of plain numbers.
    Scalars(u64),
}

impl Axis {
    pub fn len(&self) -> u64 {
        match self {
            Self::Series { points, .. } => *points,
            Self::BrainModels { models, .. } => models.iter().map(|m| m.places.len() as u64).sum(),
            Self::Parcels(names) => names.len() as u64,
            Self::Labels(maps) => maps.len() as u64,
            Self::Scalars(count) => *count,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What messages call it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Series { .. } => "a series",
            Self::BrainModels { .. } => "brain models",
            Self::Parcels(_) => "parcels",
            Self::Labels(_) => "labels",
            Self::Scalars(_) => "scalars",
        }
    }
}

/// The points of one structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrainModel {
    /// `CIFTI_STRUCTURE_...`.
    pub structure: String,
    /// Vertices of the whole surface, where it is one.
    pub surface_vertices: Option<u64>,
    pub places: Places,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places {
    Vertices(Vec<u32>),
    Voxels(Vec<[u32; 3]>),
}

impl Places {
    pub fn len(&self) -> usize {
        match self {
            Self::Vertices(v) => v.len(),
            Self::Voxels(v) => v.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The grid voxels refer to.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeGrid {
    pub shape: [u64; 3],
    /// Rows of the 4 x 4 matrix, in the unit the file states.
    pub matrix: [f64; 16],
    /// Power of ten of a metre that unit is; -3 for millimetres.
    pub meter_exponent: i32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelMap {
    pub name: String,
    /// Key and name of every label, in the order of the table.
    pub labels: Vec<(i64, String)>,
}
