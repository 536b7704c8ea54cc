//! Reconstruct, impute, forecast and trajectory: one answer per scan.

use std::path::Path;
use std::time::Instant;

use anyhow::bail;
use bdo_data::cohort::{IndexEntry, Observer};
use bdo_data::durable;
use bdo_data::region::Region;
use bdo_data::scan::Scan;
use bdo_eval::error::EvalError;
use bdo_eval::infer::output::{Block, TableWriter, TsvWriter, bids_stem};
use bdo_eval::infer::scan_answer::ScanPlan;
use bdo_model::familiarity::{Familiarity, ScanFacts, Trust};
use bdo_model::posterior::rows::{RowKind, Rows};
use bdo_model::posterior::trajectory::NetworkWeights;
use serde_json::json;

use super::{Asked, ForecastArgs, ImputeArgs, ReconstructArgs, Setup};
use crate::answer::Answer;
use crate::cli::Common;
use crate::progress::Progress;

/// Most rows that may be asked for per scan; a mistyped step must not fill a disk.
const MOST_ROWS: f64 = 5e6;

pub(super) fn reconstruct(args: &ReconstructArgs, common: &Common) -> anyhow::Result<Answer> {
    let setup = Setup::new(&args.asked, "reconstruct", &json!({"every": args.every}), common)?;
    let plan = |scan: &Scan| {
        let mut plan = ScanPlan::whole(scan, setup.intake.regions());
        if let Some(step) = args.every {
            let span = scan.frame_times_seconds[scan.frames() - 1] - scan.frame_times_seconds[0];
            if span / step > MOST_ROWS {
                bail!(
                    "--every {step}: expected at most {MOST_ROWS} rows per scan, found {:.0} in {}",
                    span / step,
                    scan.id
                );
            }
            plan.further = (0..=(span / step) as usize).map(|i| (i as f64 * step, RowKind::Asked)).collect();
        }
        Ok(plan)
    };
    answer(&setup, &args.asked, "reconstruction", plan, false, common)
}

pub(super) fn impute(args: &ImputeArgs, common: &Common) -> anyhow::Result<Answer> {
    let details = json!({"fd_above": args.fd_above, "coverage_below": args.coverage_below});
    let setup = Setup::new(&args.asked, "impute", &details, common)?;
    let plan = |scan: &Scan| {
        let mut plan = ScanPlan::filled(scan, setup.intake.regions());
        if let (Some(limit), Some(motion)) = (args.fd_above, &scan.framewise_displacement_mm) {
            plan.hidden = motion.iter().map(|fd| f64::from(*fd) > limit).collect();
        }
        if let (Some(limit), Some(coverage)) = (args.coverage_below, &scan.coverage) {
            plan.unseen = setup.intake.columns().iter().map(|&c| f64::from(coverage[c]) < limit).collect();
        }
        Ok(plan)
    };
    answer(&setup, &args.asked, "imputed", plan, true, common)
}

pub(super) fn forecast(args: &ForecastArgs, common: &Common) -> anyhow::Result<Answer> {
    let setup = Setup::new(&args.asked, "forecast", &json!({"horizon": args.horizon}), common)?;
    let plan = |scan: &Scan| Ok(ScanPlan::ahead(scan, setup.intake.regions(), args.horizon));
    answer(&setup, &args.asked, "forecast", plan, false, common)
}

/// Where the answers of one scan go besides the common table.
struct ScanTables {
    mean: TsvWriter,
    sd: TsvWriter,
}

