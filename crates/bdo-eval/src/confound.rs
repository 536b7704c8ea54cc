//! What should not explain a label: site, head motion, repetition time, scan length, age and sex, as tables of numbers.

use std::collections::{BTreeMap, BTreeSet};

use bdo_data::cohort::Cohort;
use bdo_data::division::site_column;
use bdo_data::participants::{Label, Participants};

use crate::error::EvalError;
use crate::features::{FeatureTable, ScanRow};
use bdo_data::target::{Target, TargetKind};

/// Columns that hold mean framewise displacement, where scans carry none of their own.
const MOTION_COLUMNS: [&str; 5] =
    ["mean_fd", "func_mean_fd", "mean_framewise_displacement", "MeanFD", "framewise_displacement_mean"];
const AGE_COLUMNS: [&str; 5] = ["age", "AGE_AT_SCAN", "Age", "age_years", "AGE"];
const SEX_COLUMNS: [&str; 5] = ["sex", "SEX", "Sex", "gender", "Gender"];

/// The nuisance values of every scan of a cohort, in the order of its index.
#[derive(Debug, Clone, PartialEq)]
pub struct Nuisance {
    rows: Vec<ScanRow>,
    /// Where it was acquired.
    pub site: Vec<Option<String>>,
    pub mean_fd_mm: Vec<Option<f64>>,
    pub tr_seconds: Vec<f64>,
    /// Time from the first kept frame to the last.
    pub span_seconds: Vec<f64>,
    /// Age and sex, where the participants table has them.
    demographics: Vec<Target>,
}

impl Nuisance {
    /// Collects from the index and the participants table.
    pub fn of(cohort: &Cohort) -> Self {
        let people = cohort.participants();
        let motion = numbers(people, &MOTION_COLUMNS);
        let site_column = site_column(people);
        let listed_site = |subject: &str| {
            let row = people.row_of(subject)?;
            people.get(row, site_column?).map(str::to_owned)
        };
        let listed_motion = |subject: &str| motion.as_ref()?.get(people.row_of(subject)?).copied().flatten();
        let index = cohort.index();
        let demographics = [&AGE_COLUMNS, &SEX_COLUMNS].iter();
        Self {
            rows: index.iter().map(ScanRow::of).collect(),
            site: index.iter().map(|e| e.site.clone().or_else(|| listed_site(&e.id.subject))).collect(),
            mean_fd_mm: index.iter().map(|e| e.mean_fd_mm.or_else(|| listed_motion(&e.id.subject))).collect(),
            tr_seconds: index.iter().map(|e| e.tr_seconds).collect(),
            span_seconds: index.iter().map(|e| e.span_seconds).collect(),
            demographics: demographics
                .filter_map(|names| Target::of(people, column_of(people, *names)?).ok())
                .collect(),
        }
    }

    /// One column a site; none where no scan has a site, or all have the same.
    pub fn site_table(&self) -> Result<Option<FeatureTable>, EvalError> {
        let sites: BTreeSet<&String> = self.site.iter().flatten().collect();
        if sites.len() < 2 {
            return Ok(None);
        }
        let row = |site: &Option<String>| -> Vec<f64> {
            sites.iter().map(|s| f64::from(u8::from(Some(*s) == site.as_ref()))).collect()
        };
        self.table(sites.len(), self.site.iter().flat_map(row).collect())
    }

    /// Mean head motion; none where it is not known of anybody.
    pub fn motion_table(&self) -> Result<Option<FeatureTable>, EvalError> {
        if self.mean_fd_mm.iter().all(Option::is_none) {
            return Ok(None);
        }
        self.table(1, self.mean_fd_mm.iter().map(|x| x.unwrap_or(f64::NAN)).collect())
    }

