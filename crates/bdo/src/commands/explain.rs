//! `bdo explain`: which regions and networks a head uses.

use std::path::PathBuf;

use bdo_data::cohort::Cohort;
use bdo_data::durable;
use bdo_eval::explain::{ExplainSettings, Explanation, Used, explain};
use bdo_report::explanation::largest;
use bdo_report::kind::Kind;
use clap::Args;

use super::report::leave_page;
use crate::answer::Answer;
use crate::args::HeadAndData;
use crate::cli::Common;
use crate::progress::Progress;

/// Lines of the table that is printed.
const SHOWN: usize = 10;

/// Show which regions and networks a head uses
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bdo explain --head probe-age --data cohort --out why-age")]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    from: HeadAndData,
    /// The class whose logit is explained, for a label of more than two classes
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    class: Option<String>,
    /// Scans looked at, evenly over the cohort
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(2..), help_heading = "How much")]
    scans: u64,
    /// Points between two scans, where gradients are followed through the encoder
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..), help_heading = "How much")]
    steps: u64,
    /// Heads with shuffled weights that the map is compared with
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "How much")]
    shuffles: usize,
    /// The folder to make
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: PathBuf,
}

pub(crate) fn run(args: &ExplainArgs, common: &Common) -> anyhow::Result<Answer> {
    bdo_kernels::allocator::tune_allocator();
    let cohort = Cohort::open(&args.from.cohort.data)?;
    let settings = ExplainSettings {
        class: args.class.clone(),
        scans: args.scans as usize,
        steps: args.steps as usize,
        shuffles: args.shuffles,
        seed: common.seed,
    };
    let how = (args.from.same.trusting(), &common.place()?);
    let progress = Progress::start("explain", cohort.len().min(settings.scans), common)?;
    let found = explain(&args.from.head, &cohort, how, &settings, &progress)?;
    drop(progress);
    durable::create_folder(&args.out)?;
    durable::write(&args.out.join("regions.tsv"), table(&found.regions).as_bytes())?;
    durable::write(&args.out.join("networks.tsv"), table(&found.networks).as_bytes())?;
    durable::write_json(&args.out.join("explanation.json"), &found)?;
    leave_page(&args.out, Kind::Explanation, Some(&args.from.cohort.data), common);
    Ok(Answer::new(serde_json::to_value(&found)?, text(args, &found)))
}

fn table(used: &[Used]) -> String {
    let mut out = String::from("name\tnetwork\tshare\timportance\n");
    for part in largest(used) {
        let network = part.network.as_deref().unwrap_or("n/a");
        out.push_str(&format!("{}\t{network}\t{}\t{}\n", part.name, part.share, part.importance));
    }
    out
}

fn text(args: &ExplainArgs, found: &Explanation) -> String {
    let mut text = format!(
        "{}: what the head of {}{} uses, over {} scans ({})\n",
        args.out.display(),
        found.target,
        found.class.as_ref().map_or_else(String::new, |class| format!(" = {class}")),
        found.scans,
        found.method
    );
    let parts = if found.networks.is_empty() { &found.regions } else { &found.networks };
    for part in largest(parts).into_iter().take(SHOWN) {
        text.push_str(&format!("  {:<34} {:>6.1} %\n", part.name, 100.0 * part.share));
    }
    let passed = if found.sanity.is_passed() { "the map follows the weights" } else { "do NOT trust the map" };
    text.push_str(&format!(
        "shuffled weights give a map with a rank correlation of {:.2} ({passed}); parts add up to what the head says within {:.1} %",
        found.sanity.mean,
        100.0 * found.incompleteness
    ));
    text
}
