//! `bdo compare`: methods x targets x repetitions under one set of splits, and one honest table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::bail;
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::division::{Division, Scheme, Split, SplitError, SplitManifest};
use bdo_data::durable;
use bdo_data::participants::Participants;
use bdo_eval::audit::{AuditRow, audit};
use bdo_eval::combat::UnseenSite;
use bdo_eval::comparison::{
    ResultStore, SummarySettings, TaskResult, run_task, summarise, to_csv, to_latex, to_markdown,
};
use bdo_eval::confound::Nuisance;
use bdo_eval::connectivity::{Scale, connectivity_table};
use bdo_eval::features::FeatureTable;
use bdo_eval::leak::LeakReport;
use bdo_eval::memory::forget_peak;
use bdo_eval::method::{FitOn, Method, Task};
use bdo_eval::reference::{ClosedForm, NoBrain, NoBrainKind};
use bdo_eval::target::Target;
use bdo_model::weights::ModelDirectory;
use bdo_report::report::Kind;
use rayon::prelude::*;
use serde_json::json;

use super::baseline_rows::{self, Baselines};
use super::model_rows::{self, Models};
use super::pretraining_cost::PretrainingCost;
use super::protocol::protocol;
use super::report::leave_page;
use super::{note, peak_rss_mib, print};
use crate::Outcome;
use crate::cli::Common;
use crate::comparison_args::{CompareArgs, FitOnName};
use crate::progress::Progress;

/// Rows that are in every table, asked for or not: without them the others cannot be judged.
const ALWAYS: [&str; 5] = ["fc", "motion", "site", "age-sex", "majority"];
/// Further rows; a method that is added below is named here too. Those that need a model are in `model_rows`.
const OPTIONAL: [&str; 1] = ["fc-combat"];

/// What methods are made of; computed once and shared.
struct Ingredients {
    connectivity: Arc<FeatureTable>,
    nuisance: Arc<Nuisance>,
}

/// A method by its name in `--methods`, of those that need no model.
fn method(name: &str, from: &Ingredients) -> anyhow::Result<Box<dyn Method>> {
    let no_brain = |kind| Box::new(NoBrain::new(kind, from.nuisance.clone())) as Box<dyn Method>;
    let connectivity = |name| ClosedForm::new(name, from.connectivity.clone(), "connectivity fisher-z");
    Ok(match name {
        "fc" => Box::new(connectivity("fc")),
        "fc-combat" => Box::new(connectivity("fc-combat").harmonised(from.nuisance.clone(), UnseenSite::Pooled)),
        "motion" => no_brain(NoBrainKind::Motion),
        "site" => no_brain(NoBrainKind::Site),
        "age-sex" => no_brain(NoBrainKind::AgeSex),
        "majority" => no_brain(NoBrainKind::Majority),
        other => bail!("--methods: expected a known method, found {other:?}"),
    })
}

/// The rows asked for, then those that are always there; checked before any scan is read.
fn names(args: &CompareArgs) -> anyhow::Result<Vec<&str>> {
    let known: Vec<&str> =
        ALWAYS.iter().chain(&OPTIONAL).chain(&model_rows::NAMES).chain(&baseline_rows::NAMES).copied().collect();
    let mut names: Vec<&str> = args.methods.iter().map(String::as_str).collect();
    if let Some(other) = names.iter().find(|name| !known.contains(name)) {
        bail!("--methods: expected one of {}, found {other:?}", known.join(", "));
    }
    names.extend(ALWAYS);
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    Ok(names)
}

/// The rows that need no model of ours, by their names, with what they need computed.
fn plain_rows(
    names: &[&str],
    args: &CompareArgs,
    cohort: &Cohort,
    ingredients: &Ingredients,
    common: &Common,
) -> anyhow::Result<Vec<Box<dyn Method>>> {
    let baselines = Baselines::default();
    let row = |name: &&str| match baselines.row(name, args, cohort, common)? {
        Some(row) => Ok(row),
        None => method(name, ingredients),
    };
    names.iter().filter(|name| !model_rows::NAMES.contains(name)).map(row).collect()
}

/// Splits whose rows look at the tables of one model, which are held no longer than that: all of them where a model is given,
/// else each by itself.
fn by_model<'a>(args: &CompareArgs, splits: &'a [Split]) -> Vec<&'a [Split]> {
    splits.chunks(if args.model.is_some() { splits.len().max(1) } else { 1 }).collect()
}

