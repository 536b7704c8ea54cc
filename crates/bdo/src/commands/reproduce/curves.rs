//! Figures 3 and 5: sweeps.

use anyhow::Context;
use bdo_report::kind::Kind;
use bdo_report::page::Page;
use serde_json::Value;

use super::Work;
use super::budget::alike;
use crate::answer::note;
use crate::args::{Choice, Configuration};
use crate::commands::sweep::{self, MASK_RATIO, SweepArgs};

/// Parts of the time of the longest run, for a curve over the length of pre-training.
const LENGTHS: [f64; 4] = [0.125, 0.25, 0.5, 1.0];
/// Shares of the training people besides all.
const SHARES: [f64; 3] = [0.25, 0.5, 0.75];
/// Those of the paper.
const MASK_RATIOS: &str = "0.4,0.5,0.6,0.7,0.75,0.8,0.9";
/// The paper names 0 and 0.03; its other steps are in a picture.
const TAUS: &str = "0,0.01,0.03,0.1,0.3";

/// A sweep with its name on the page.
pub(super) struct Swept {
    pub(super) name: String,
    pub(super) table: Value,
}

impl Work<'_> {
    /// Figure 3. A point of a curve is a run of its own, whose schedule ends there.
    pub(super) fn lengths(&mut self, page: &mut Page) -> anyhow::Result<()> {
        let args = self.args;
        let curves = (args.sizes.len() + SHARES.len()) as f64;
        let in_time = || alike(args.minutes, curves * LENGTHS.iter().sum::<f64>() * args.seeds().len() as f64);
        let (key, unit, longest) = match args.epochs {
            Some(epochs) => ("train.epochs", "epochs", epochs),
            None => ("train.max_minutes", "minutes", in_time()),
        };
        let lengths = LENGTHS.map(|part| format!("{:?}", (part * longest * 1e5).round() / 1e5)).join(",");
        let vary = format!("{key}={lengths}");
        let mut found = vec![];
        for size in &args.sizes {
            let name = format!("{}, all people", size.typed());
            found.push(self.sweep(&name, &format!("size-{}", size.typed()), args.at_size(*size), &vary, None)?);
        }
        let first = args.sizes.first().copied().context("--sizes: expected at least one, found none")?;
        for share in SHARES {
            let mut configuration = args.at_size(first);
            configuration.set.push(format!("train.data_fraction={share}"));
            let name = format!("{}, {} % of people", first.typed(), 100.0 * share);
            found.push(self.sweep(&name, &format!("share-{share}"), configuration, &vary, None)?);
        }
        self.cuts.push(format!(
            "a point is a run of its own of {} {unit}; the paper looks at epochs of one run",
            lengths.replace(',', ", ")
        ));
        self.beside_lengths(page, &found);
        Ok(())
    }

    /// Figure 5.
    pub(super) fn ablations(&mut self, page: &mut Page) -> anyhow::Result<()> {
        let args = self.args;
        let size = args.sizes.first().copied().context("--sizes: expected at least one, found none")?;
        let count = |values: &str| values.split(',').count();
        let runs = (count(MASK_RATIOS) + count(TAUS) + 2) * args.seeds().len();
        let minutes = args.epochs.is_none().then(|| alike(args.minutes, runs as f64));
        let mut configuration = args.at_size(size);
        configuration.set.extend(args.epochs.map(|epochs| format!("train.epochs={epochs:?}")));
        // A ratio of its own for each run, not one drawn at each visit.
        let ratio = format!("mask.ratio={MASK_RATIOS}+mask.ratio_least={MASK_RATIOS}");
        let found = [
            self.sweep("mask ratio", "mask-ratio", configuration.clone(), &ratio, minutes)?,
            self.sweep("tau", "tau", configuration.clone(), &format!("loss.tau={TAUS}"), minutes)?,
            self.sweep(
                "weight of the reconstruction",
                "jepa-only",
                configuration,
                "loss.reconstruction_weight=1,0",
                minutes,
            )?,
        ];
        if args.sizes.len() > 1 {
            self.cuts.push(format!("the size is {}", size.typed()));
        }
        self.beside_ablations(page, &found);
        Ok(())
    }

    fn sweep(
        &mut self,
        name: &str,
        folder: &str,
        configuration: Configuration,
        vary: &str,
        max_minutes: Option<f64>,
    ) -> anyhow::Result<Swept> {
        let args = self.args;
        let request = SweepArgs {
            cohort: args.cohort.clone(),
            out: args.out.join(folder),
            vary: vary.to_owned(),
            configuration,
            max_minutes,
            seeds: args.seeds.clone(),
            targets: self.targets.iter().map(|target| target.name.clone()).collect(),
            pooling: args.pooling,
            mask_ratio: MASK_RATIO,
        };
        note(self.common, &request.command(self.common.general()));
        let table = sweep::run(&request, self.common)?.into_json();
        self.shown.push((request.out, Kind::Sweep));
        Ok(Swept { name: name.to_owned(), table })
    }
}
