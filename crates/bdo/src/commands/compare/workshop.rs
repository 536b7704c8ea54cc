//! What lines of the table are made of: tables of features, each computed once and held as long as a line may ask for it, and
//! the methods on them.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use bdo_baselines::connectivity::{ConnectivityKind, ConnectomeSet};
use bdo_data::division::Split;
use bdo_eval::connectivity::connectivity_table;
use bdo_eval::features::FeatureTable;
use bdo_eval::finetune::tuned::{count, tuned_table, used_table};
use bdo_eval::finetune::{HeadStart, TunePoint, TuneSettings};
use bdo_eval::fitted::HeadKind;
use bdo_eval::method::Method;
use bdo_eval::model_method::{FineTuning, GridProbe};
use bdo_eval::probe::ProbeSettings;
use bdo_eval::reference::{ClosedForm, NoBrain};
use bdo_eval::stack::{Member, Stack};
use bdo_eval::tangent::{CovarianceSet, FittedTangent};
use bdo_model::weights::ModelDirectory;

use super::Field;
use super::asked::Asked;
use super::model_rows::Models;
use super::row::{BdoRow, Connectivity, Row, pooled};
use crate::args::Choice;

/// A line of the table, ready to be run.
pub(super) struct Line<'a> {
    pub(super) asked: &'a Asked,
    pub(super) method: Box<dyn Method>,
    /// Numbers of a pre-trained model that it uses as they are.
    pub(super) frozen_parameters: usize,
}

/// Tables of features by row, and by split or model where they depend on one.
pub(super) struct Workshop<'a> {
    pub(super) field: &'a Field<'a>,
    covariances: Option<CovarianceSet>,
    found: RefCell<Vec<Found>>,
    /// Matrices that networks over connectomes look at.
    pub(super) connectomes: RefCell<Vec<(ConnectivityKind, Arc<ConnectomeSet>)>>,
}

struct Found {
    row: Row,
    /// The split or model it is of; none where there is but one.
    of: Option<String>,
    /// Whether later splits will ask for it.
    stays: bool,
    member: Arc<Member>,
}

impl<'a> Workshop<'a> {
    pub(super) fn new(rows: &[Asked], field: &'a Field<'a>) -> anyhow::Result<Self> {
        let shrunk =
            |row: &Row| matches!(row, Row::Connectivity { kind: Connectivity::Tangent | Connectivity::Power, .. });
        let needed = rows.iter().flat_map(Asked::members).any(shrunk);
        let covariances = needed.then(|| CovarianceSet::of_cohort(field.cohort)).transpose()?;
        Ok(Self { field, covariances, found: RefCell::default(), connectomes: RefCell::default() })
    }

