//! What was found beside what the paper says, and what differs between the two.

use bdo_data::target::TargetKind;
use bdo_eval::comparison::{Row, Summary};
use bdo_model::pooling::Pooling;
use bdo_report::chart::{Axis, Chart, Marks, Point, Reference};
use bdo_report::figure::Figure;
use bdo_report::page::{Citation, Page};
use bdo_report::palette::Colour;
use bdo_report::table::{Cell, Table};
use bdo_train::settings::{Preset, Settings, Size};
use serde_json::Value;

use super::Work;
use super::curves::Swept;
use super::paper::Reported;
use super::tables::AtSize;
use crate::args::Choice;

/// Scores of a label as the paper has them: name of the metric, heading, factor.
fn scores(kind: &TargetKind) -> [(&'static str, &'static str, f64); 2] {
    match kind {
        TargetKind::Regression => [("mse", "MSE", 1.0), ("rho", "rho", 1.0)],
        TargetKind::Classification { .. } => [("accuracy", "ACC", 100.0), ("macro_f1", "F1", 100.0)],
    }
}

fn row_of<'a>(summary: &'a Summary, method: &str, target: &str) -> Option<&'a Row> {
    summary.rows.iter().find(|row| row.method == method && row.target == target && row.scheme == "random")
}

fn score_cell(row: Option<&Row>, metric: &str, factor: f64) -> Cell {
    let Some(cell) = row.and_then(|row| row.cell(metric)) else { return Cell::Empty };
    match (cell.mean, cell.spread) {
        (Some(mean), Some(spread)) => shown((factor * mean, factor * spread)),
        _ => Cell::Empty,
    }
}

fn shown((mean, spread): (f64, f64)) -> Cell {
    let digits = if mean.abs() >= 10.0 { 2 } else { 3 };
    Cell::Shown(mean, format!("{mean:.digits$} ± {spread:.digits$}"))
}

/// A column of a table beside the paper's, by its place among the paper's or ours.
#[derive(Clone, Copy)]
enum Column {
    Paper(usize),
    Here(usize),
}

impl Column {
    /// Ours stand right beside the paper's of the same label and score, others before them.
    fn beside(paper: &[&str], here: &[String]) -> Vec<Self> {
        let alike = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        let alone = (0..here.len()).filter(|i| !paper.iter().any(|name| alike(name, &here[*i])));
        let mut columns: Vec<Self> = alone.map(Self::Here).collect();
        for (i, name) in paper.iter().enumerate() {
            columns.push(Self::Paper(i));
            columns.extend(here.iter().position(|other| alike(name, other)).map(Self::Here));
        }
        columns
    }

    fn cells(names: [&str; 2], columns: &[Self], paper: &[Cell], here: &[Cell]) -> Vec<Cell> {
        let cell = |column: &Self| match *column {
            Self::Paper(i) => paper.get(i),
            Self::Here(i) => here.get(i),
        };
        let scores = columns.iter().map(|column| cell(column).cloned().unwrap_or(Cell::Empty));
        names.map(Cell::from).into_iter().chain(scores).collect()
    }
}

