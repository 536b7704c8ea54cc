//! `bdo compare`: methods x targets x repetitions under one set of splits, as one table.

mod asked;
mod baseline_rows;
mod model_rows;
mod people;
pub(crate) mod pretraining;
mod protocol;
mod request;
pub(crate) mod row;
mod tasks;
mod workshop;

pub(crate) use request::CompareArgs;

use std::collections::VecDeque;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use bdo_data::cohort::Cohort;
use bdo_data::division::{Division, Split, SplitManifest};
use bdo_data::durable;
use bdo_data::shard::Shard;
use bdo_data::target::Target;
use bdo_eval::audit::{AuditRow, audit};
use bdo_eval::comparison::{
    Footnote, ResultStore, Row as SummaryRow, Summary, SummarySettings, TaskResult, summarise, to_csv, to_latex,
    to_markdown,
};
use bdo_eval::confound::Nuisance;
use bdo_eval::features::FeatureTable;
use bdo_eval::memory::peak_mib;
use bdo_eval::method::Task;
use bdo_model::pooling::Pooling;
use bdo_model::weights::ModelDirectory;
use bdo_report::kind::Kind;
use serde_json::json;

use super::report::leave_page;
use crate::answer::Answer;
use crate::args::Choice;
use crate::cli::Common;
use asked::Asked;
use model_rows::Models;
use people::{Impossible, copied, everybody_has_a_value, guarded, impossible, is_asked, splits};
use pretraining::PretrainingCost;
use request::People;
use row::{BdoRow, Connectivity, Row};
use tasks::{Done, Todo, Turn, run_all};
use workshop::{Line, Workshop};

/// The lines of the table: those asked for with what they bring, those others are compared with, those that are always there.
fn rows(args: &CompareArgs) -> Vec<Asked> {
    let asked = args.methods.iter().chain(&args.statistics.against).cloned();
    Asked::lines(asked.chain(Row::ALWAYS.map(Asked::from)))
}

/// Without the untrained twins that a given model cannot have; what was asked for by name stays and is refused.
fn with_possible_twins(
    rows: Vec<Asked>,
    args: &CompareArgs,
    model: Option<&ModelDirectory>,
    cohort: &Cohort,
    common: &Common,
) -> Vec<Asked> {
    let Some(model) = model else { return rows };
    let trained = model.people.known_in(cohort);
    let known = cohort.participants().subjects().any(|subject| trained.is_trained(subject));
    let impossible = |row: &Asked| {
        let untrained = row.members().iter().filter_map(|row| row.bdo()).filter(|of| of.is_untrained());
        let reads_out = untrained.filter_map(BdoRow::pooling).any(Pooling::needs_readout);
        row.is_untrained() && !args.methods.contains(row) && (model.notes.is_none() || (reads_out && !known))
    };
    let (left_out, kept): (Vec<Asked>, Vec<Asked>) = rows.into_iter().partition(impossible);
    if !left_out.is_empty() {
        let names = left_out.iter().map(Asked::name).collect::<Vec<_>>().join(", ");
        let why = if model.notes.is_none() {
            "the model does not record the seed it started from (training.json)"
        } else {
            "nobody of this cohort is among the people a readout may be fitted on"
        };
        common.note(format!("left out: {names}: {why}"));
    }
    kept
}

/// Whether a row has features of its own under each split.
fn depends_on_split(row: &Asked) -> bool {
    row.single().is_none_or(|row| row.needs_model() || row.is_fitted_by_split())
}

/// Splits whose rows look at the same tables, which are held no longer than that: all of them where a model is given and
/// nothing is fitted by split, else each by itself.
fn by_tables<'a>(args: &CompareArgs, rows: &[&Asked], splits: &'a [Split]) -> Vec<&'a [Split]> {
    let fitted = |row: &&Asked| row.single().is_none_or(Row::is_fitted_by_split);
    let together = args.model.is_some() && !rows.iter().any(fitted);
    splits.chunks(if together { splits.len().max(1) } else { 1 }).collect()
}

