//! `bdo embed`: scans into features.

use std::time::Instant;

use anyhow::bail;
use bdo_data::cohort::Cohort;
use bdo_eval::export::TableFormat;
use bdo_eval::table::FeatureTable;
use bdo_model::frozen::FrozenModel;
use serde_json::json;

use super::{note, print};
use crate::Outcome;
use crate::cli::Common;
use crate::downstream_args::{EmbedArgs, PoolingName};
use crate::progress::Progress;

pub(crate) fn run(args: &EmbedArgs, common: &Common) -> anyhow::Result<Outcome> {
    bdo_kernels::allocator::tune_allocator();
    TableFormat::of(&args.out)?;
    if args.pooling == PoolingName::Tangent {
        bail!(
            "--pooling: expected what a single scan decides, found tangent; use log-covariance, or bdo probe --pooling tangent"
        );
    }
    let frozen = FrozenModel::read(&args.model)?;
    let cohort = Cohort::open(&args.data)?;
    let started = Instant::now();
    let progress = Progress::start("embed", cohort.len(), common.quiet)?;
    let table = FeatureTable::embed(&frozen, &cohort, args.pooling.into(), &progress);
    progress.finish();
    let table = table?;
    table.write(&args.out)?;
    for scan in &table.passed_over {
        note(common, &format!("{scan} has no usable region and no feature"));
    }
    let seconds = started.elapsed().as_secs_f64();
    let json = json!({
        "out": args.out, "scans": table.rows.len(), "width": table.width, "pooling": table.origin.pooling,
        "model_blake3": table.origin.model_blake3, "cohort_blake3": table.origin.cohort_blake3,
        "passed_over": table.passed_over, "seconds": seconds,
    });
    let text = format!(
        "{}: {} scans, {} numbers each ({}), in {seconds:.1} s",
        args.out.display(),
        table.rows.len(),
        table.width,
        table.origin.pooling.name()
    );
    print(common, &json, &text);
    Ok(if table.passed_over.is_empty() { Outcome::Done } else { Outcome::SomeRejected })
}
