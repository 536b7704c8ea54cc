//! The path of the method, one typed call per stage. A newcomer reads this file first; the demo runs it.
//!
//! region series -> cohort -> division of people -> pre-training -> features -> probes and tables -> report

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::bail;
use bdo_data::cohort::{self, Cohort};
use bdo_data::durable;
use bdo_data::record::is_run;
use bdo_data::synth::{PART_MIB, SynthSpec};
use bdo_model::pooling::Pooling;
use clap::Args;
use serde_json::json;

use crate::answer::Answer;
use crate::args::{Configuration, Data};
use crate::cli::Common;
use crate::commands::compare::row::pooled;
use crate::commands::compare::{self, CompareArgs};
use crate::commands::pretrain::{self, PretrainArgs};
use crate::commands::report::{self, ReportArgs};
use crate::commands::simulate;
use crate::job::RankArgs;

/// Enough for every part of the model to move, in seconds; not enough to learn much.
const EPOCHS: &str = "train.epochs=20";

/// Run the whole path on a synthetic cohort, ending in an HTML page
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bdo demo --out demo")]
pub(crate) struct DemoArgs {
    /// Where to put the cohort, the run, the comparison and the page
    #[arg(long, value_name = "DIR", default_value = "demo", help_heading = "Output")]
    out: PathBuf,
}

/// Runs all stages on a small synthetic cohort. Run again, it goes on with what is there.
pub(crate) fn run(DemoArgs { out }: &DemoArgs, common: &Common) -> anyhow::Result<Answer> {
    let started = Instant::now();
    durable::create_folder(out)?;
    let cohort = simulated(&out.join("cohort"), common)?;
    let run = out.join("run");
    let (model, comparison, page) = (run.join("model"), out.join("comparison"), out.join("report.html"));
    let mut changed = false;

    // People are divided; those of the training part train the model, those of the validation part watch it.
    if !model.exists() {
        let resume = is_run(&run);
        let set = if resume { vec![] } else { vec![EPOCHS.to_owned()] };
        let request = PretrainArgs {
            cohort: Data { data: cohort.folder().to_path_buf() },
            out: run.clone(),
            configuration: Configuration { set, ..Configuration::default() },
            max_minutes: None,
            resume,
            ranks: RankArgs::default(),
        };
        common.note(request.command(common.general()));
        pretrain::run(&request, common)?;
        changed = true;
    }
    // Every scan becomes a feature; probes are fitted on training people and scored on test people, beside references.
    if changed || !comparison.join("table.json").exists() {
        let rows = [pooled(Pooling::Mean), pooled(Pooling::Coupling)];
        let request = CompareArgs {
            model: Some(model.clone()),
            ..CompareArgs::new(cohort.folder(), &["sex", "age"], &rows, &comparison)
        };
        common.note(request.command(common.general()));
        compare::run(&request, common)?;
        changed = true;
    }
    // One page about the cohort, the run and the table.
    if changed || !page.exists() {
        let request = ReportArgs::new(&[cohort.folder(), &run, &comparison], Some(cohort.folder()), &page);
        common.note(request.command());
        report::run(&request, common)?;
    }
    let (scans, seconds) = (cohort.len(), started.elapsed().as_secs_f64());
    let json = json!({"cohort": cohort.folder(), "model": model, "comparison": comparison, "report": page, "scans": scans,
                      "verified": true, "seconds": seconds});
    let text = format!(
        "{scans} synthetic scans were made and verified; a model was pre-trained on them and compared with connectivity; in \
         {seconds:.1} s.\nOpen {} in a browser.",
        page.display()
    );
    Ok(Answer::new(json, text))
}

/// A cohort at rest, every byte checked.
fn simulated(folder: &Path, common: &Common) -> anyhow::Result<Cohort> {
    let spec = SynthSpec { subjects: 60, regions: 100, frames: 200, seed: common.seed, ..SynthSpec::default() };
    let cohort = simulate::cohort(spec, folder, PART_MIB, common)?;
    if let Some(damage) = cohort::verify(folder)?.first() {
        bail!("{}", damage.message);
    }
    Ok(cohort)
}
