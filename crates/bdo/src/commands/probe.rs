//! `bdo probe`: what a frozen model's features say about a label.

use bdo_data::cohort::Cohort;
use bdo_eval::fit::ProbePoint;
use bdo_eval::fitted::HeadKind;
use bdo_eval::outcome::HeadResult as Found;
use bdo_eval::probe::{ProbeSettings, probe};
use bdo_model::pooling::Pooling;
use clap::Args;
use serde_json::json;

use crate::answer::Answer;
use crate::args::{Labelled, one_of};
use crate::cli::Common;
use crate::progress::Progress;

/// Find out what a frozen model's features say about a label
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bdo probe --model run/model --data cohort --target age --out probe-age\n  bdo probe --model run/model --data cohort --target sex --out probe-sex --test-data further-cohort"
)]
pub(crate) struct ProbeArgs {
    #[command(flatten)]
    on: Labelled,
    /// How the frames of a scan become one vector
    #[arg(long, help_heading = "Training", value_parser = one_of::<Pooling>(), default_value = "mean")]
    pooling: Pooling,
    /// What is fitted on the features
    #[arg(long, help_heading = "Training", value_parser = one_of::<HeadKind>(), default_value = "linear")]
    head: HeadKind,
    /// Scale features by mean and standard deviation of the training people (the protocol takes them raw)
    #[arg(long, help_heading = "Training")]
    standardise: bool,
    /// Passes over the training scans
    #[arg(long, help_heading = "Training", value_name = "N", default_value_t = 50)]
    epochs: usize,
}

pub(crate) fn run(args: &ProbeArgs, common: &Common) -> anyhow::Result<Answer> {
    bdo_kernels::allocator::tune_allocator();
    let on = &args.on;
    let request = on.request(
        ProbeSettings {
            target: on.target.clone(),
            pooling: args.pooling,
            head: args.head,
            standardise: args.standardise,
            seeds: on.repetitions.list(),
            epochs: args.epochs,
            grid: ProbePoint::grid(),
        },
        common,
    )?;
    let scans = Cohort::open(&request.data)?.len();
    let found = probe(&request, &Progress::start("embed", scans, common)?)?;
    Ok(report(&found, &on.out, common))
}

/// The table for people, the scores for programs, and what a reader must know beside them.
pub(super) fn report(found: &Found, out: &std::path::Path, common: &Common) -> Answer {
    if found.pretrained_test_people > 0 {
        let count = found.pretrained_test_people;
        common.note(format!("{count} test people were in the pre-training of the model (without labels)"));
    }
    if let Some(further) = found.test_data.as_ref().filter(|t| t.seen_by_head > 0) {
        let count = further.seen_by_head;
        common.note(format!("{count} of the further people were trained on; their scores mean nothing"));
    }
    let json = json!({
        "out": out, "task": found.task, "summary": found.summary, "seeds": found.seeds,
        "pretrained_test_people": found.pretrained_test_people, "test_data": found.test_data,
    });
    let text =
        format!("{}Next: bdo predict --head {} --data COHORT --out predictions.tsv", found.table(), out.display());
    Answer::new(json, text)
}