pub(crate) fn run(args: &CompareArgs, common: &Common) -> anyhow::Result<Outcome> {
    let started = std::time::Instant::now();
    let names = names(args)?;
    model_rows::check(args, &names)?;
    let cohort = Cohort::open(&args.data)?;
    let cohort_blake3 = cohort.content_blake3()?;
    let targets = args
        .targets
        .iter()
        .map(|name| Ok(Target::of(cohort.participants(), name)?))
        .collect::<anyhow::Result<Vec<Target>>>()?;
    let division = Division::by_family(&cohort, args.family_column.as_deref())?.with_sites(args.site_column.as_deref());
    let copied: Vec<String> = division.copies().iter().map(|(a, b)| format!("{a} = {b}")).collect();
    if !copied.is_empty() {
        note(common, &format!("copies of one scan under two names stay on one side: {}", copied.join(", ")));
    }
    let splits = splits(args, &division)?;
    if args.stratify_by.is_some() {
        everybody_has_a_value(&splits.splits, &args.targets, division.people())?;
    }
    let pretrained = args.model.as_ref().map(|path| ModelDirectory::read(path)).transpose()?;
    let hashes = pretrained.as_ref().map(|m| (&m.people.subjects, &m.people.scans));
    let flags = guarded(&splits.splits, &division, hashes)?;

    let connectivity = Arc::new(connectivity_table(&cohort, Scale::FisherZ)?);
    let ingredients = Ingredients { connectivity, nuisance: Arc::new(Nuisance::of(&cohort)) };
    durable::create_folder(&args.out)?;
    durable::write(&args.out.join("splits.json"), serde_json::to_string_pretty(&splits)?.as_bytes())?;
    let store = ResultStore::open(&args.out.join("results"))?;
    let fit_on = match args.fit_on {
        FitOnName::Train => FitOn::Train,
        FitOnName::TrainAndValidation => FitOn::TrainAndValidation,
    };
    let mut audited = vec![];
    if !args.no_audit {
        audited = audit("fc", &ingredients.connectivity, &cohort, &division, &ingredients.nuisance, common.seed)?;
    }
    let mut done = Done { store, cohort_blake3: cohort_blake3.clone(), results: vec![], reused: 0 };
    let field = Field {
        args,
        common,
        cohort: &cohort,
        division: &division,
        splits: &splits.splits,
        flags,
        targets: &targets,
        fit_on,
    };
    // Models are trained first: a mistake in their settings shows before the baselines have taken hours.
    audited.extend(field.run_models(&names, &ingredients, &mut done)?);
    field.run(&plain_rows(&names, args, &cohort, &ingredients, common)?, &splits.splits, &mut done)?;
    let Done { mut results, reused, .. } = done;
    in_order(&mut results, &names, &splits.splits, &targets);
    if reused > 0 {
        note(common, &format!("{reused} of {} results were there already", results.len()));
    }

    let settings = SummarySettings {
        bootstraps: args.bootstraps,
        permutations: args.permutations,
        seed: common.seed,
        ..SummarySettings::default()
    };
    let summary = summarise(&results, &settings);
    let fitted_on = args.fit_on.to_string().replace('-', " ");
    let mut markdown = to_markdown(&summary);
    writeln!(markdown, "\nClosed-form rows are fitted on the people: {fitted_on}. Splits: {}.", splits.blake3)?;
    let trained_here = model_rows::needed(&names) && args.model.is_none();
    let pretraining = PretrainingCost::of(&args.out, &splits.splits).filter(|_| trained_here);
    markdown += &pretraining.as_ref().map_or_else(String::new, PretrainingCost::to_markdown);
    if !copied.is_empty() {
        writeln!(markdown, "\nCopies of one scan under two names, kept on one side: {}.", copied.join(", "))?;
    }
    markdown += &audit_markdown(&audited);
    let typed: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let protocol = protocol(args, &names, &splits.splits, &typed)?;
    markdown = format!("{markdown}\n{}", protocol.to_markdown());
    let seconds = started.elapsed().as_secs_f64();
    // The system's own peak was forgotten between rows.
    let peak = results.iter().filter_map(|r| r.peak_rss_mib).chain(peak_rss_mib()).reduce(f64::max);
    let json = json!({
        "cohort": args.data, "cohort_blake3": cohort_blake3, "splits_blake3": splits.blake3, "fit_on": fit_on,
        "model": args.model, "copies": division.copies(), "results": results.len(), "results_used_again": reused, "summary": summary,
        "audit": audited, "seconds": seconds, "peak_rss_mib": peak, "protocol": protocol,
        "pretraining": pretraining,
    });
    let files = [
        ("table.md", markdown.clone()),
        ("table.csv", to_csv(&summary)),
        ("table.tex", protocol.to_latex() + &to_latex(&summary)),
        ("table.json", serde_json::to_string_pretty(&json)? + "\n"),
    ];
    for (name, text) in files {
        durable::write(&args.out.join(name), text.as_bytes())?;
    }
    leave_page(&args.out, Kind::Comparison, Some(&args.data), common);
    let text = format!(
        "{markdown}\n{} results ({reused} of them from an earlier run) in {seconds:.1} s; tables in {}",
        results.len(),
        args.out.display()
    );
    print(common, &json, &text);
    Ok(Outcome::Done)
}