    /// Lines under splits that look at the same tables, of which this is one.
    pub(super) fn lines<'r>(
        &self,
        asked: &[&'r Asked],
        split: &Split,
        models: Option<&Models>,
    ) -> anyhow::Result<Vec<Line<'r>>> {
        asked.iter().map(|asked| self.line(asked, split, models)).collect()
    }

    fn line<'r>(&self, asked: &'r Asked, split: &Split, models: Option<&Models>) -> anyhow::Result<Line<'r>> {
        let name = asked.name();
        let of_bdo = asked.members().iter().find_map(|row| row.bdo()).zip(models);
        let mut frozen_parameters = of_bdo.map_or(Ok(0), |(of, models)| frozen_count(models.folder(of)?, of))?;
        let method: Box<dyn Method> = match asked.single() {
            Some(Row::NoBrain(kind)) => Box::new(NoBrain::new(kind, self.field.nuisance.clone())),
            Some(row @ Row::Network(method)) => Box::new(self.network(row, method)?),
            Some(row @ Row::Tokens { method, tuned }) => {
                let row = self.tokens(row, method, tuned)?;
                frozen_parameters = row.frozen_parameters();
                Box::new(row)
            }
            Some(Row::Bdo(of @ BdoRow::Finetune)) => {
                let models = models.context("a row of BDO is made with models")?;
                Box::new(self.fine_tuning(&name, models.folder(of)?, split, models)?)
            }
            Some(row) => {
                let member = self.under(row, split, models)?;
                match row {
                    Row::Bdo(BdoRow::Probe { .. }) => {
                        Box::new(GridProbe::new(&name, member.table.clone(), ProbeSettings::protocol("")))
                    }
                    _ => Box::new(self.closed_form(row, &member)),
                }
            }
            None => {
                let members = asked.members().iter().map(|row| self.under(*row, split, models));
                Box::new(Stack::new(&name, members.collect::<anyhow::Result<_>>()?))
            }
        };
        Ok(Line { asked, method, frozen_parameters })
    }

    fn closed_form(&self, row: Row, member: &Member) -> ClosedForm {
        let plain = ClosedForm::new(row.typed(), member.table.clone(), &member.source);
        let plain = if row.needs_model() { plain.of_pretrained() } else { plain };
        match row {
            Row::Connectivity { combat: true, .. } | Row::Bdo(BdoRow::ClosedForm { combat: true, .. }) => {
                plain.harmonised(self.field.nuisance.clone())
            }
            _ => plain,
        }
    }

    fn fine_tuning(&self, name: &str, model: &Path, split: &Split, models: &Models) -> anyhow::Result<FineTuning> {
        let Field { args, common, .. } = self.field;
        let training = &args.training;
        let points = TunePoint::at_rates(&TunePoint::subset(training.finetune_budget), &training.finetune_rates);
        let settings = TuneSettings {
            target: String::new(),
            head: HeadKind::Linear,
            seeds: vec![0],
            epochs: training.finetune_epochs,
            // The time is that of the whole row, whatever the number of configurations.
            max_minutes: training.finetune_minutes / points.len().max(1) as f64,
            points,
            frames: 0,
            head_start: HeadStart::Probe,
        };
        let pooling = settings.pooling(&ModelDirectory::read(model)?.config);
        let frozen = self.under(pooled(pooling), split, Some(models))?;
        let (folder, device) = (args.out.join("finetuning"), common.place()?);
        Ok(FineTuning::new(name, model, frozen.table.clone(), (&folder, &device), settings)?)
    }

    /// The features of a row that are the same under every split.
    pub(super) fn fixed(&self, kind: Connectivity) -> anyhow::Result<Arc<Member>> {
        self.get(Row::Connectivity { kind, combat: false }, None, true, || {
            Ok(match kind {
                Connectivity::Power => (self.covariances()?.square_roots()?, "connectivity square roots/1".to_owned()),
                Connectivity::Fisher => (connectivity_table(self.field.cohort)?, "connectivity fisher-z".to_owned()),
                Connectivity::Tangent => bail!("fc-tangent: expected a split to fit it on, found none"),
            })
        })
    }

    /// The features of a row under a split.
    fn under(&self, row: Row, split: &Split, models: Option<&Models>) -> anyhow::Result<Arc<Member>> {
        match row {
            Row::Connectivity { kind: Connectivity::Tangent, .. } => {
                self.get(row, Some(split.blake3.clone()), false, || {
                    let set = self.covariances()?;
                    let table = FittedTangent::fit(set, &split.train)?.table(set)?;
                    Ok((table, "connectivity tangent/1".to_owned()))
                })
            }
            Row::Connectivity { kind, .. } => self.fixed(kind),
            Row::Bdo(of) => {
                let pooling = of.pooling().context("fine-tuning pools inside")?;
                let folder = models.context("a row of BDO is made with models")?.folder(of)?;
                // Probes and harmonised rows look at the table of the plain one.
                let plain = pooled(pooling);
                let plain = if of.is_untrained() { plain.untrained().unwrap_or(plain) } else { plain };
                let place = folder.display().to_string();
                self.get(plain, Some(place), self.field.args.model.is_some(), || {
                    let table = self.field.features_of(folder, pooling)?;
                    let source = table.origin_blake3();
                    Ok((table, source))
                })
            }
            _ => bail!("{}: expected a row with features", row.typed()),
        }
    }

    /// Lets go of what no other split looks at.
    pub(super) fn forget_split(&self) {
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

/// Numbers of a model that a row uses without training them.
fn frozen_count(model: &Path, of: BdoRow) -> anyhow::Result<usize> {
    let config = ModelDirectory::read(model)?.config;
    let tuned = if of == BdoRow::Finetune { count(&tuned_table(&config)) } else { 0 };
    Ok(count(&used_table(&config)) - tuned)
}