impl Work<'_> {
    /// What the text of the paper says of a figure.
    pub(super) fn beside(&self, page: &mut Page) {
        let Some(said) = self.args.what.about().said else { return };
        page.section("What the paper says").paragraph(said);
        page.say("Set beside the published method.", &[Citation::Bdo]);
    }

    pub(super) fn beside_table(&self, page: &mut Page, reported: &Reported, found: &[AtSize]) {
        let here: Vec<String> = (self.targets.iter())
            .flat_map(|target| scores(&target.kind).map(|(_, heading, _)| format!("{} {heading}", target.name)))
            .collect();
        let paper = reported.columns();
        let columns = Column::beside(&paper, &here);
        let headings = ["method", "row and size here"].map(str::to_owned).into_iter();
        let headings = headings.chain(columns.iter().map(|column| match *column {
            Column::Paper(i) => format!("paper: {}", paper[i]),
            Column::Here(i) => format!("here: {}", here[i]),
        }));
        let mut table = Table::new("The paper's rows and ours; mean ± population spread over repetitions", headings);
        let ours = |method: &str, summary: &Summary| -> Vec<Cell> {
            let of = |target: &bdo_data::target::Target| {
                let row = row_of(summary, method, &target.name);
                scores(&target.kind).map(|(metric, _, factor)| score_cell(row, metric, factor))
            };
            self.targets.iter().flat_map(of).collect()
        };
        for row in reported.rows() {
            // A row of a size that was not run here is set beside the first one that was.
            let at = found.iter().find(|at| row.size.is_none_or(|size| size == at.size)).or(found.first());
            let Some(at) = at else { continue };
            let name = row.size.map_or_else(|| row.row.to_owned(), |_| format!("{}, {}", row.row, at.size.typed()));
            let scores: Vec<Cell> = row.scores.iter().map(|score| shown(*score)).collect();
            table.row(Column::cells([row.name, &name], &columns, &scores, &ours(row.row, &at.summary)));
        }
        for method in ["bdo-mean", "bdo-untrained-mean", "fc", "majority"] {
            let Some(at) = found.first() else { continue };
            table.row(Column::cells(["(not in the paper)", method], &columns, &[], &ours(method, &at.summary)));
        }
        page.section("Beside the paper")
            .paragraph(&format!("The paper's numbers are of {}. Scores of other people cannot be ranked against them; the order of rows can be compared.", reported.data))
            .table(&table);
        page.say("The paper's numbers are those of its tables.", &[Citation::Bdo]);
    }

    /// Figure 2.
    pub(super) fn beside_cost(&self, page: &mut Page, found: &[AtSize], costs: &[(Size, Value)]) {
        self.beside(page);
        let costs: Vec<Cost<'_>> = (found.iter().zip(costs))
            .flat_map(|(at, (size, cost))| {
                let rows = cost["rows"].as_array().into_iter().flatten();
                rows.map(move |row| Cost::of(row, *size, &at.summary))
            })
            .collect();
        let mut table = Table::new(
            "Cost of a training step and scores of the frozen features",
            ["model", "parameters", "memory of training (MiB)", "label", "score", "value"],
        );
        let axes = [("parameters", "parameters (log scale)"), ("memory", "MiB (log scale)")];
        let costs_on: [fn(&Cost<'_>) -> f64; 2] = [|cost| cost.parameters, |cost| cost.memory_mib];
        let mut charts = vec![];
        for target in self.targets {
            let metric = row_metric(found, &target.name);
            let score = |cost: &Cost<'_>| {
                row_of(cost.summary, cost.method, &target.name).and_then(|row| row.cell(&row.primary)?.mean)
            };
            let scored: Vec<(usize, &Cost<'_>, f64)> =
                costs.iter().enumerate().filter_map(|(i, cost)| Some((i, cost, score(cost)?))).collect();
            for ((title, axis), on) in axes.into_iter().zip(costs_on) {
                let title = format!("{}: {title}", target.name);
                let mut chart = Chart::new(title, Axis::log(axis), Axis::linear(&metric)).sized(440.0, 320.0);
                for (i, cost, score) in &scored {
                    let Cost { name, parameters, memory_mib, .. } = cost;
                    let note = format!("{name}: {score:.3}, {parameters:.0} parameters, {memory_mib:.0} MiB");
                    let point = Point::at(on(cost), *score).noted(note);
                    chart = chart.with(name, Colour::Kind(*i), Marks::Dots, vec![point]);
                }
                charts.push(chart);
            }
            for (_, Cost { name, parameters, memory_mib, .. }, score) in scored {
                table.row([
                    Cell::from(name.as_str()),
                    Cell::Shown(*parameters, format!("{parameters:.0}")),
                    Cell::Shown(*memory_mib, format!("{memory_mib:.0}")),
                    Cell::from(target.name.as_str()),
                    Cell::from(metric.as_str()),
                    Cell::from(score),
                ]);
            }
        }
        let caption = "Primary score of the frozen features of each model under the same splits, against its trained parameters and against the memory its training takes beyond the data, each measured in a process of its own on the same scans.";
        let figure = Figure::of_charts("figure2", "Performance against parameters and memory", caption, &charts, 2);
        page.section("Performance against cost").figure(&figure).table(&table);
    }

    /// Figure 3.
    pub(super) fn beside_lengths(&self, page: &mut Page, found: &[Swept]) {
        self.beside(page);
        let mut charts = vec![];
        let probes = self.targets.iter().map(|target| {
            let title = format!("{}: probe of {}", target.name, self.read());
            (target.name.as_str(), title, vec!["probes", &target.name], "score of test people")
        });
        let frames = ("hidden frames", "hidden frames of test people".to_owned(), vec!["rho"], "rho at hidden frames");
        for (name, title, keys, score) in probes.chain([frames]) {
            let mut chart = Chart::new(title, Axis::log("epochs of pre-training (log scale)"), Axis::linear(score));
            chart = chart.sized(640.0, 360.0);
            for (i, swept) in found.iter().enumerate() {
                let points = swept.rows().iter().filter_map(|row| {
                    let (score, spread) = score_of(row, &keys)?;
                    let epochs = row["epochs"].as_f64()?;
                    let note = format!("{}: {epochs:.1} epochs, {score:.3} ± {spread:.3}", swept.name);
                    Some(Point::at(epochs, score).noted(note))
                });
                chart = chart.with(&swept.name, Colour::Kind(i), Marks::LineAndDots, points.collect());
            }
            charts.push(judged(chart, found.first(), name));
        }
        let caption = "Mean over seeds. Every point is a run of its own on the training people of its split, whose schedule ends there; spreads over seeds are in the tooltips and in the tables below. Last, the correlation at hidden frames, three quarters hidden. Dashed: the same probe on the model of the first curve before its first step, and on connectivity.";
        let figure = Figure::of_charts("figure3", "Scalability", caption, &charts, 1);
        page.section("Score over the length of pre-training").figure(&figure);
        self.by_construction(page);
    }

    /// Figure 5.
    pub(super) fn beside_ablations(&self, page: &mut Page, found: &[Swept]) {
        self.beside(page);
        let mut charts = vec![];
        let probes = self.targets.iter().map(|t| (t.name.as_str(), vec!["probes", &t.name], "score of test people"));
        for (name, keys, y) in probes.chain([("hidden frames", vec!["rho"], "rho at hidden frames")]) {
            for swept in found {
                let values = swept.rows().iter().map(|r| r["value"].as_str().unwrap_or_default().to_owned()).collect();
                let points = swept.rows().iter().enumerate().filter_map(|(i, row)| {
                    let (mean, spread) = score_of(row, &keys)?;
                    let ends = (mean - spread, mean + spread);
                    Some(Point::at(i as f64, mean).between(ends).noted(format!("{mean:.3} ± {spread:.3}")))
                });
                let title = format!("{name} by {}", swept.name);
                let chart = Chart::new(title, Axis::of_names(&swept.name, values), Axis::linear(y)).sized(400.0, 300.0);
                let chart = chart.with("mean and spread", Colour::Kind(0), Marks::UpAndDown, points.collect());
                charts.push(judged(chart, Some(swept), name));
            }
        }
        let caption = "Above, the closed-form probe on test people no run has seen; below, the correlation at hidden frames of test people, three quarters hidden. Bars are the spread over seeds. Reconstruction weight 0 is the latent target alone, tau 0 the reconstruction alone. Dashed: the same probe on the model before its first step and on connectivity.";
        page.section("Ablations").figure(&Figure::of_charts("figure5", "Ablations", caption, &charts, 3));
        self.by_construction(page);
    }

    /// What labels are predicted from.
    fn read(&self) -> &'static str {
        if self.args.pooling == Pooling::Mean { "the mean control" } else { self.args.pooling.name() }
    }

    /// Why labels hardly move, where they do not.
    fn by_construction(&self, page: &mut Page) {
        let holds = |settings: Settings| settings.model.fingerprint && self.args.pooling == Pooling::Mean;
        if self.args.configuration.resolve_bdo(&[]).is_ok_and(holds) {
            page.paragraph("The preset has model.fingerprint: its mean control holds the connectivity of a scan by construction, so the score of labels can hardly depend on masks, latent targets and epochs; the reconstruction can. With --preset paper the mean control is that of the encoder, and --pooling mean-movement reads how the control moves.");
        }
    }

    /// What differs from the paper, and what was left out.
    pub(super) fn differences(&self, page: &mut Page) {
        let (args, cohort) = (self.args, self.cohort);
        let index = cohort.index();
        let mut frames: Vec<usize> = index.iter().map(|entry| entry.frames).collect();
        frames.sort_unstable();
        let mut tr: Vec<f64> = index.iter().map(|entry| entry.tr_seconds).collect();
        tr.sort_by(f64::total_cmp);
        let people = cohort.participants().subjects().count();
        let preset = args.configuration.preset.unwrap_or(Preset::Default).typed();
        let settings = args.configuration.resolve_bdo(&[]).ok();
        let sizes: Vec<&str> = args.sizes.iter().map(|size| size.typed()).collect();
        let seeds: Vec<String> = args.seeds().iter().map(u64::to_string).collect();
        let rows = [
            ("Data", "UK Biobank (41,072 people) for pre-training; UK Biobank, HCP-A, ABIDE, ADHD200, HCP-EP, TCP for labels".to_owned(),
             format!("{}: {} scans of {people} people, for both", cohort.folder().display(), index.len())),
            ("Atlas", "Schaefer-400 and Tian S3, 450 regions".to_owned(),
             format!("{}, {} regions", cohort.manifest().atlas.name, cohort.regions().len())),
            ("Scans", "UK Biobank: 480 frames of 0.735 s".to_owned(),
             format!("median of {} frames of {:.3} s", frames[frames.len() / 2], tr[tr.len() / 2])),
            ("Who is pre-trained on", "80 % of UK Biobank".to_owned(),
             "the training people of each split; test people never".to_owned()),
            ("Model", "12 blocks; 5M, 21M and 85M".to_owned(),
             format!("preset {preset}, {} blocks, {}", settings.map_or(0, |s| s.model.blocks), sizes.join(", "))),
            ("Pre-training", "200 epochs of 257 steps of 128 scans".to_owned(),
             match args.epochs {
                 Some(epochs) => format!("{epochs} epochs at most"),
                 None => format!("{} minutes for all trainings of this page, {} threads", args.minutes, rayon::current_num_threads()),
             }),
            ("Probes", "12 configurations of Adam".to_owned(), "the same in bdo-probe; closed form in bdo-mean and in sweeps".to_owned()),
            ("Fine-tuning", "36 configurations, 50 epochs, from a fresh head".to_owned(),
             "1 configuration at two learning rates, within its time, from the closed-form probe, chosen by validation loss".to_owned()),
            ("Repetitions", "seeds 0, 1, 2 (five for some baselines)".to_owned(), format!("seeds {}", seeds.join(", "))),
        ];
        let mut table = Table::new("What differs", ["", "paper", "here"]).fitting();
        for (what, paper, here) in rows {
            table.row([Cell::from(what), Cell::from(paper), Cell::from(here)]);
        }
        page.section("What differs from the paper").table(&table);
        page.section("What was left out for the time");
        if self.cuts.is_empty() {
            page.paragraph("No row, size or seed; lengths of trainings are those of the budget.");
        }
        for cut in &self.cuts {
            page.paragraph(cut);
        }
    }
}

