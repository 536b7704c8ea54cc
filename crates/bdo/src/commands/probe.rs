//! `bdo probe`: what a frozen model's features say about a label.

use bdo_data::cohort::Cohort;
use bdo_eval::fit::ProbePoint;
use bdo_eval::outcome::Outcome as Found;
use bdo_eval::probe::{ProbeRequest, ProbeSettings, probe};
use serde_json::json;

use super::{note, print};
use crate::Outcome;
use crate::cli::Common;
use crate::downstream_args::ProbeArgs;
use crate::progress::Progress;

pub(crate) fn run(args: &ProbeArgs, common: &Common) -> anyhow::Result<Outcome> {
    bdo_kernels::allocator::tune_allocator();
    let request = ProbeRequest {
        model: args.model.clone(),
        data: args.data.clone(),
        test_data: args.test_data.clone(),
        out: args.out.clone(),
        settings: ProbeSettings {
            target: args.target.clone(),
            pooling: args.pooling.into(),
            head: args.head.into(),
            standardise: args.standardise,
            seeds: args.seeds.clone(),
            epochs: args.epochs,
            grid: ProbePoint::grid(),
        },
    };
    let progress = Progress::start("embed", Cohort::open(&args.data)?.len(), common.quiet)?;
    let found = probe(&request, &progress);
    progress.finish();
    report(&found?, &args.out, common);
    Ok(Outcome::Done)
}

/// The table for people, the scores for programs, and what a reader must know beside them.
pub(super) fn report(found: &Found, out: &std::path::Path, common: &Common) {
    if found.pretrained_test_people > 0 {
        let count = found.pretrained_test_people;
        note(common, &format!("{count} test people were in the pre-training of the model (without labels)"));
    }
    if let Some(further) = found.test_data.as_ref().filter(|t| t.seen_by_head > 0) {
        let count = further.seen_by_head;
        note(common, &format!("{count} of the further people were trained on; their scores mean nothing"));
    }
    let json = json!({
        "out": out, "task": found.task, "summary": found.summary, "seeds": found.seeds,
        "pretrained_test_people": found.pretrained_test_people, "test_data": found.test_data,
    });
    let text =
        format!("{}Next: bdo predict --head {} --data COHORT --out predictions.tsv", found.table(), out.display());
    print(common, &json, &text);
}
