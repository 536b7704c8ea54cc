//! `bdo report`: what lies in folders, as one page.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bdo_data::cohort::Cohort;
use bdo_data::durable;
use bdo_report::report::{Kind, Report};
use serde_json::json;

use super::{note, print};
use crate::Outcome;
use crate::cli::Common;
use crate::model_look::{Look, show_look};
use crate::report_args::ReportArgs;

/// What a folder may be, for people who gave another one.
const EXPECTED: &str = "a cohort, run, model, comparison, sweep, probe, inference or measurement";

pub(crate) fn run(args: &ReportArgs, common: &Common) -> anyhow::Result<Outcome> {
    let started = std::time::Instant::now();
    let paths = args.paths.iter().map(|path| recognised(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let cohort = args.data.as_ref().map(|path| Cohort::open(path)).transpose()?;
    let mut report = Report::new(&Report::title(&paths), &command(args));
    report.add(&paths)?;
    for (path, _) in paths.iter().filter(|(_, kind)| matches!(kind, Kind::Comparison | Kind::Head)) {
        let named = cohort_of(path);
        report.add_splits(path, cohort.as_ref().or(named.as_ref()));
    }
    for (path, model) in paths.iter().filter_map(|(path, kind)| Some((path, model_of(path, *kind)?))) {
        let Some(cohort) = &cohort else {
            report.page.section("Through the model").missing(
                "Reconstructions, traces, features, control energy and time constants need the model and a cohort:",
                &format!("bdo report {} --data COHORT --out page.html", quoted(path)),
            );
            continue;
        };
        let cache = path.join("features");
        let cache = (path != &model).then_some(cache.as_path());
        match Look::through(&model, cohort, usize::from(args.scans), common, cache) {
            Ok(look) => show_look(&look, cohort, &mut report),
            Err(error) => {
                // One model that does not fit the cohort must not cost the pages of the others.
                note(common, &format!("{}: {error}", model.display()));
                report
                    .page
                    .section("Through the model")
                    .missing(&format!("The model could not be looked through: {error}"), "");
            }
        }
    }
    let figures = report.page.figure_count();
    let html = report.finish(env!("CARGO_PKG_VERSION"));
    durable::write(&args.out, html.as_bytes())?;
    let kinds: Vec<&str> = paths.iter().map(|(_, kind)| kind.name()).collect();
    let json = json!({"report": args.out, "kinds": kinds, "figures": figures, "bytes": html.len(),
                      "seconds": started.elapsed().as_secs_f64()});
    let text = format!("{}: {figures} figures, {:.2} MiB", args.out.display(), html.len() as f64 / f64::from(1 << 20));
    print(common, &json, &text);
    Ok(Outcome::Done)
}

/// The page of a folder that a verb has just made, beside what it holds. The work is done by then, so a page that cannot
/// be drawn or written is a remark and no failure.
pub(crate) fn leave_page(folder: &Path, kind: Kind, data: Option<&Path>, common: &Common) {
    let made = || -> anyhow::Result<PathBuf> {
        let paths = [(folder.to_path_buf(), kind)];
        let out = folder.join("report.html");
        let mut report =
            Report::new(&Report::title(&paths), &format!("bdo report {} --out {}", quoted(folder), quoted(&out)));
        report.add(&paths)?;
        if kind == Kind::Comparison {
            report.add_splits(folder, data.and_then(|path| Cohort::open(path).ok()).as_ref());
        }
        if kind == Kind::Run {
            report.page.section("Through the model").missing(
                "Reconstructions, traces, features, control energy and time constants are drawn by:",
                &format!("bdo report {} --data COHORT --out page.html", quoted(folder)),
            );
        }
        durable::write(&out, report.finish(env!("CARGO_PKG_VERSION")).as_bytes())?;
        Ok(out)
    };
    match made() {
        Ok(path) => note(common, &format!("the page about it is {}", path.display())),
        Err(error) => note(common, &format!("the page about {} could not be made: {error}", folder.display())),
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

/// What was typed, so that it can be typed again.
fn command(args: &ReportArgs) -> String {
    let paths: Vec<String> = args.paths.iter().map(|p| quoted(p)).collect();
    let data = args.data.as_ref().map_or_else(String::new, |d| format!(" --data {}", quoted(d)));
    let scans = if args.scans == 5 { String::new() } else { format!(" --scans {}", args.scans) };
    format!("bdo report {}{data}{scans} --out {}", paths.join(" "), quoted(&args.out))
}

/// A path as a shell takes it.
pub(crate) fn quoted(path: &Path) -> String {
    quoted_text(&path.display().to_string())
}

/// A word as a shell takes it.
pub(crate) fn quoted_text(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:@%,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_a_shell() {
        assert_eq!(quoted(Path::new("run/model")), "run/model");
        assert_eq!(quoted(Path::new("a b")), "'a b'");
        assert_eq!(quoted(Path::new("it's; rm -rf /")), r"'it'\''s; rm -rf /'");
    }
}
