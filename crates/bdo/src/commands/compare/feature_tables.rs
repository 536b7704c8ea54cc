//! The tables of features behind rows and stacks: each computed once, and held as long as a row may ask for it.

use std::cell::RefCell;
use std::sync::Arc;

use anyhow::{Context, bail};
use bdo_data::cohort::Cohort;
use bdo_data::division::Split;
use bdo_eval::connectivity::connectivity_table;
use bdo_eval::features::FeatureTable;
use bdo_eval::stack::Member;
use bdo_eval::tangent::{CovarianceSet, FittedTangent};

use super::CompareArgs;
use super::asked::Asked;
use super::model_rows::Models;
use super::row::{Connectivity, Row, pooled};
use crate::args::Choice;
use crate::cli::Common;

/// Tables by row, and by split or model where they depend on one.
pub(crate) struct FeatureTables<'a> {
    args: &'a CompareArgs,
    cohort: &'a Cohort,
    pub(super) common: &'a Common,
    covariances: Option<CovarianceSet>,
    found: RefCell<Vec<Found>>,
}

struct Found {
    row: Row,
    /// The split or model it is of; none where there is but one.
    of: Option<String>,
    /// Whether later splits will ask for it.
    stays: bool,
    member: Arc<Member>,
}

impl<'a> FeatureTables<'a> {
    pub(crate) fn new(
        rows: &[Asked],
        args: &'a CompareArgs,
        cohort: &'a Cohort,
        common: &'a Common,
    ) -> anyhow::Result<Self> {
        let shrunk =
            |row: &Row| matches!(row, Row::Connectivity { kind: Connectivity::Tangent | Connectivity::Power, .. });
        let needed = rows.iter().flat_map(Asked::members).any(shrunk);
        let covariances = needed.then(|| CovarianceSet::of_cohort(cohort)).transpose()?;
        Ok(Self { args, cohort, common, covariances, found: RefCell::default() })
    }

    /// The features of a row that are the same under every split.
    pub(crate) fn fixed(&self, kind: Connectivity) -> anyhow::Result<Arc<Member>> {
        self.get(Row::Connectivity { kind, combat: false }, None, true, || {
            Ok(match kind {
                Connectivity::Power => (self.covariances()?.square_roots()?, "connectivity square roots/1".to_owned()),
                Connectivity::Fisher => (connectivity_table(self.cohort)?, "connectivity fisher-z".to_owned()),
                Connectivity::Tangent => bail!("fc-tangent: expected a split to fit it on, found none"),
            })
        })
    }

    /// The features of a row under a split.
    pub(crate) fn under(&self, row: Row, split: &Split, models: Option<&Models>) -> anyhow::Result<Arc<Member>> {
        match row {
            Row::Connectivity { kind: Connectivity::Tangent, .. } => {
                self.get(row, Some(split.blake3.clone()), false, || {
                    let set = self.covariances()?;
                    let table = FittedTangent::fit(set, &split.train)?.table(set)?;
                    Ok((table, "connectivity tangent/1".to_owned()))
                })
            }
            Row::Connectivity { kind, .. } => self.fixed(kind),
            _ => {
                let models = models.context("a row of BDO is made with models")?;
                let of = if let Row::Bdo(of) = row { Some(of) } else { None };
                let of = of.with_context(|| format!("{}: expected a row with features", row.typed()))?;
                let pooling = of.pooling().context("fine-tuning pools inside")?;
                let folder = models.folder(&split.blake3, of.is_untrained())?;
                // Probes and harmonised rows look at the table of the plain one.
                let plain = pooled(pooling);
                let plain = if of.is_untrained() { plain.untrained().unwrap_or(plain) } else { plain };
                let place = folder.display().to_string();
                self.get(plain, Some(place), self.args.model.is_some(), || {
                    let table = super::model_rows::features(folder, pooling, self.args, self.cohort, self.common)?;
                    let source = table.origin_blake3();
                    Ok((table, source))
                })
            }
        }
    }

    /// Lets go of what no other split looks at.
    pub(crate) fn forget_split(&self) {
        self.found.borrow_mut().retain(|found| found.stays);
    }

    fn covariances(&self) -> anyhow::Result<&CovarianceSet> {
        self.covariances.as_ref().context("covariances are computed where a row needs them")
    }

    fn get(
        &self,
        row: Row,
        of: Option<String>,
        stays: bool,
        make: impl FnOnce() -> anyhow::Result<(FeatureTable, String)>,
    ) -> anyhow::Result<Arc<Member>> {
        if let Some(found) = self.found.borrow().iter().find(|found| found.row == row && found.of == of) {
            return Ok(found.member.clone());
        }
        let (table, source) = make()?;
        let member = Arc::new(Member::new(row.typed(), Arc::new(table), &source));
        self.found.borrow_mut().push(Found { row, of, stays, member: member.clone() });
        Ok(member)
    }
}