pub(crate) fn run(args: &CompareArgs, common: &Common) -> anyhow::Result<Answer> {
    let started = Instant::now();
    let rows = rows(args);
    if args.trains(&rows) && args.training.pretrain_minutes < 0.0 {
        let minutes = args.training.pretrain_minutes;
        bail!("--pretrain-minutes: expected at least 0 where no --model is given, found {minutes}");
    }
    let cohort = Cohort::open(&args.cohort.data)?;
    let cohort_blake3 = cohort.content_blake3()?;
    let targets = Target::all(cohort.participants(), &args.targets)?;
    let People { family_column, site_column, .. } = &args.people;
    let division = Division::by_family(&cohort, family_column.as_deref())?.with_sites(site_column.as_deref());
    if let Some(copied) = copied(&division) {
        common.note(format!("copies of one scan under two names stay on one side: {copied}"));
    }
    let splits = splits(args, &division)?;
    if args.people.stratify_by.is_some() {
        everybody_has_a_value(&splits.splits, &args.targets, division.people())?;
    }
    let pretrained = args.model.as_ref().map(|path| ModelDirectory::read(path)).transpose()?;
    let rows = with_possible_twins(rows, args, pretrained.as_ref(), &cohort, common);
    let impossible = impossible(&rows, &targets, &splits.splits, args, common)?;
    // What is said about pre-training is asked of each model once it is there.
    guarded(&splits.splits, &division, None)?;

    let nuisance = Arc::new(Nuisance::of(&cohort));
    let (division, splits, targets, cohort) = (&division, &splits, &targets[..], &cohort);
    let field = Field { args, common, cohort, division, splits, targets, nuisance, impossible };
    let workshop = Workshop::new(&rows, &field)?;
    durable::create_folder(&args.out)?;
    let mut done = Done {
        store: ResultStore::open(&args.out.join("results"))?,
        cohort_blake3,
        results: vec![],
        reused: 0,
        without_result: vec![],
        shard: args.shard,
    };
    let first = done.wait_for("splits.json")?;
    durable::write(&args.out.join("splits.json"), serde_json::to_string_pretty(splits)?.as_bytes())?;
    drop(first);
    let mut audited = vec![];
    if !args.statistics.no_audit {
        audited = field.audited("fc", &workshop.fixed(Connectivity::Fisher)?.table)?;
    }
    let (of_splits, plain): (Vec<&Asked>, Vec<&Asked>) = rows.iter().partition(|row| depends_on_split(row));
    // Models are trained first: a mistake in their settings shows before the baselines have taken hours.
    audited.extend(field.run_by_split(&of_splits, &workshop, &mut done)?);
    let any = splits.splits.first().context("a comparison has at least one split")?;
    field.run(&workshop.lines(&plain, any, None)?, None, &splits.splits, &mut done)?;
    match args.shard {
        // One of the processes that share the work writes the tables.
        Some(shard) if shard.part > 1 => Ok(shared(&done, shard, &args.out)),
        _ => field.tables(&rows, done, &audited, started),
    }
}

/// Of a process that leaves the tables to another.
fn shared(done: &Done, shard: Shard, out: &Path) -> Answer {
    let (results, others) = (done.results.len(), done.reused);
    let json = json!({"shard": shard, "results": results, "results_used_again": others});
    let text = format!("{}: {} results by part {shard}; part 1 writes the tables", out.display(), results - others);
    Answer::new(json, text)
}

/// What every row is run on.
struct Field<'a> {
    args: &'a CompareArgs,
    common: &'a Common,
    cohort: &'a Cohort,
    division: &'a Division<'a>,
    splits: &'a SplitManifest,
    targets: &'a [Target],
    nuisance: Arc<Nuisance>,
    /// Known before work begins.
    impossible: Vec<Impossible>,
}