impl Swept {
    fn rows(&self) -> &[Value] {
        self.table["rows"].as_array().map_or(&[], Vec::as_slice)
    }
}

/// Mean and spread of a score in a row of a sweep.
fn score_of(row: &Value, keys: &[&str]) -> Option<(f64, f64)> {
    let at = |row: &Value| keys.iter().fold(row, |found, key| &found[*key]).as_f64();
    Some((at(row)?, at(&row["spreads"]).unwrap_or(0.0)))
}

/// A chart of scores with what they are judged by: the same model untrained, and connectivity.
fn judged(chart: Chart, swept: Option<&Swept>, target: &str) -> Chart {
    let first = swept.and_then(|swept| swept.rows().first());
    [("untrained", "untrained"), ("fc", "connectivity")].into_iter().fold(chart, |chart, (from, name)| {
        match first.and_then(|row| row[from][target].as_f64()) {
            Some(level) => chart.against(Reference::Level(name.into(), level)),
            None => chart,
        }
    })
}

/// What a model at a size costs, and where its scores are.
struct Cost<'a> {
    name: String,
    parameters: f64,
    /// What a training takes beyond the data.
    memory_mib: f64,
    summary: &'a Summary,
    method: &'a str,
}

impl<'a> Cost<'a> {
    fn of(row: &'a Value, size: Size, summary: &'a Summary) -> Self {
        let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        let model = row["model"].as_str().unwrap_or_default();
        Self {
            name: format!("{}, {}", row["title"].as_str().unwrap_or(model), size.typed()),
            parameters: number("parameters"),
            memory_mib: number("train_peak_mib") - number("train_resting_mib"),
            summary,
            method: if model == "bdo" { "bdo-mean" } else { model },
        }
    }
}

fn row_metric(found: &[AtSize], target: &str) -> String {
    let primary = |at: &AtSize| at.summary.rows.iter().find(|row| row.target == target).map(|row| row.primary.clone());
    found.iter().find_map(primary).unwrap_or_default()
}
