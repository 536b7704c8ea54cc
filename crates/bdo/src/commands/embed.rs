//! `bdo embed`: scans into features.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use bdo_data::cohort::Cohort;
use bdo_eval::export::TableFormat;
use bdo_eval::features::FeatureTable;
use bdo_model::frozen::FrozenModel;
use bdo_model::pooling::Pooling;
use clap::Args;
use serde_json::json;

use crate::answer::{Answer, note};
use crate::args::{ModelAndData, one_of};
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
    /// The table to make: .parquet, .tsv or .npy
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    out: PathBuf,
}

pub(crate) fn run(args: &EmbedArgs, common: &Common) -> anyhow::Result<Answer> {
    bdo_kernels::allocator::tune_allocator();
    TableFormat::of(&args.out)?;
    if args.pooling == Pooling::Tangent {
        bail!(
            "--pooling: expected what a single scan decides, found tangent; hint: use log-covariance, or bdo probe --pooling tangent"
        );
    }
    let frozen = FrozenModel::read(&args.from.model)?;
    let cohort = Cohort::open(&args.from.cohort.data)?;
    let started = Instant::now();
    let progress = Progress::start("embed", cohort.len(), common.quiet)?;
    let table = FeatureTable::embed(&frozen, &cohort, args.pooling, &progress);
    progress.finish();
    let table = table?;
    let origin = table.origin.as_ref().context("features of a model have an origin")?;
    table.write(&args.out)?;
    for scan in &table.passed_over {
        note(common, &format!("{scan} has no usable region and no feature"));
    }
    let seconds = started.elapsed().as_secs_f64();
    let json = json!({
        "out": args.out, "scans": table.rows.len(), "width": table.features.width(), "pooling": origin.pooling,
        "model_blake3": origin.model_blake3, "cohort_blake3": origin.cohort_blake3,
        "passed_over": table.passed_over, "seconds": seconds,
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
