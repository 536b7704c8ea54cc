//! `bdo report`: what lies in folders, as one page.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bdo_data::cohort::Cohort;
use bdo_data::durable;
use bdo_report::kind::Kind;
use bdo_report::report::{add_splits, page_of};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::answer::Answer;
use crate::args::{General, command_line, out_file};
use crate::cli::Common;
use crate::model_look::{Look, show_look};

/// Scans whose reconstruction is shown unless asked otherwise.
const SHOWN_SCANS: u16 = 5;

/// Make a self-contained page of cohorts, runs, models, comparisons, sweeps, probes
#[derive(Debug, Args, Serialize)]
#[command(
    after_help = "Examples:\n  bdo report run --data cohort --out run.html\n  bdo report comparison --out comparison.html\n  bdo report run-tiny run-small run-base --out sizes.html"
)]
pub(crate) struct ReportArgs {
    /// Cohorts, runs, models, comparisons, sweeps, probes, inferences or measurements (JSON of `bdo bench`)
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// A cohort to look at through the model of a run: reconstructions, features, control, time constants
    #[arg(long, value_name = "COHORT", help_heading = "Input")]
    data: Option<PathBuf>,
    /// Scans whose reconstruction is shown
    #[arg(long, value_name = "N", default_value_t = SHOWN_SCANS, value_parser = clap::value_parser!(u16).range(1..=20))]
    #[arg(help_heading = "Output")]
    scans: u16,
    /// The page to write
    #[arg(long, value_name = "FILE", value_parser = out_file, help_heading = "Output")]
    out: PathBuf,
}

impl ReportArgs {
    pub(crate) fn new(paths: &[&Path], data: Option<&Path>, out: &Path) -> Self {
        let paths = paths.iter().map(|path| path.to_path_buf()).collect();
        Self { paths, data: data.map(Path::to_path_buf), scans: SHOWN_SCANS, out: out.to_path_buf() }
    }

    pub(crate) fn command(&self) -> String {
        command_line("report", self, General::default())
    }
}

/// The kinds of folders a page is made of.
const EXPECTED: &str = "a cohort, run, model, comparison, sweep, probe, explanation, inference or measurement";

pub(crate) fn run(args: &ReportArgs, common: &Common) -> anyhow::Result<Answer> {
    let started = std::time::Instant::now();
    let paths = args.paths.iter().map(|path| recognised(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let cohort = args.data.as_ref().map(|path| Cohort::open(path)).transpose()?;
    let mut page = page_of(&paths, &args.command())?;
    for (path, _) in paths.iter().filter(|(_, kind)| matches!(kind, Kind::Comparison | Kind::Head)) {
        let named = cohort_of(path);
        add_splits(&mut page, path, cohort.as_ref().or(named.as_ref()));
    }
    for (path, model) in paths.iter().filter_map(|(path, kind)| Some((path, model_of(path, *kind)?))) {
        let Some(cohort) = &cohort else {
            page.section("Through the model").missing(
                "Reconstructions, traces, features, control energy and time constants need the model and a cohort:",
                &with_cohort(path),
            );
            continue;
        };
        let cache = path.join("features");
        let cache = (path != &model).then_some(cache.as_path());
        match Look::through(&model, cohort, usize::from(args.scans), common, cache) {
            Ok(look) => show_look(&look, cohort, &mut page),
            Err(error) => {
                // A model that does not fit the cohort does not stop the others.
                common.note(format!("{}: {error}", model.display()));
                page.section("Through the model").missing(&format!("The model could not be used: {error}"), "");
            }
        }
    }
    let figures = page.figure_count();
    let html = page.finish(env!("CARGO_PKG_VERSION"));
    durable::write(&args.out, html.as_bytes())?;
    let kinds: Vec<&str> = paths.iter().map(|(_, kind)| kind.name()).collect();
    let json = json!({"report": args.out, "kinds": kinds, "figures": figures, "bytes": html.len(),
                      "seconds": started.elapsed().as_secs_f64()});
    let text = format!("{}: {figures} figures, {:.2} MiB", args.out.display(), html.len() as f64 / f64::from(1 << 20));
    Ok(Answer::new(json, text))
}

/// Leaves the page of a folder in a file.
pub(crate) fn write_page(folder: &Path, kind: Kind, data: Option<&Path>, out: &Path) -> anyhow::Result<()> {
    let mut page = page_of(&[(folder.to_path_buf(), kind)], &ReportArgs::new(&[folder], None, out).command())?;
    if kind == Kind::Comparison {
        add_splits(&mut page, folder, data.and_then(|path| Cohort::open(path).ok()).as_ref());
    }
    if kind == Kind::Run {
        page.section("Through the model").missing(
            "Reconstructions, traces, features, control energy and time constants are drawn by:",
            &with_cohort(folder),
        );
    }
    Ok(durable::write(out, page.finish(env!("CARGO_PKG_VERSION")).as_bytes())?)
}

/// The page of a folder that a verb has just made, beside what it holds. The work is done by then, so a page that cannot
/// be drawn or written is a remark and no failure.
pub(crate) fn leave_page(folder: &Path, kind: Kind, data: Option<&Path>, common: &Common) {
    let out = folder.join("report.html");
    match write_page(folder, kind, data, &out) {
        Ok(()) => common.note(format!("the page about it is {}", out.display())),
        Err(error) => common.note(format!("the page about {} could not be made: {error}", folder.display())),
    }
}

fn recognised(path: &Path) -> anyhow::Result<(PathBuf, Kind)> {
    if !path.exists() {
        bail!("{}: expected {EXPECTED}, found nothing", path.display());
    }
    let kind = Kind::of(path).with_context(|| {
        let mut names: Vec<String> = std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .filter_map(|e| Some(e.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        names.sort();
        names.truncate(8);
        let found = match names.as_slice() {
            _ if path.is_file() => "another file".to_owned(),
            [] => "an empty folder".to_owned(),
            names => format!("a folder with {}", names.join(", ")),
        };
        format!("{}: expected {EXPECTED}, found {found}", path.display())
    })?;
    Ok((path.to_path_buf(), kind))
}

/// The model of a run or a model directory, if it is finished.
fn model_of(path: &Path, kind: Kind) -> Option<PathBuf> {
    let model = match kind {
        Kind::Run => path.join("model"),
        Kind::Model => path.to_path_buf(),
        _ => return None,
    };
    model.join(bdo_model::weights::WEIGHTS_FILE).is_file().then_some(model)
}

/// The cohort a comparison says it used, if it is still there.
fn cohort_of(folder: &Path) -> Option<Cohort> {
    let record: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.join("table.json")).ok()?).ok()?;
    let cohort = Cohort::open(Path::new(record["cohort"].as_str()?)).ok()?;
    (cohort.content_blake3().ok().as_deref() == record["cohort_blake3"].as_str()).then_some(cohort)
}

/// The command for a page with what the model makes of a cohort.
fn with_cohort(path: &Path) -> String {
    ReportArgs::new(&[path], Some(Path::new("COHORT")), Path::new("page.html")).command()
}