/// What every row is run on.
struct Field<'a> {
    args: &'a CompareArgs,
    common: &'a Common,
    cohort: &'a Cohort,
    division: &'a Division<'a>,
    splits: &'a [Split],
    flags: BTreeMap<String, Vec<String>>,
    targets: &'a [Target],
    fit_on: FitOn,
}

impl Field<'_> {
    /// Rows under some of the splits.
    fn run(&self, methods: &[Box<dyn Method>], splits: &[Split], done: &mut Done) -> anyhow::Result<()> {
        let mut tasks: Vec<(&dyn Method, Task<'_>, &[String])> = vec![];
        for method in methods {
            for split in splits {
                let flags = self.flags.get(&split.blake3).map_or(&[][..], Vec::as_slice);
                for target in self.targets.iter().filter(|t| is_asked(self.args, method.as_ref(), split, t)) {
                    let (cohort, seed, fit_on) = (self.cohort, split.seed(), self.fit_on);
                    tasks.push((method.as_ref(), Task { cohort, split, target, seed, fit_on }, flags));
                }
            }
        }
        run_all(&tasks, done, self.common)
    }

    /// The rows that need a model, one model after another, and the audit of the features of one.
    fn run_models(&self, names: &[&str], from: &Ingredients, done: &mut Done) -> anyhow::Result<Vec<AuditRow>> {
        let (args, cohort, common) = (self.args, self.cohort, self.common);
        let names: Vec<&str> = names.iter().filter(|name| model_rows::NAMES.contains(name)).copied().collect();
        let groups = if names.is_empty() { vec![] } else { by_model(args, self.splits) };
        // The features that are audited are those of the same model whatever the order of splits.
        let first = self.splits.iter().map(|split| &split.blake3).min();
        let mut audited = vec![];
        for (i, group) in groups.iter().enumerate() {
            if groups.len() > 1 {
                note(common, &format!("split {} of {}: its model, then the rows of BDO", i + 1, groups.len()));
            }
            let models = Models::ready(args, cohort, group, common)?;
            models.embed(&names, args, cohort, common)?;
            let row = |name: &&str| models.row(name, args, cohort, &from.nuisance, common);
            let rows = names.iter().map(row).collect::<anyhow::Result<Vec<_>>>()?;
            self.run(&rows, group, done)?;
            if !args.no_audit && group.iter().any(|split| Some(&split.blake3) == first) {
                // The paper's feature, and the one that says most where it is a row.
                let coupling = names.contains(&"bdo-coupling").then_some("bdo-coupling");
                for name in ["bdo-mean"].into_iter().chain(coupling) {
                    let table = models.audited(name, args, cohort, common)?;
                    audited.extend(audit(name, &table, cohort, self.division, &from.nuisance, common.seed)?);
                }
            }
        }
        Ok(audited)
    }
}

/// Every split of the comparison: random ones for each seed, and groups of sites where they are asked for.
fn splits(args: &CompareArgs, division: &Division<'_>) -> Result<SplitManifest, SplitError> {
    let mut splits = vec![];
    let divided_by = args.stratify_by.as_ref().map_or(args.targets.as_slice(), std::slice::from_ref);
    for target in divided_by {
        splits.extend(division.random(target, &args.seeds)?.splits);
        if args.site_groups {
            splits.extend(division.leave_site_out(target, args.seeds.first().copied().unwrap_or(0))?);
        }
    }
    Ok(division.manifest(splits))
}

/// Whether a method is scored on a label under a split. Groups of sites ask what a feature is worth elsewhere; methods that
/// train for long are not trained five times more for it.
fn is_asked(args: &CompareArgs, method: &dyn Method, split: &Split, target: &Target) -> bool {
    let left_out = method.runs_alone() && matches!(split.scheme(), Scheme::LeaveSiteOut { .. });
    !left_out && (args.stratify_by.is_some() || Some(target.name.as_str()) == split.target())
}