impl ScanTables {
    fn create(setup: &Setup, scan: &Scan, description: &str) -> anyhow::Result<Self> {
        let (folder, stem) = bids_stem(&scan.id);
        let folder = setup.folder.join(&folder.to_string_lossy());
        std::fs::create_dir_all(&folder)?;
        let mut columns = vec!["time_seconds".to_owned(), "kind".to_owned()];
        columns.extend(setup.frozen.contract.roi_names.iter().cloned());
        let name = |stat: &str| folder.join(format!("{stem}_desc-{description}_stat-{stat}_timeseries.tsv"));
        let sidecar = json!({
            "Description": format!("{description} by bdo infer, mean and standard deviation of every region"),
            "Sources": [scan.source.name],
            "RepetitionTime": scan.tr_seconds,
            "StartTime": scan.frame_times_seconds[0],
            "Units": "as the ingested series; a region that the scan does not cover is given around 0",
            "Columns": {"time_seconds": "since the first kept frame", "kind":
                "visible: the model looked at this frame; hidden: kept from it; missing: no frame there; asked: another time"},
            "ModelBlake3": setup.frozen.blake3,
            "Calibrated": setup.calibration.is_some(),
        });
        let text = serde_json::to_string_pretty(&sidecar)? + "\n";
        durable::write(&folder.join(format!("{stem}_desc-{description}_timeseries.json")), text.as_bytes())?;
        Ok(Self { mean: TsvWriter::create(&name("mean"), &columns)?, sd: TsvWriter::create(&name("std"), &columns)? })
    }

