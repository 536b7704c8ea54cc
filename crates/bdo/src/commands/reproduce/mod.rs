//! `bdo reproduce`: a table or figure of the paper on any cohort, beside the paper's numbers, within a time.

mod budget;
mod curves;
mod page;
mod paper;
mod tables;

use std::path::PathBuf;

use anyhow::{Context, bail};
use bdo_data::cohort::Cohort;
use bdo_data::division::Division;
use bdo_data::durable;
use bdo_data::target::Target;
use bdo_model::pooling::Pooling;
use bdo_report::kind::Kind;
use bdo_report::page::Page;
use bdo_train::settings::Size;
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::json;

use super::pretrain::{continued, trained_model};
use crate::answer::Answer;
use crate::args::{Choice, Configuration, Data, General, SEEDS, SeedSpan, above_zero, command_line, one_of};
use crate::cli::Common;
use crate::model_look::{Look, show_features, show_reconstructions};

/// Make a table or figure of the paper on a cohort, beside the paper's numbers
#[derive(Debug, Clone, Args, Serialize)]
#[command(
    after_help = "Examples:\n  bdo reproduce table3 --data abide --minutes 60 --out table3\n  bdo reproduce figure5 --data cohort --targets age --minutes 120 --out figure5\n\nRun again, it goes on. OUT/index.html is the page."
)]
pub(crate) struct ReproduceArgs {
    /// Which
    #[arg(value_name = "TABLE-OR-FIGURE", value_enum)]
    what: What,
    #[command(flatten)]
    cohort: Data,
    /// Columns of the participants table to predict [default: age and sex and further ones of the paper, or a diagnosis]
    #[arg(long, value_name = "A,B", value_delimiter = ',', help_heading = "Input")]
    targets: Vec<String>,
    /// Where everything goes; index.html is the page
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: PathBuf,
    /// Time for all trainings together; what it does not last for is left out and said
    #[arg(long, value_name = "M", default_value_t = 60.0, value_parser = above_zero, help_heading = "Training")]
    minutes: f64,
    /// Figures 3 and 5: epochs of the longest trainings, in place of the minutes, so that points do not depend on what else a
    /// machine does
    #[arg(long, value_name = "E", value_parser = above_zero, help_heading = "Training")]
    epochs: Option<f64>,
    /// Sizes of BDO
    #[arg(long, value_name = "S,S", value_delimiter = ',', value_parser = one_of::<Size>(), default_value = "tiny")]
    #[arg(help_heading = "Training")]
    sizes: Vec<Size>,
    /// Repetitions
    #[arg(long, value_name = "N,N-M", value_delimiter = ',', default_values_t = SEEDS, help_heading = "Training")]
    seeds: Vec<SeedSpan>,
    /// Figures 3 and 5: how the frames of a scan become what labels are predicted from; the paper has the mean
    #[arg(long, value_parser = one_of::<Pooling>(), default_value = "mean", help_heading = "Scoring")]
    pooling: Pooling,
    #[command(flatten)]
    configuration: Configuration,
}

/// What the paper has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum What {
    /// Age and sex: networks, BDO probed and fine-tuned, BrainLM, Brain-JEPA
    Table1,
    /// The same with traits and sizes of BDO
    Table2,
    /// Diagnosis: networks and sizes of BDO
    Table3,
    /// Performance against memory and parameters
    Figure2,
    /// Downstream score over the length of pre-training, by size and by share of people
    Figure3,
    /// Features by principal components and UMAP
    Figure4,
    /// Mask ratio, tau, latent target alone, reconstruction alone
    Figure5,
    /// Labels over training, validation and test people
    Splits,
    /// Hidden frames of five scans
    Reconstruction,
}

