//! The tables of the paper and its Figure 2: comparisons at each size.

use std::path::PathBuf;

use anyhow::Context;
use bdo_baselines::foundation::FoundationMethod;
use bdo_baselines::method::ConnectivityMethod;
use bdo_eval::comparison::Summary;
use bdo_model::pooling::Pooling;
use bdo_report::kind::Kind;
use bdo_report::page::Page;
use bdo_train::settings::Size;
use serde_json::Value;

use super::Work;
use super::budget::TableWork;
use super::paper::Reported;
use crate::args::{Choice, SeedSpan};
use crate::commands::bench;
use crate::commands::compare::row::{BdoRow, Row, pooled};
use crate::commands::compare::{self, CompareArgs};

pub(super) struct AtSize {
    pub(super) size: Size,
    pub(super) summary: Summary,
}

impl Work<'_> {
    /// A table of the paper; `tuned` has the rows that are trained end to end.
    pub(super) fn table(&mut self, reported: &Reported, tuned: bool, page: &mut Page) -> anyhow::Result<()> {
        let probe = Row::Bdo(BdoRow::Probe { untrained: false });
        let mut first = vec![probe, pooled(Pooling::Mean)];
        let mut tokens = vec![];
        if tuned {
            first.push(Row::Bdo(BdoRow::Finetune));
            tokens.extend(FoundationMethod::ALL.map(|method| Row::Tokens { method, tuned: true }));
        }
        let found = self.compared(
            &first,
            &ConnectivityMethod::ALL.map(Row::Network),
            &tokens,
            &[probe, pooled(Pooling::Mean)],
        )?;
        self.beside_table(page, reported, &found);
        Ok(())
    }

    /// Comparisons within the time: all rows at the first size, the last list at the others.
    fn compared(
        &mut self,
        first: &[Row],
        networks: &[Row],
        tokens: &[Row],
        others: &[Row],
    ) -> anyhow::Result<Vec<AtSize>> {
        let args = self.args;
        let together = self.complete();
        let asked = TableWork {
            labels: self.targets.len(),
            seeds: args.seeds().len(),
            sizes: args.sizes.len(),
            divisions: if together { 1 } else { self.targets.len() },
            networks: networks.len(),
            tokens: tokens.len(),
            tuned: first.contains(&Row::Bdo(BdoRow::Finetune)),
        };
        let (work, cuts) = asked.fitted(args.minutes);
        self.cuts.extend(cuts);
        let minutes = work.minutes(args.minutes);
        let seeds: Vec<SeedSpan> = args.seeds().into_iter().take(work.seeds).map(SeedSpan::one).collect();
        let mut found = vec![];
        for (i, size) in args.sizes.iter().take(work.sizes).enumerate() {
            let mut rows = if i == 0 { first.to_vec() } else { others.to_vec() };
            if i == 0 {
                rows.extend(networks.iter().take(work.networks).chain(tokens.iter().take(work.tokens)));
            }
            let mut request =
                CompareArgs::new(&args.cohort.data, &self.names(), &rows, &self.folder("size", size.typed()));
            request.people.seeds.clone_from(&seeds);
            request.people.stratify_by = together.then(|| self.targets[0].name.clone());
            request.training.configuration = args.at_size(*size);
            request.training.pretrain_minutes = rounded(minutes.pretraining);
            request.training.finetune_budget = 1;
            request.training.finetune_minutes = rounded(minutes.tuning);
            request.training.baseline_minutes = rounded(minutes.baseline);
            request.statistics.no_audit = true;
            found.push(AtSize { size: *size, summary: self.one(&request)? });
        }
        Ok(found)
    }

    fn one(&mut self, request: &CompareArgs) -> anyhow::Result<Summary> {
        self.common.note(request.command(self.common.general()));
        let answer = compare::run(request, self.common)?.into_json();
        self.shown.push((request.out.clone(), Kind::Comparison));
        serde_json::from_value(answer["summary"].clone()).context("a comparison has a summary")
    }

    pub(super) fn folder(&self, what: &str, value: &str) -> PathBuf {
        self.args.out.join(format!("{what}-{value}"))
    }

    /// Figure 2: scores beside memory and parameters of a training step, each model in a process of its own.
    pub(super) fn cost(&mut self, page: &mut Page) -> anyhow::Result<()> {
        let tokens = FoundationMethod::ALL.map(|method| Row::Tokens { method, tuned: false });
        let rows = [pooled(Pooling::Mean)];
        let found = self.compared(&rows, &[], &tokens, &rows)?;
        let mut costs: Vec<(Size, Value)> = vec![];
        for AtSize { size, .. } in &found {
            let out = self.folder("cost", size.typed());
            let file = out.join("efficiency.json");
            if !file.is_file() {
                bench::efficiency(*size, &self.args.cohort.data, &out, self.common)?;
            }
            costs.push((*size, serde_json::from_slice(&bdo_data::durable::read(&file)?)?));
        }
        self.cuts.push(
            "BrainLM and Brain-JEPA have the width of the size tiny; memory is of this machine, not of a GPU".into(),
        );
        self.beside_cost(page, &found, &costs);
        Ok(())
    }
}

/// The same request asks for the same settings, whatever the arithmetic.
fn rounded(minutes: f64) -> f64 {
    (minutes * 1e4).round() / 1e4
}
