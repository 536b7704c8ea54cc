//! One split of the people into training, validation and test, and the file that holds several.

use serde::{Deserialize, Serialize};

/// Share of the people that is tested, and again that selects.
pub const HELD_OUT_FRACTION: f64 = 0.2;

pub const SITE_GROUPS: usize = 5;

/// Why people cannot be split.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    #[error("expected a label column {column:?}, found {}", .found.join(", "))]
    NoColumn { column: String, found: Vec<String> },
    #[error("expected at least {expected} people with a value of {target:?}, found {found}")]
    TooFew { target: String, expected: usize, found: usize },
    #[error("expected at least 2 sites to leave one out, found {found}")]
    TooFewSites { found: usize },
    #[error(
        "target {target:?}, seed {seed}: expected people to fit on and people to test, found {train} and {test}; families and copies of a scan stay together"
    )]
    EmptyPart { target: String, seed: u64, train: usize, test: usize },
    #[error("expected a fold below {folds}, found {fold}")]
    NoSuchFold { fold: usize, folds: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// Six to two to two at random.
    Random,
    /// Another share of the people selects, and again is tested, than [`HELD_OUT_FRACTION`]: what pre-training uses.
    HoldOut { percent: u32 },
    /// Test on one of [`SITE_GROUPS`] groups of sites, train and select on the others.
    LeaveSiteOut { fold: usize },
}

impl Scheme {
    /// The name in tables, whatever the share or fold.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::HoldOut { .. } => "hold_out",
            Self::LeaveSiteOut { .. } => "leave_site_out",
        }
    }
}

/// What decides a split, besides the people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SplitSpec {
    /// The label that is stratified by and whose missing values exclude a person; none for pre-training.
    pub(super) target: Option<String>,
    pub(super) family_column: Option<String>,
    pub(super) site_column: Option<String>,
    pub(super) scheme: Scheme,
    pub(super) seed: u64,
}

/// The people a model may be fitted on. Only a [`Division`](super::Division) makes one, so nothing can be fitted on anybody
/// else by mistake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrainPeople(Vec<String>);

/// The people that select among fitted models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ValidationPeople(Vec<String>);

/// The people a chosen model is scored on, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TestPeople(Vec<String>);

macro_rules! people {
    ($($name:ident),*) => {$(
        impl $name {
            pub fn subjects(&self) -> &[String] {
                &self.0
            }

            pub fn contains(&self, subject: &str) -> bool {
                self.0.binary_search_by(|s| s.as_str().cmp(subject)).is_ok()
            }
        }
    )*};
}
people!(TrainPeople, ValidationPeople, TestPeople);

/// Who trains, who selects and who is tested, with what decided it and a hash over all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    spec: SplitSpec,
    pub train: TrainPeople,
    pub validation: ValidationPeople,
    pub test: TestPeople,
    /// In none of the three: no value of the target, or family of a tested person at another site.
    pub excluded: Vec<String>,
    /// BLAKE3 over everything above.
    pub blake3: String,
}

impl Split {
    pub(super) fn new(spec: SplitSpec, [train, validation, test, excluded]: [Vec<String>; 4]) -> Self {
        let mut split = Self {
            spec,
            train: TrainPeople(train),
            validation: ValidationPeople(validation),
            test: TestPeople(test),
            excluded,
            blake3: String::new(),
        };
        split.blake3 = split.content_blake3();
        split
    }

    pub fn target(&self) -> Option<&str> {
        self.spec.target.as_deref()
    }

    pub fn scheme(&self) -> Scheme {
        self.spec.scheme
    }

    pub fn seed(&self) -> u64 {
        self.spec.seed
    }

    /// Refuses a split with nobody to fit on, or nobody to test.
    pub fn refuse_empty(&self) -> Result<(), SplitError> {
        let (train, test) = (self.train.subjects().len(), self.test.subjects().len());
        let target = || self.spec.target.clone().unwrap_or_default();
        let empty = || SplitError::EmptyPart { target: target(), seed: self.seed(), train, test };
        if train.min(test) == 0 { Err(empty()) } else { Ok(()) }
    }

    /// Whether the stored hash is that of the content.
    pub fn is_intact(&self) -> bool {
        self.blake3 == self.content_blake3()
    }

    fn content_blake3(&self) -> String {
        let content = (&self.spec, &self.train, &self.validation, &self.test, &self.excluded);
        let json = serde_json::to_vec(&content).expect("a split holds only strings and numbers");
        blake3::hash(&json).to_hex().to_string()
    }
}

/// Splits of several targets and seeds over one cohort, shared by every method that is compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitManifest {
    pub cohort_blake3: String,
    pub splits: Vec<Split>,
    /// BLAKE3 over the splits' hashes and the cohort's.
    pub blake3: String,
}

impl SplitManifest {
    pub fn new(cohort_blake3: &str, splits: Vec<Split>) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(cohort_blake3.as_bytes());
        for split in &splits {
            hasher.update(split.blake3.as_bytes());
        }
        let blake3 = hasher.finalize().to_hex().to_string();
        Self { cohort_blake3: cohort_blake3.to_owned(), splits, blake3 }
    }
}