/// Its title, what the text of the paper says of a figure, and the columns that are taken where none is asked for, by what they
/// may be called.
struct About {
    title: &'static str,
    said: Option<&'static str>,
    labels: &'static [&'static [&'static str]],
}

impl What {
    fn about(self) -> About {
        const AGE: &[&str] = &["age", "age_at_scan"];
        const SEX: &[&str] = &["sex", "gender"];
        const DIAGNOSIS: &[&str] = &["diagnosis", "dx_group", "dx", "group"];
        const TRAITS: &[&[&str]] = &[AGE, SEX, &["neuroticism"], &["flanker"], &["trait"]];
        let (title, said, labels): (_, _, &'static [_]) = match self {
            Self::Table1 => ("Table 1: internal tasks", None, &[AGE, SEX]),
            Self::Table2 => ("Table 2: demographics and traits", None, TRAITS),
            Self::Table3 => ("Table 3: diagnosis", None, &[DIAGNOSIS]),
            Self::Figure2 => ("Figure 2: performance against memory and parameters", Some(paper::FIGURE2), &[AGE, SEX]),
            Self::Figure3 => ("Figure 3: scalability", Some(paper::FIGURE3), &[AGE]),
            Self::Figure4 => ("Figure 4: features", Some(paper::FIGURE4), &[AGE]),
            Self::Figure5 => ("Figure 5: ablations", Some(paper::FIGURE5), &[AGE]),
            Self::Splits => ("Split figures", Some(paper::SPLITS), &[AGE, SEX]),
            Self::Reconstruction => ("Reconstruction panels", Some(paper::RECONSTRUCTION), &[AGE]),
        };
        About { title, said, labels }
    }
}

pub(crate) fn run(args: &ReproduceArgs, common: &Common) -> anyhow::Result<Answer> {
    let cohort = Cohort::open(&args.cohort.data)?;
    let targets = targets(args, &cohort)?;
    args.configuration.resolve_bdo(&[])?;
    durable::create_folder(&args.out)?;
    let mut work = Work { args, common, cohort: &cohort, targets: &targets, cuts: vec![], shown: vec![] };
    let mut page = Page::new(&format!("BDO, {}", args.what.about().title), &args.command(common.general()));
    match args.what {
        What::Table1 => work.table(&paper::TABLE1, true, &mut page)?,
        What::Table2 => work.table(&paper::TABLE2, true, &mut page)?,
        What::Table3 => work.table(&paper::TABLE3, false, &mut page)?,
        What::Figure2 => work.cost(&mut page)?,
        What::Figure3 => work.lengths(&mut page)?,
        What::Figure5 => work.ablations(&mut page)?,
        What::Splits => work.splits(&mut page)?,
        What::Figure4 | What::Reconstruction => work.look(&mut page)?,
    }
    work.differences(&mut page);
    bdo_report::report::add_paths(&mut page, &work.shown)?;
    for (folder, _) in work.shown.iter().filter(|(_, kind)| *kind == Kind::Comparison) {
        bdo_report::report::add_splits(&mut page, folder, Some(&cohort));
    }
    let (figures, cuts) = (page.figure_count(), work.cuts);
    let out = args.out.join("index.html");
    durable::write(&out, page.finish(env!("CARGO_PKG_VERSION")).as_bytes())?;
    let list = cuts.iter().fold(String::new(), |list, cut| list + "\nleft out: " + cut);
    let json = json!({"what": args.what, "page": out, "figures": figures, "cuts": cuts,
                      "folders": work.shown.iter().map(|(folder, _)| folder).collect::<Vec<_>>()});
    Ok(Answer::new(json, format!("{}: {figures} figures{list}", out.display())))
}

impl ReproduceArgs {
    fn seeds(&self) -> Vec<u64> {
        SeedSpan::seeds(&self.seeds)
    }

    fn at_size(&self, size: Size) -> Configuration {
        let mut set = vec![format!("model.size={}", size.typed())];
        set.extend(self.configuration.set.iter().cloned());
        Configuration { set, ..self.configuration.clone() }
    }

    fn command(&self, general: General) -> String {
        command_line("reproduce", self, general)
    }
}

fn targets(args: &ReproduceArgs, cohort: &Cohort) -> anyhow::Result<Vec<Target>> {
    let columns = cohort.participants().columns();
    let found = |names: &&[&str]| columns.iter().find(|c| names.contains(&c.to_lowercase().as_str())).cloned();
    let mut names: Vec<String> = args.what.about().labels.iter().filter_map(found).collect();
    if !args.targets.is_empty() {
        names.clone_from(&args.targets);
    }
    if names.is_empty() {
        bail!(
            "{}: expected a column {}, found {}; hint: --targets names the columns to predict",
            args.cohort.data.display(),
            args.what.about().labels.iter().flat_map(|names| names.iter()).copied().collect::<Vec<_>>().join(", "),
            columns.join(", ")
        );
    }
    Ok(Target::all(cohort.participants(), &names)?)
}

struct Work<'a> {
    args: &'a ReproduceArgs,
    common: &'a Common,
    cohort: &'a Cohort,
    targets: &'a [Target],
    /// What was left out.
    cuts: Vec<String>,
    /// Folders whose pages are part of this one.
    shown: Vec<(PathBuf, Kind)>,
}

impl Work<'_> {
    fn names(&self) -> Vec<&str> {
        self.targets.iter().map(|target| target.name.as_str()).collect()
    }

    /// Whether everybody has a value of every label, so that one division serves all.
    fn complete(&self) -> bool {
        let people = self.cohort.participants();
        self.targets.iter().all(|target| people.subjects().all(|subject| target.value(subject).is_some()))
    }

    fn splits(&mut self, page: &mut Page) -> anyhow::Result<()> {
        let division = Division::of(self.cohort)?.with_sites(None);
        let mut splits = vec![];
        for target in self.targets {
            splits.extend(division.random(&target.name, &self.args.seeds())?.splits);
        }
        durable::write_json(&self.args.out.join("splits.json"), &division.manifest(splits))?;
        self.beside(page);
        bdo_report::report::add_splits(page, &self.args.out, Some(self.cohort));
        Ok(())
    }

    /// A model seen with the cohort: features, or reconstructions.
    fn look(&mut self, page: &mut Page) -> anyhow::Result<()> {
        let (args, common) = (self.args, self.common);
        let size = args.sizes.first().copied().context("--sizes: expected at least one, found none")?;
        let minutes = budget::alike(args.minutes, 1.0);
        let settings = args.at_size(size).resolve_bdo(&[format!("train.max_minutes={minutes:?}")])?;
        let run = args.out.join("run");
        common.note(format!("pre-training for {minutes} minutes in {}", run.display()));
        let request = continued(&args.cohort.data, &run, settings, common.seed, None, common)?;
        let model = trained_model(&request, common)?;
        let look = Look::through(&model, self.cohort, 5, common, Some(&args.out.join("features")))?;
        self.beside(page);
        if args.what == What::Figure4 {
            show_features(&look, self.cohort, page);
        } else {
            show_reconstructions(&look, page);
        }
        if args.sizes.len() > 1 {
            self.cuts.push(format!("one model is shown, of size {}", size.typed()));
        }
        self.shown.push((run, Kind::Run));
        Ok(())
    }
}