/// One division for all targets leaves nobody out, so nobody may lack a value.
fn everybody_has_a_value(splits: &[Split], targets: &[String], people: &Participants) -> anyhow::Result<()> {
    for target in targets {
        let lacks = |subject: &&String| people.row_of(subject).is_none_or(|row| people.get(row, target).is_none());
        let parts =
            |s: &Split| [s.train.subjects().to_vec(), s.validation.subjects().to_vec(), s.test.subjects().to_vec()];
        let missing: BTreeSet<String> = splits.iter().flat_map(parts).flatten().filter(|s| lacks(&s)).collect();
        if let Some(first) = missing.first() {
            bail!(
                "--stratify-by: expected a value of {target:?} for everybody, found {} people without one ({first} ...); \
                 leave the option out to divide people by each target",
                missing.len()
            );
        }
    }
    Ok(())
}

/// Results as the table has them: by method, then split, then target, whatever was computed first.
fn in_order(results: &mut [TaskResult], names: &[&str], splits: &[Split], targets: &[Target]) {
    results.sort_by_key(|r| {
        let method = names.iter().position(|name| *name == r.method);
        let split = splits.iter().position(|split| split.blake3 == r.split_blake3 && split.seed() == r.seed);
        (method, split, targets.iter().position(|target| target.name == r.target))
    });
}

/// Refuses splits with anybody on both sides; says what a table must say about pre-training, split by split.
fn guarded(
    splits: &[Split],
    division: &Division<'_>,
    pretraining: Option<(&BTreeSet<String>, &BTreeSet<String>)>,
) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let mut flags = BTreeMap::new();
    for split in splits {
        let mut report = LeakReport::of_split(split, division);
        report.refuse()?;
        if let Some((subjects, scans)) = pretraining {
            report = report.with_pretraining(split, division, subjects, scans);
        }
        flags.insert(split.blake3.clone(), report.flags(split.test.subjects().len()));
    }
    Ok(flags)
}

/// What there is so far.
struct Done {
    store: ResultStore,
    cohort_blake3: String,
    results: Vec<TaskResult>,
    /// Taken from the folder.
    reused: usize,
}

/// All tasks, those done before taken from the folder. Rows that train run one after another, each with all threads and with
/// time and memory of its own; the others run side by side.
fn run_all(tasks: &[(&dyn Method, Task<'_>, &[String])], so_far: &mut Done, common: &Common) -> anyhow::Result<()> {
    let Done { store, cohort_blake3, .. } = so_far;
    let earlier = so_far.results.len();
    let progress = Progress::start("compare", tasks.len(), common.quiet)?;
    let (done, reused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let one = |(method, task, flags): &(&dyn Method, Task<'_>, &[String])| {
        let flags = if method.uses_pretraining() { *flags } else { &[] };
        if progress.stop_requested() {
            bail!(
                "interrupted after {} results; run the same command again to go on",
                earlier + done.load(Ordering::Relaxed)
            );
        }
        let result = if let Some(mut found) = store.find(*method, task, cohort_blake3) {
            reused.fetch_add(1, Ordering::Relaxed);
            // Flags are about this run (the model that is given now), not about the one that stored the result.
            found.outcome.flags.retain(|f| !f.ends_with("were pre-trained on"));
            found.outcome.flags.extend(flags.iter().cloned());
            found
        } else {
            let result = run_task(*method, task, cohort_blake3, flags)?;
            store.keep(&result)?;
            result
        };
        progress.advance(done.fetch_add(1, Ordering::Relaxed) + 1, 0);
        Ok(result)
    };
    forget_peak();
    let together: Vec<Option<anyhow::Result<TaskResult>>> =
        tasks.par_iter().map(|task| (!task.0.runs_alone()).then(|| one(task))).collect();
    let results = together
        .into_iter()
        .zip(tasks)
        .map(|(found, task)| found.unwrap_or_else(|| one(task)))
        .collect::<anyhow::Result<Vec<_>>>();
    progress.finish();
    so_far.results.extend(results?);
    so_far.reused += reused.into_inner();
    Ok(())
}

fn audit_markdown(rows: &[AuditRow]) -> String {
    let mut out = String::new();
    if rows.is_empty() {
        return out;
    }
    out += "\n### Confound audit: what features know that they should not\n\n";
    out += "| features | nuisance | score | value | people tested |\n|---|---|---|---|---|\n";
    for row in rows {
        let value = row.metrics.and_then(|m| m.get(&row.primary)).map_or_else(|| "-".to_owned(), |v| format!("{v:.3}"));
        let chance = match row.classes {
            0 => "chance 0".to_owned(),
            2 => "chance 0.5".to_owned(),
            k => format!("chance {:.3}", 1.0 / k as f64),
        };
        out += &format!(
            "| {} | {} | {} ({chance}) | {value} | {} |\n",
            row.features, row.nuisance, row.primary, row.tested_people
        );
    }
    out
}