    /// Age and sex without the one that is to be predicted, however it is spelled; none where nothing is left.
    pub fn demographic_table(&self, target: &Target) -> Result<Option<FeatureTable>, EvalError> {
        let kept: Vec<&Target> =
            self.demographics.iter().filter(|d| d.name != target.name && !says_the_same(target, d)).collect();
        if kept.is_empty() {
            return Ok(None);
        }
        // A class beyond two needs a column each; two need one.
        let cells = |target: &Target, subject: &str| -> Vec<f64> {
            let own = target.value(subject).unwrap_or(f64::NAN);
            match target.classes() {
                Some(k) if k > 2 => {
                    let is = |class: usize| if own.is_nan() { own } else { f64::from(u8::from(own == class as f64)) };
                    (0..k).map(is).collect()
                }
                _ => vec![own],
            }
        };
        let row = |row: &ScanRow| kept.iter().flat_map(|target| cells(target, &row.subject)).collect();
        let rows: Vec<Vec<f64>> = self.rows.iter().map(row).collect();
        self.table(rows.first().map_or(0, Vec::len), rows.concat())
    }

    /// The nuisance of every person as labels (means over scans), for asking how well features predict them.
    pub fn as_labels(&self) -> Participants {
        let mut rows: BTreeMap<&String, Vec<usize>> = BTreeMap::new();
        for (i, ScanRow { subject, .. }) in self.rows.iter().enumerate() {
            rows.entry(subject).or_default().push(i);
        }
        let mut out = Participants::with_columns(["site", "tr_seconds", "span_seconds", "mean_fd_mm"]);
        for (subject, rows) in rows {
            let mean = |value: &dyn Fn(usize) -> Option<f64>| {
                let known: Vec<f64> = rows.iter().filter_map(|i| value(*i)).collect();
                (!known.is_empty()).then(|| (known.iter().sum::<f64>() / known.len() as f64).to_string())
            };
            let labels = vec![
                self.site[rows[0]].clone(),
                mean(&|i| Some(self.tr_seconds[i])),
                mean(&|i| Some(self.span_seconds[i])),
                mean(&|i| self.mean_fd_mm[i]),
            ];
            out.insert(subject.clone(), labels);
        }
        out
    }

    fn table(&self, width: usize, values: Vec<f64>) -> Result<Option<FeatureTable>, EvalError> {
        FeatureTable::new(self.rows.clone(), width, values).map(Some)
    }
}

/// Whether two columns hold the same under different names or codes: `SEX` 1, 2 and `sex` M, F.
fn says_the_same(one: &Target, other: &Target) -> bool {
    let both = one.values.iter().filter_map(|(subject, x)| Some((*x, other.value(subject)?)));
    match (&one.kind, &other.kind) {
        (TargetKind::Classification { .. }, TargetKind::Classification { .. }) => {
            let pairs: BTreeSet<(usize, usize)> = both.map(|(x, y)| (x as usize, y as usize)).collect();
            let (left, right): (BTreeSet<_>, BTreeSet<_>) = pairs.iter().copied().unzip();
            !pairs.is_empty() && pairs.len() == left.len() && pairs.len() == right.len()
        }
        (TargetKind::Regression, TargetKind::Regression) => {
            let (x, y): (Vec<f64>, Vec<f64>) = both.unzip();
            // Only the same number in other units correlates this well.
            crate::metric::pearson(&x, &y).is_some_and(|r| r.abs() > 0.9999)
        }
        _ => false,
    }
}

fn column_of<'a>(people: &Participants, names: &[&'a str]) -> Option<&'a str> {
    names.iter().find(|name| people.columns().iter().any(|c| c == *name)).copied()
}

fn numbers(people: &Participants, names: &[&str]) -> Option<Vec<Option<f64>>> {
    names.iter().find_map(|name| match people.label(name)? {
        Label::Number(values) => Some(values),
        Label::Category(_) => None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_same_label_under_another_name_is_recognised() {
        let text = (0..12).fold(String::from("id\tSEX\tsex\tage\tAGE\tdx\n"), |text, i| {
            let sex = if i % 2 == 0 { "M" } else { "F" };
            let age = if i == 3 { "n/a".to_owned() } else { format!("{}.5", 10 + i) };
            format!("{text}p{i}\t{}\t{sex}\t{age}\t{}\t{}\n", 1 + i % 2, 120 + 12 * i, i % 3)
        });
        let people = Participants::parse("p.tsv", text.as_bytes(), &[]).unwrap();
        let same = |a, b| says_the_same(&Target::of(&people, a).unwrap(), &Target::of(&people, b).unwrap());
        assert!(same("SEX", "sex") && same("age", "AGE"));
        assert!(!same("SEX", "dx") && !same("sex", "age"));
    }
}