    fn add(&mut self, block: &Block, regions: usize) -> Result<(), EvalError> {
        for (row, (time, kind)) in block.times_seconds.iter().zip(&block.kinds).enumerate() {
            for (writer, values) in [(&mut self.mean, &block.lists[0]), (&mut self.sd, &block.lists[1])] {
                let mut line = format!("{time}\t{kind}");
                for x in &values[row * regions..(row + 1) * regions] {
                    line.push('\t');
                    if x.is_nan() { line.push_str("n/a") } else { line.push_str(&x.to_string()) }
                }
                writer.line(&line)?;
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<(), EvalError> {
        self.mean.finish()?;
        self.sd.finish()
    }
}

/// Answers all scans; with `keep_observed`, what was measured stays as it is.
fn answer(
    setup: &Setup,
    asked: &Asked,
    description: &str,
    plan: impl Fn(&Scan) -> anyhow::Result<ScanPlan>,
    keep_observed: bool,
    common: &Common,
) -> anyhow::Result<Answer> {
    let started = Instant::now();
    let regions = setup.intake.regions();
    let answerer = setup.answerer(keep_observed);
    let facts = [
        ("model_blake3", setup.frozen.blake3.clone()),
        ("cohort_blake3", setup.cohort.content_blake3()?),
        ("regions", serde_json::to_string(&setup.frozen.contract.roi_names)?),
        ("calibrated", setup.calibration.is_some().to_string()),
    ];
    let path = setup.folder.join("posterior.parquet");
    let mut table = TableWriter::create(&path, &[("mean", regions), ("sd", regions)], &facts)?;
    let progress = Progress::start(description, setup.scans.len(), common)?;
    let (mut rows_written, mut filled, mut passed_over) = (0usize, 0usize, Vec::new());
    let mut familiar = Familiar::start(setup)?;
    let mut example: Option<Example> = None;
    for (done, &i) in setup.scans.iter().enumerate() {
        if progress.stop_requested() {
            return Err(EvalError::Interrupted.into());
        }
        let scan = setup.cohort.scan(i)?;
        // Tables begin with the first answer: a scan that cannot be looked at leaves none.
        let mut tables: Option<ScanTables> = None;
        let plan = plan(&scan)?;
        let answered = answerer.answer(&scan, &setup.intake, &plan, [common.seed, i as u64], |block, unseen| {
            rows_written += block.times_seconds.len();
            filled += unseen;
            table.add(&scan.id, &block)?;
            example.get_or_insert_with(|| Example::of(setup, &scan)).add(&scan, &plan, &block, regions);
            if tables.is_none() && !asked.no_bids {
                tables = Some(ScanTables::create(setup, &scan, description)?);
            }
            Ok::<(), anyhow::Error>(tables.as_mut().map_or(Ok(()), |tables| tables.add(&block, regions))?)
        })?;
        if !answered {
            passed_over.push(scan.id.to_string());
            continue;
        }
        if let Some(tables) = tables {
            tables.finish()?;
        }
        familiar.add(setup, i, &setup.cohort.index()[i])?;
        progress.advance(done + 1, passed_over.len());
    }
    drop(progress);
    table.finish()?;
    if let Some(example) = &example {
        setup.folder.write_json("example.json", example)?;
    }
    let unfamiliar = familiar.finish(&setup.folder.join("familiarity.tsv"))?;
    if !asked.no_bids {
        write_description(setup.folder.path())?;
    }
    for scan in &passed_over {
        common.note(format!("{scan} has no usable region or no frame to look at, and no answer"));
    }
    if unfamiliar > 0 {
        common.note(format!("{unfamiliar} scans are not like those the model knows; see familiarity.tsv"));
    }
    let facts = json!({
        "verb": description, "model_blake3": setup.frozen.blake3, "cohort_blake3": setup.cohort.content_blake3()?,
        "calibrated": setup.calibration.is_some(), "uncertainty": setup.uncertainty, "scans": setup.scans.len() - passed_over.len(),
        "rows": rows_written, "rows_not_seen": filled, "passed_over": passed_over, "unfamiliar": unfamiliar,
        "seconds": started.elapsed().as_secs_f64(), "out": asked.out,
    });
    setup.folder.write_json("inference.json", &facts)?;
    let text = format!(
        "{}: {rows_written} times of {} scans, at {filled} of them no frame that the model saw; {}, in {:.1} s",
        path.display(),
        setup.scans.len() - passed_over.len(),
        if setup.calibration.is_some() { "with calibrated spreads" } else { "spreads NOT calibrated" },
        started.elapsed().as_secs_f64()
    );
    Ok(Answer::new(facts, text).rejected(!passed_over.is_empty()))
}

/// Leaves an example of a scan of which frames were hidden, for the page of scores: bands over what was not shown.
pub(super) fn keep_example(setup: &Setup, number: usize, hidden: Vec<bool>, common: &Common) -> anyhow::Result<()> {
    let (scan, regions) = (setup.cohort.scan(number)?, setup.intake.regions());
    let plan = ScanPlan { hidden, ..ScanPlan::whole(&scan, regions) };
    let mut example = Example::of(setup, &scan);
    let seed = [common.seed, number as u64];
    let answered = setup.answerer(false).answer(&scan, &setup.intake, &plan, seed, |block, _| {
        example.add(&scan, &plan, &block, regions);
        Ok::<(), EvalError>(())
    })?;
    if answered { Ok(setup.folder.write_json("example.json", &example)?) } else { Ok(()) }
}

/// A few regions of the first scan with their bands, for the page of the folder.
#[derive(serde::Serialize)]
struct Example {
    scan: String,
    regions: Vec<String>,
    /// Standard deviations a band of 95 % reaches to either side.
    half_width: f64,
    times_seconds: Vec<f64>,
    /// One list per region; not a number where nothing was measured.
    truth: Vec<Vec<f64>>,
    mean: Vec<Vec<f64>>,
    sd: Vec<Vec<f64>>,
    /// Whether the model was shown the row.
    shown: Vec<bool>,
    #[serde(skip)]
    picked: Vec<usize>,
    #[serde(skip)]
    columns: Vec<usize>,
}

impl Example {
    const REGIONS: usize = 3;

    fn of(setup: &Setup, scan: &Scan) -> Self {
        let names = &setup.frozen.contract.roi_names;
        let picked: Vec<usize> = (0..Self::REGIONS.min(names.len())).map(|k| k * names.len() / Self::REGIONS).collect();
        Self {
            scan: scan.id.to_string(),
            regions: picked.iter().map(|r| names[*r].clone()).collect(),
            half_width: setup.calibration.as_ref().map_or(1.96, |c| c.half_widths[2]),
            times_seconds: vec![],
            truth: vec![vec![]; picked.len()],
            mean: vec![vec![]; picked.len()],
            sd: vec![vec![]; picked.len()],
            shown: vec![],
            columns: picked.iter().map(|r| setup.intake.columns()[*r]).collect(),
            picked,
        }
    }

    /// Adds rows of the scan it is of; those of others are passed over.
    fn add(&mut self, scan: &Scan, plan: &ScanPlan, block: &Block, regions: usize) {
        if scan.id.to_string() != self.scan {
            return;
        }
        let (first, columns) = (scan.frame_times_seconds[0], scan.series.len() / scan.frames().max(1));
        for (row, time) in block.times_seconds.iter().enumerate() {
            let close = |t: &f64| (t - first - time).abs() < 1e-6 * scan.tr_seconds;
            let frame = scan.frame_times_seconds.iter().position(close);
            self.times_seconds.push(*time);
            self.shown.push(frame.is_some_and(|frame| !plan.hidden[frame]));
            for (i, region) in self.picked.iter().enumerate() {
                let measured = frame.map_or(f32::NAN, |frame| scan.series[frame * columns + self.columns[i]]);
                self.truth[i].push(f64::from(measured));
                self.mean[i].push(f64::from(block.lists[0][row * regions + region]));
                self.sd[i].push(f64::from(block.lists[1][row * regions + region]));
            }
        }
    }
}

/// One scan is encoded at a time, which the bar of the answers follows.
struct Unwatched;

impl Observer for Unwatched {}

/// Whether each scan is like those the model knows.
struct Familiar {
    lines: String,
    unusual: usize,
    known: Option<Familiarity>,
}

impl Familiar {
    fn start(setup: &Setup) -> anyhow::Result<Self> {
        let calibrated = setup.calibration.as_ref().map(|c| c.familiarity.clone()).filter(Familiarity::is_known);
        let known = match calibrated {
            Some(known) => Some(known),
            None => Familiarity::read(&setup.frozen.folder, &setup.frozen.blake3)?,
        };
        Ok(Self { lines: "scan\tdistance\tpercentile\ttrust\treasons\n".to_owned(), unusual: 0, known })
    }

    fn add(&mut self, setup: &Setup, number: usize, entry: &IndexEntry) -> anyhow::Result<()> {
        let Some(known) = &self.known else { return Ok(()) };
        let facts = ScanFacts::of_scans(&setup.frozen, &setup.cohort, &[number], &Unwatched)?;
        if let Some(verdict) = facts.first().and_then(|facts| known.judge(facts)) {
            self.unusual += usize::from(verdict.trust != Trust::Usual);
            self.lines.push_str(&format!(
                "{}\t{:.4}\t{}\t{}\t{}\n",
                entry.id,
                verdict.distance,
                verdict.percentile.map_or_else(|| "n/a".to_owned(), |share| format!("{share:.4}")),
                verdict.trust.name(),
                if verdict.reasons.is_empty() { "n/a".to_owned() } else { verdict.reasons.join("; ") }
            ));
        }
        Ok(())
    }

    fn finish(self, path: &Path) -> anyhow::Result<usize> {
        if self.known.is_some() {
            durable::write(path, self.lines.as_bytes())?;
        }
        Ok(self.unusual)
    }
}

/// The file that makes a folder a BIDS derivative.
fn write_description(folder: &Path) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(&json!({
        "Name": "bdo inference", "BIDSVersion": "1.9.0", "DatasetType": "derivative",
        "GeneratedBy": [{"Name": "bdo", "Version": env!("CARGO_PKG_VERSION")}],
    }))? + "\n";
    Ok(durable::write(&folder.join("dataset_description.json"), text.as_bytes())?)
}

pub(super) fn trajectory(asked: &Asked, common: &Common) -> anyhow::Result<Answer> {
    let setup = Setup::new(asked, "trajectory", &json!({}), common)?;
    let width = setup.frozen.model.config().width;
    let engine = setup.engine();
    let facts = [("model_blake3", setup.frozen.blake3.clone()), ("cohort_blake3", setup.cohort.content_blake3()?)];
    let path = setup.folder.join("latent.parquet");
    let mut table = TableWriter::create(&path, &[("mean", width), ("variance", width)], &facts)?;
    let regions: Vec<Region> = setup.intake.columns().iter().map(|&c| setup.cohort.regions()[c].clone()).collect();
    let progress = Progress::start("trajectory", setup.scans.len(), common)?;
    let mut summary = Vec::new();
    let mut names = Vec::new();
    for (done, &i) in setup.scans.iter().enumerate() {
        if progress.stop_requested() {
            return Err(EvalError::Interrupted.into());
        }
        let scan = setup.cohort.scan(i)?;
        let plan = ScanPlan::whole(&scan, setup.intake.regions());
        let Some((rows, _)) = Rows::of_scan(&scan, &setup.intake, &plan.hidden, &plan.unseen, &[]) else {
            continue;
        };
        let (folder, stem) = bids_stem(&scan.id);
        let folder = setup.folder.join(&folder.to_string_lossy());
        std::fs::create_dir_all(&folder)?;
        let mut writer: Option<TsvWriter> = None;
        let mut weights: Option<NetworkWeights> = None;
        let (mut energy, mut times, mut count) = (0.0, Vec::new(), 0usize);
        engine.infer(&rows, |piece| -> anyhow::Result<()> {
            table.add(
                &scan.id,
                &Block {
                    times_seconds: rows.times_seconds[piece.rows.clone()].to_vec(),
                    kinds: rows.kinds[piece.rows.clone()].iter().map(|kind| kind.name()).collect(),
                    lists: vec![piece.mean.clone(), piece.variance.clone()],
                },
            )?;
            let weights = weights.get_or_insert_with(|| NetworkWeights::of(&engine, &piece, &regions));
            if writer.is_none() {
                let mut columns = vec!["time_seconds".to_owned(), "control_energy".to_owned()];
                columns.extend(weights.names.iter().map(|name| format!("time_constant_seconds_{name}")));
                let file = folder.join(format!("{stem}_desc-trajectory_timeseries.tsv"));
                writer = Some(TsvWriter::create(&file, &columns)?);
                names.clone_from(&weights.names);
                times = vec![0.0; weights.names.len()];
            }
            for (place, row) in piece.rows.clone().enumerate() {
                let found = weights.path_row(&piece, place);
                let mut line = format!("{}\t{}", rows.times_seconds[row], found.control_energy);
                found.time_constant_seconds.iter().for_each(|t| line.push_str(&format!("\t{t}")));
                if let Some(writer) = &mut writer {
                    writer.line(&line)?;
                }
                energy += found.control_energy;
                times.iter_mut().zip(&found.time_constant_seconds).for_each(|(sum, t)| *sum += t);
                count += 1;
            }
            Ok(())
        })?;
        if let Some(writer) = writer {
            writer.finish()?;
        }
        let n = count.max(1) as f64;
        summary.push((scan.id.to_string(), energy / n, times.iter().map(|t| t / n).collect::<Vec<f64>>()));
        progress.advance(done + 1, 0);
    }
    drop(progress);
    table.finish()?;
    write_description(setup.folder.path())?;
    let mut text = format!(
        "scan\tcontrol_energy\t{}\n",
        names.iter().map(|n| format!("time_constant_seconds_{n}")).collect::<Vec<_>>().join("\t")
    );
    for (scan, energy, times) in &summary {
        let times: Vec<String> = times.iter().map(ToString::to_string).collect();
        text.push_str(&format!("{scan}\t{energy}\t{}\n", times.join("\t")));
    }
    durable::write(&setup.folder.join("summary.tsv"), text.as_bytes())?;
    let facts = json!({
        "verb": "trajectory", "model_blake3": setup.frozen.blake3, "cohort_blake3": setup.cohort.content_blake3()?,
        "scans": summary.len(), "networks": names, "out": asked.out,
    });
    setup.folder.write_json("inference.json", &facts)?;
    let text = format!("{}: latent paths of {} scans; means in summary.tsv", path.display(), summary.len());
    Ok(Answer::new(facts, text))
}
