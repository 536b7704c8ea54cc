//! Groups of people with a like label, spread evenly over the parts of a split.

use crate::participants::Label;

/// Quantile bins of a number.
const BINS: usize = 10;
/// A bin with fewer people is merged with its neighbour.
const LEAST_IN_BIN: usize = 5;

/// The stratum of every person; `None` where the label is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strata(pub Vec<Option<usize>>);

impl Strata {
    /// Classes of a category, quantile bins of a number. A number with few values (a code such as 1 and 2) is a category.
    pub fn of(label: &Label) -> Self {
        match label {
            Label::Category(values) => Self(classes(values)),
            Label::Number(values) => {
                let mut present: Vec<f64> = values.iter().copied().flatten().collect();
                present.sort_by(f64::total_cmp);
                let mut distinct = present.clone();
                distinct.dedup();
                if distinct.len() <= BINS {
                    let of = |x: f64| distinct.partition_point(|d| *d < x);
                    return Self(values.iter().map(|v| v.map(of)).collect());
                }
                let edges = bin_edges(&present);
                Self(values.iter().map(|v| v.map(|x| edges.partition_point(|e| *e <= x))).collect())
            }
        }
    }

    pub fn single(people: usize) -> Self {
        Self(vec![Some(0); people])
    }
}

fn classes(values: &[Option<String>]) -> Vec<Option<usize>> {
    let mut names: Vec<&str> = values.iter().flatten().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    values.iter().map(|v| v.as_deref().map(|v| names.partition_point(|n| *n < v))).collect()
}

/// Inner edges of quantile bins over sorted values, without those that would leave a bin with too few people.
fn bin_edges(sorted: &[f64]) -> Vec<f64> {
    let mut edges: Vec<f64> = vec![];
    let mut counted = 0;
    for bin in 1..BINS {
        let edge = sorted[bin * sorted.len() / BINS];
        let below = sorted.partition_point(|x| *x < edge);
        if below - counted >= LEAST_IN_BIN && sorted.len() - below >= LEAST_IN_BIN {
            edges.push(edge);
            counted = below;
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_have_at_least_five_members() {
        for n in [11, 23, 50, 51, 97, 200] {
            let values: Vec<Option<f64>> =
                (0..n).map(|i| Some(f64::from((i * i) % 37) + f64::from(i) * 0.001)).collect();
            let Strata(strata) = Strata::of(&Label::Number(values));
            let bins = strata.iter().flatten().max().copied().unwrap_or(0) + 1;
            for bin in 0..bins {
                let members = strata.iter().flatten().filter(|s| **s == bin).count();
                assert!(members >= LEAST_IN_BIN || bins == 1, "{n} people: bin {bin} of {bins} has {members}");
            }
            assert!(bins <= BINS);
        }
    }

    #[test]
    fn codes_are_classes_and_missing_stays_missing() {
        let label = Label::Number(vec![Some(1.0), Some(2.0), None, Some(1.0)]);
        assert_eq!(Strata::of(&label).0, [Some(0), Some(1), None, Some(0)]);
    }
}