impl Field<'_> {
    /// Lines under some of the splits. Whoever a model has seen among those it is tested on is flagged, also where it was
    /// trained for this comparison.
    fn run(
        &self,
        lines: &[Line<'_>],
        models: Option<&Models>,
        splits: &[Split],
        done: &mut Done,
    ) -> anyhow::Result<()> {
        let people = models.map(|models| ModelDirectory::read(&models.trained)).transpose()?.map(|model| model.people);
        let all_flags = guarded(splits, self.division, people.as_ref())?;
        let mut tasks: Vec<Todo<'_>> = vec![];
        for line in lines {
            let needs_model = line.asked.members().iter().any(|row| row.needs_model());
            for split in splits {
                let flags = all_flags.get(&split.blake3).filter(|_| needs_model).map_or(&[][..], Vec::as_slice);
                for target in self.targets.iter().filter(|t| is_asked(self.args, line.asked, split, t)) {
                    let name = line.method.name();
                    let impossible = |it: &&Impossible| {
                        it.row == name && it.target == target.name && it.split_blake3 == split.blake3
                    };
                    if let Some(Impossible { reason, .. }) = self.impossible.iter().find(impossible) {
                        done.leave_out(name, target, split, reason.clone(), self.common);
                        continue;
                    }
                    let (cohort, seed, fit_on) = (self.cohort, split.seed(), self.args.people.fit_on);
                    tasks.push((line, Task { cohort, split, target, seed, fit_on }, flags));
                }
            }
        }
        run_all(&tasks, done, self.common)
    }

    /// The rows that depend on the split, one after another, and the audit of the features of one model.
    fn run_by_split(&self, rows: &[&Asked], workshop: &Workshop<'_>, done: &mut Done) -> anyhow::Result<Vec<AuditRow>> {
        let of_models: Vec<BdoRow> = rows.iter().flat_map(|row| row.members()).filter_map(|row| row.bdo()).collect();
        let groups = if rows.is_empty() { vec![] } else { by_tables(self.args, rows, &self.splits.splits) };
        // The features that are audited are those of the same model whatever the order of splits.
        let first = self.splits.splits.iter().map(|split| &split.blake3).min();
        let mut audited = vec![];
        let mut queue: VecDeque<(usize, &[Split])> = done.in_turn(groups.iter().copied().enumerate().collect()).into();
        let mut busy = 0;
        while let Some((i, group)) = queue.pop_front() {
            // What another process prepares is come back to, and waited for once there is nothing else.
            let work = group.iter().map(|split| split.blake3.as_str()).collect::<Vec<_>>().join(" ");
            let lease = match done.turn(&work)? {
                Turn::Ours(lease) => lease,
                Turn::Theirs if busy < queue.len() => {
                    busy += 1;
                    queue.push_back((i, group));
                    continue;
                }
                Turn::Theirs => done.wait_for(&work)?,
            };
            busy = 0;
            if groups.len() > 1 {
                let what = if of_models.is_empty() { "its features" } else { "its model, then the rows of BDO" };
                self.common.note(format!("split {} of {}: {what}", i + 1, groups.len()));
            }
            let split = &group[0];
            let models = (!of_models.is_empty()).then(|| Models::ready(&of_models, split, self)).transpose()?;
            let lines = workshop.lines(rows, split, models.as_ref())?;
            drop(lease);
            self.run(&lines, models.as_ref(), group, done)?;
            if let Some(models) = models.filter(|_| group.iter().any(|split| Some(&split.blake3) == first)) {
                audited.extend(self.audit(&of_models, &models)?);
            }
            drop(lines);
            workshop.forget_split();
        }
        Ok(audited)
    }

    /// What the paper's feature, and the one that says most where it is a row, know that they should not.
    fn audit(&self, rows: &[BdoRow], models: &Models) -> anyhow::Result<Vec<AuditRow>> {
        let mut audited = vec![];
        for pooling in [Pooling::Mean, Pooling::Coupling] {
            let row = row::pooled(pooling);
            let asked = pooling == Pooling::Mean || rows.iter().any(|of| Row::Bdo(*of) == row);
            if asked && !self.args.statistics.no_audit {
                audited.extend(self.audited(row.typed(), &self.features_of(&models.trained, pooling)?)?);
            }
        }
        Ok(audited)
    }

    fn audited(&self, name: &str, table: &FeatureTable) -> anyhow::Result<Vec<AuditRow>> {
        Ok(audit(name, table, self.cohort, self.division, &self.nuisance, self.common.seed)?)
    }

    /// Summarises the results and writes the tables and their page.
    fn tables(&self, rows: &[Asked], done: Done, audited: &[AuditRow], started: Instant) -> anyhow::Result<Answer> {
        let (args, common) = (self.args, self.common);
        let Done { mut results, reused, cohort_blake3, without_result, .. } = done;
        in_order(&mut results, rows, &self.splits.splits, self.targets);
        if reused > 0 {
            common.note(format!("{reused} of {} results were there already", results.len()));
        }
        let settings = SummarySettings {
            bootstraps: args.statistics.bootstraps,
            permutations: args.statistics.permutations,
            seed: common.seed,
            own_references: rows.iter().map(|row| (row.name(), names(&row.references()))).collect(),
            ..SummarySettings::default()
        }
        .against(&names(&args.statistics.against));
        let mut summary = Summary { footnotes: footnotes(rows), ..summarise(&results, &settings) };
        // A cell that failed in one repetition only is left to those that have a result.
        let has_row = |r: &SummaryRow| {
            summary.rows.iter().any(|row| row.method == r.method && row.target == r.target && row.scheme == r.scheme)
        };
        let dashes: Vec<SummaryRow> =
            without_result.into_iter().map(|(_, row)| row).filter(|row| !has_row(row)).collect();
        summary.rows.extend(dashes);
        if summary.rows.iter().all(|row| row.cells.is_empty()) {
            let reasons: Vec<String> = summary.rows.iter().flat_map(|row| row.flags.clone()).collect();
            bail!("expected at least one result, found none: {}", reasons.join("; "));
        }
        let (fit_on, splits_blake3) = (args.people.fit_on, &self.splits.blake3);
        let fitted_on = fit_on.typed().replace('-', " ");
        let mut markdown = to_markdown(&summary);
        let seconds = started.elapsed().as_secs_f64();
        writeln!(markdown, "\nTime of the whole comparison: {}.", duration(seconds, reused))?;
        writeln!(markdown, "\nClosed-form rows are fitted on the people: {fitted_on}. Splits: {splits_blake3}.")?;
        let runs = if args.trains(rows) { pretraining::runs(&args.out, &self.splits.splits) } else { vec![] };
        let pretraining = PretrainingCost::of(&runs);
        markdown += &pretraining.as_ref().map_or_else(String::new, PretrainingCost::to_markdown);
        if let Some(copied) = copied(self.division) {
            writeln!(markdown, "\nCopies of one scan under two names, kept on one side: {copied}.")?;
        }
        markdown += &audit_markdown(audited);
        let protocol = protocol::protocol(args, rows, &runs, common.general())?;
        markdown = format!("{markdown}\n{}", protocol.to_markdown());
        // The system's own peak was forgotten between rows.
        let peak = results.iter().filter_map(|r| r.peak_rss_mib).chain(peak_mib()).reduce(f64::max);
        let json = json!({
            "cohort": args.cohort.data, "cohort_blake3": cohort_blake3, "splits_blake3": splits_blake3, "fit_on": fit_on,
            "model": args.model, "copies": self.division.copies(), "results": results.len(),
            "results_used_again": reused, "summary": summary, "audit": audited, "seconds": seconds,
            "peak_rss_mib": peak, "protocol": protocol, "pretraining": pretraining,
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
        leave_page(&args.out, Kind::Comparison, Some(&args.cohort.data), common);
        let text = format!(
            "{markdown}\n{} results ({reused} of them from an earlier run) in {seconds:.1} s; tables in {}",
            results.len(),
            args.out.display()
        );
        Ok(Answer::new(json, text))
    }
}

/// What a name does not say: rows of BDO that hold the measured series themselves.
fn footnotes(rows: &[Asked]) -> Vec<Footnote> {
    let measured = |row: &&Asked| row.members().iter().any(|row| row.holds_measured_series());
    let methods: Vec<String> = rows.iter().filter(measured).map(Asked::name).collect();
    let text = "Not the control alone: these features correlate what is read out of the control with the measured series, so \
                that much of connectivity is in them whatever was learned.";
    if methods.is_empty() { vec![] } else { vec![Footnote { methods, text: text.to_owned() }] }
}

/// Results as the table has them: by method, then split, then target, whatever was computed first.
fn in_order(results: &mut [TaskResult], rows: &[Asked], splits: &[Split], targets: &[Target]) {
    let names = names(rows);
    results.sort_by_key(|r| {
        let method = names.iter().position(|name| *name == r.method);
        let split = splits.iter().position(|split| split.blake3 == r.split_blake3 && split.seed() == r.seed);
        (method, split, targets.iter().position(|target| target.name == r.target))
    });
}

/// Seconds, with what they do not cover.
fn duration(seconds: f64, reused: usize) -> String {
    let earlier = if reused > 0 { format!(", not counting {reused} results of earlier runs") } else { String::new() };
    format!("{seconds:.1} s{earlier}")
}

fn names(rows: &[Asked]) -> Vec<String> {
    rows.iter().map(Asked::name).collect()
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
