//! `bdo embed`: scans into features.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use bdo_baselines::embed::embed;
use bdo_baselines::pretrain::directory::kind_of_model;
use bdo_data::cohort::Cohort;
use bdo_data::shard::Shard;
use bdo_eval::export::TableFormat;
use bdo_eval::features::{FeatureTable, ScanRow};
use bdo_model::control::Encoded;
use bdo_model::familiarity::{FAMILIARITY_FILE, Familiarity, ScanFacts, Trust, Verdict};
use bdo_model::pooling::Pooling;
use bdo_train::settings::Kind;
use clap::Args;
use serde_json::json;

use crate::answer::Answer;
use crate::args::{ModelAndData, one_of, out_file, shard};
use crate::cli::Common;
use crate::progress::Progress;

/// Turn scans into features, one vector each
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bdo embed --model run/model --data cohort --out features.parquet")]
pub(crate) struct EmbedArgs {
    #[command(flatten)]
    from: ModelAndData,
    /// How the frames of a scan become one vector
    #[arg(long, value_parser = one_of::<Pooling>(), default_value = "mean", help_heading = "Output")]
    pooling: Pooling,
    /// Refuse scans that are not like those the model knows
    #[arg(long, help_heading = "Output")]
    strict: bool,
    /// Only part I of N of the scans, for bdo merge; auto for the task of a Slurm array
    #[arg(long, value_name = "I/N", value_parser = shard, help_heading = "Input")]
    shard: Option<Shard>,
    /// The table to make: .parquet, .tsv or .npy
    #[arg(long, value_name = "FILE", value_parser = out_file, help_heading = "Output")]
    out: PathBuf,
}

/// Refuses a pooling that is fitted on scans of other people too.
pub(crate) fn of_single_scans(pooling: Pooling) -> anyhow::Result<()> {
    if pooling == Pooling::Tangent {
        bail!(
            "--pooling: expected what a single scan decides, found tangent; hint: use log-covariance, or bdo probe --pooling tangent"
        );
    }
    Ok(())
}

pub(crate) fn run(args: &EmbedArgs, common: &Common) -> anyhow::Result<Answer> {
    bdo_kernels::allocator::tune_allocator();
    TableFormat::of(&args.out)?;
    of_single_scans(args.pooling)?;
    let started = Instant::now();
    let cohort = Cohort::open(&args.from.cohort.data)?;
    let (mut table, verdicts) = match kind_of_model(&args.from.model) {
        Some(kind) => (of_tokens(args, kind, &cohort, common)?, BTreeMap::new()),
        None => of_bdo(args, &cohort, common)?,
    };
    let outside = unfamiliar("the model", &verdicts, args.strict, common)?;
    let name = |row: &ScanRow| verdicts.get(&row.scan).map_or("n/a", |verdict| verdict.trust.name()).to_owned();
    table.trust = Some(table.rows.iter().map(name).collect());
    table.write(&args.out)?;
    let origin = table.origin.as_ref().context("features of a model have an origin")?;
    for scan in &table.passed_over {
        common.note(format!("{scan} has no usable region, or too few frames, and no feature"));
    }
    let seconds = started.elapsed().as_secs_f64();
    let json = json!({
        "out": args.out, "scans": table.rows.len(), "width": table.features.width(), "pooling": origin.pooling,
        "model_blake3": origin.model_blake3, "cohort_blake3": origin.cohort_blake3,
        "passed_over": table.passed_over, "outside": outside, "seconds": seconds,
    });
    let text = format!(
        "{}: {} scans, {} numbers each ({}), in {seconds:.1} s",
        args.out.display(),
        table.rows.len(),
        table.features.width(),
        origin.pooling.name()
    );
    Ok(Answer::new(json, text).rejected(!table.passed_over.is_empty()))
}

/// Features of BDO, and how familiar it is with each scan.
fn of_bdo(
    args: &EmbedArgs,
    cohort: &Cohort,
    common: &Common,
) -> anyhow::Result<(FeatureTable, BTreeMap<String, Verdict>)> {
    let frozen = args.from.frozen(common)?;
    let known = Familiarity::read(&frozen.folder, &frozen.blake3)?;
    let mut verdicts: BTreeMap<String, Verdict> = BTreeMap::new();
    let judge = |i: usize, encoded: &Encoded<'_>| {
        let entry = &cohort.index()[i];
        let verdict = known.as_ref().and_then(|known| known.judge(&ScanFacts::of_entry(&frozen, entry, encoded)));
        verdicts.extend(verdict.map(|verdict| (entry.id.to_string(), verdict)));
    };
    let (what, progress) = ((&[args.pooling][..], args.shard), Progress::start("embed", cohort.len(), common)?);
    let mut tables = FeatureTable::embed_looking(&frozen, cohort, what, &progress, judge)?;
    Ok((tables.swap_remove(0), verdicts))
}

/// Features of BrainLM or Brain-JEPA.
fn of_tokens(args: &EmbedArgs, kind: Kind, cohort: &Cohort, common: &Common) -> anyhow::Result<FeatureTable> {
    if args.pooling != Pooling::Mean {
        let (kind, found) = (kind.name(), args.pooling.name());
        bail!("--pooling: expected mean for {kind}, which has one vector per scan, found {found}");
    }
    let (what, progress) = ((args.from.same.trusting(), args.shard), Progress::start("embed", cohort.len(), common)?);
    Ok(embed(&args.from.model, cohort, what, &common.place()?, &progress)?)
}

/// Says which scans are not like those known, or refuses them. Returns those outside.
pub(super) fn unfamiliar(
    who: &str,
    verdicts: &BTreeMap<String, Verdict>,
    strict: bool,
    common: &Common,
) -> anyhow::Result<Vec<String>> {
    if verdicts.is_empty() {
        if strict {
            bail!(
                "--strict: expected {FAMILIARITY_FILE}, which says what scans {who} knows, found none; hint: made with ten training scans or more"
            );
        }
        common.note(format!(
            "nothing says what scans {who} knows ({FAMILIARITY_FILE}): whether these are like them was not checked"
        ));
        return Ok(Vec::new());
    }
    let of = |trust: Trust| verdicts.iter().filter(move |(_, verdict)| verdict.trust == trust);
    let outside: Vec<String> = of(Trust::Outside).map(|(scan, _)| scan.clone()).collect();
    if let Some((scan, verdict)) = of(Trust::Outside).next() {
        let (count, first) = (outside.len(), format!("{scan}: {}", verdict.reasons.join("; ")));
        if strict {
            bail!(
                "--strict: expected scans like those {who} knows, found {count} outside ({first}); hint: leave them out, or leave out --strict and read the column trust"
            );
        }
        common.complain(format!(
            "warning: outside what {who} knows, so that what is said of them was never checked: {count} of {} scans ({first})",
            verdicts.len()
        ));
    }
    let unusual = of(Trust::Unusual).count();
    if unusual > 0 {
        common.note(format!("at the edge of what {who} knows: {unusual} of {} scans (column trust)", verdicts.len()));
    }
    Ok(outside)
}
