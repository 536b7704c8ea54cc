//! Small folders of every kind, made by hand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bdo_data::cohort::{self, Observer, Plan, Provenance, Tables};
use bdo_data::division::Scheme;
use bdo_data::participants::Participants;
use bdo_data::region::Region;
use bdo_data::scan::{Scan, ScanId, Source};
use bdo_eval::audit::AuditRow;
use bdo_eval::comparison::{SummarySettings, TaskResult, summarise};
use bdo_eval::features::{FeatureTable, ScanRow};
use bdo_eval::method::{Outcome, Prediction};
use bdo_eval::metric::{Metrics, classification, regression};
use bdo_report::kind::Kind;
use bdo_report::network::{RegionValues, network_figures};
use bdo_report::projection::projection_figures;
use bdo_report::reconstruction::{ReconstructedScan, reconstruction_figure, trace_figure};
use bdo_report::report::page_of;
use serde_json::json;

/// Names that stand for people, methods, classes and regions.
pub(crate) struct Names {
    pub(crate) list: Vec<String>,
}

impl Names {
    pub(crate) fn plain() -> Self {
        Self { list: (0..50).map(|i| format!("name-{i:02}")).collect() }
    }

    fn at(&self, i: usize) -> String {
        self.list[i % self.list.len()].clone()
    }
}

pub(crate) fn run_folder(folder: &Path, steps: u64) {
    std::fs::create_dir_all(folder).unwrap();
    let record = json!({
        "identity": {"version": "0.1.0", "cohort_blake3": "c".repeat(64), "seed": 3, "instruction_set": "portable", "settings_blake3": "d".repeat(64),
            "settings": {"model": {"size": "tiny"}, "mask": {"ratio": 0.75, "frames": 160}, "loss": {"tau": 0.03},
                "train": {"batch_size": 8, "clip_norm": 1.0, "learning_rate": 0.001, "learning_rate_start": 0.0001, "learning_rate_end": 0.0001, "data_fraction": 1.0, "held_out_percent": 10}}},
        "cohort": "cohort", "plan": {"total_steps": 200, "steps_per_epoch": 10, "calibration_steps": 0}
    });
    std::fs::write(folder.join("run.json"), record.to_string()).unwrap();
    std::fs::write(folder.join("config.toml"), "[mask]\nratio = 0.75\n").unwrap();
    let learned = json!({"scans": 12, "mask_ratio": 0.75, "model": 0.4, "kriging": 0.5, "untrained": 0.6});
    std::fs::write(folder.join("learned.json"), learned.to_string()).unwrap();
    let mut journal = String::new();
    for step in 0..steps {
        journal += &journal_line(step);
        if step % 20 == 19 {
            let mse = 0.6 - 0.001 * step as f64;
            journal += &(json!({"kind": "validation", "step": step + 1, "mse": mse, "mean_square": 0.65, "explained_variance": 1.0 - mse / 0.65, "scans": 12}).to_string() + "\n");
        }
    }
    journal += "{\"kind\":\"step\",\"st";
    std::fs::write(folder.join("journal.jsonl"), journal).unwrap();
}

/// A run of BrainLM as the version before wrote it: a loss that is one number, no validation.
pub(crate) fn token_run_folder(folder: &Path) {
    run_folder(folder, 0);
    std::fs::remove_file(folder.join("learned.json")).unwrap();
    let record = std::fs::read_to_string(folder.join("run.json")).unwrap();
    std::fs::write(
        folder.join("run.json"),
        record.replace("\"size\":\"tiny\"", "\"size\":\"tiny\",\"kind\":\"brainlm\""),
    )
    .unwrap();
    let line = |step: u64| {
        let entry = json!({"kind": "plain_step", "step": step, "epoch": step / 10, "loss": 0.9 - 0.01 * step as f64, "learning_rate": 1e-3, "gradient_norm": 0.5, "scans_per_second": 4.0, "memory_mib": 200.0});
        entry.to_string() + "\n"
    };
    std::fs::write(folder.join("journal.jsonl"), (0..20).map(line).collect::<String>()).unwrap();
}

pub(crate) fn journal_line(step: u64) -> String {
    let x = step as f64;
    json!({"kind": "step", "step": step, "epoch": step / 10, "loss": {"total": 0.7 - 0.001 * x, "reconstruction": 0.69 - 0.001 * x, "latent": 0.01, "energy": 1e-5},
           "learning_rate": 1e-3 * (1.0 + x).recip(), "gradient_norm": 0.2 + 0.1 * (x * 0.7).sin().abs(), "explained_variance": 0.1, "scans_per_second": 20.0 + (x * 0.3).sin(),
           "memory_mib": 300.0 + x, "skipped": null})
    .to_string()
        + "\n"
}

/// Two labels, three methods, three seeds.
pub(crate) fn compare_folder(folder: &Path, names: &Names) {
    let classes = vec![names.at(0), names.at(1)];
    let mut results = vec![];
    for method in 0..3 {
        for seed in 0..3u64 {
            let noise = |i: usize| ((i * 37 + method * 11 + seed as usize * 5) % 17) as f64 / 17.0;
            for number in [false, true] {
                let people: Vec<Prediction> = (0..30)
                    .map(|i| {
                        let truth = if number { 20.0 + i as f64 } else { (i % 2) as f64 };
                        let p = (0.3 + 0.4 * truth * (method as f64 / 2.0) + 0.3 * noise(i)).clamp(0.01, 0.99);
                        Prediction {
                            subject: names.at(i + 2),
                            truth,
                            predicted: if number {
                                vec![truth + 10.0 * (noise(i) - 0.5) / (method as f64 + 1.0)]
                            } else {
                                vec![1.0 - p, p]
                            },
                        }
                    })
                    .collect();
                let metrics = if number {
                    let (t, p): (Vec<f64>, Vec<f64>) = people.iter().map(|p| (p.truth, p.predicted[0])).unzip();
                    Metrics::Regression(regression(&t, &p, 8.0).unwrap())
                } else {
                    let t: Vec<usize> = people.iter().map(|p| p.truth as usize).collect();
                    let p: Vec<f64> = people.iter().flat_map(|p| p.predicted.clone()).collect();
                    Metrics::Classification(classification(&t, &p, 2).unwrap())
                };
                results.push(TaskResult {
                    method: ["fc".to_owned(), names.at(10), names.at(11)][method].clone(),
                    target: if number { "age".into() } else { names.at(20) },
                    scheme: Scheme::Random,
                    seed,
                    key: format!("{method}{seed}{number}"),
                    split_blake3: format!("split {seed} {number}"),
                    fitted_people: 90,
                    classes: if number { vec![] } else { classes.clone() },
                    label_spread: if number { 8.0 } else { 1.0 },
                    metrics,
                    wall_seconds: 0.5 + method as f64,
                    peak_rss_mib: Some(120.0),
                    own_mib: Some(20.0),
                    frozen_parameters: 0,
                    outcome: Outcome {
                        predictions: people,
                        parameters: 10_usize.pow(method as u32 + 1),
                        fitted_on_blake3: String::new(),
                        chosen: BTreeMap::new(),
                        flags: vec![names.at(30)],
                    },
                });
            }
        }
    }
    let settings = SummarySettings { bootstraps: 50, permutations: 50, ..SummarySettings::default() };
    let audit: Vec<AuditRow> = ["site", "tr_seconds"]
        .iter()
        .map(|n| AuditRow {
            features: names.at(31),
            nuisance: (*n).to_owned(),
            classes: 2,
            tested_people: 30,
            primary: "auc".into(),
            metrics: Some(results[0].metrics),
        })
        .collect();
    let record = json!({"cohort": names.at(32), "cohort_blake3": "e".repeat(64), "splits_blake3": "f".repeat(64), "fit_on": "train", "model": names.at(33), "results": results.len(),
                        "summary": summarise(&results, &settings), "audit": audit, "seconds": 1.5, "peak_rss_mib": 100.0});
    std::fs::create_dir_all(folder.join("results")).unwrap();
    std::fs::write(folder.join("table.json"), record.to_string()).unwrap();
    for (i, result) in results.iter().enumerate() {
        std::fs::write(folder.join("results").join(format!("{i}.json")), serde_json::to_string(result).unwrap())
            .unwrap();
    }
    std::fs::write(folder.join("results/damaged.json"), "{").unwrap();
}

pub(crate) fn sweep_folder(folder: &Path, names: &Names) {
    std::fs::create_dir_all(folder).unwrap();
    let rows: Vec<serde_json::Value> = [0.5, 0.75, 0.9]
        .iter()
        .map(|v| json!({"value": v.to_string(), "steps": 100, "scans": 30, "test_scans": 6, "mse": 0.4 + v / 10.0, "kriging_mse": 0.5, "rho": 0.6 - v / 10.0, "probes": {names.at(40): 0.5 + v / 10.0}}))
        .collect();
    std::fs::write(
        folder.join("table.json"),
        json!({"vary": "mask.ratio", "data": names.at(41), "mask_ratio": 0.75, "rows": rows}).to_string(),
    )
    .unwrap();
}

pub(crate) fn head_folder(folder: &Path, names: &Names) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("result.json"), json!({"version": "0.1.0", "verb": "probe", "target": names.at(42), "settings": {"target": names.at(42)}, "mean": {"mae": 3.2}}).to_string()).unwrap();
    let clean = |i: usize| names.at(i).replace(['\t', '\n', '\r'], " ");
    let rows: Vec<String> = (0..20).map(|i| format!("0\t{}\t{}\t{}\n", clean(i), 20 + i, 21 + i)).collect();
    let rows = rows.concat();
    std::fs::write(folder.join("predictions.tsv"), format!("seed\tsubject\ttruth\tprediction\n{rows}")).unwrap();
}

/// Frames hidden and filled, scored at three shares, with an example.
pub(crate) fn inference_folder(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let row = |missing: f64| {
        json!({"missing": missing, "scans": 5, "model": {"mse": 0.3 + 0.3 * missing, "crps": 0.2, "coverage": [0.5, 0.79, 0.95]},
                                    "others": [["kriging", 0.35 + 0.3 * missing], ["mean", 1.0]]})
    };
    let scores = json!({"verb": "impute", "scores": [row(0.25), row(0.5), row(0.9)]});
    let wave = |k: usize| (0..40).map(|t| (f64::from(t) * 0.3 + k as f64).sin()).collect::<Vec<f64>>();
    let example = json!({"scan": "sub-01", "half_width": 2.0, "regions": ["a", "b", "c"], "times_seconds": (0..40).map(|t| 2.0 * f64::from(t)).collect::<Vec<f64>>(),
                         "truth": [wave(0), wave(1), wave(2)], "mean": [wave(0), wave(1), wave(2)], "sd": vec![vec![0.3; 40]; 3]});
    for (name, value) in [
        ("inference.json", json!({"verb": "impute", "scored": true})),
        ("scores.json", scores),
        ("example.json", example),
    ] {
        std::fs::write(folder.join(name), value.to_string()).unwrap();
    }
}

pub(crate) fn regions(names: &Names) -> Vec<Region> {
    (0..12)
        .map(|i| Region {
            name: format!("{} {i}", names.at(i)),
            network: Some(names.at(100 + i % 3)),
            hemisphere: Some(if i % 2 == 0 { "L" } else { "R" }.into()),
            centroid_mm: Some([if i % 2 == 0 { -30.0 } else { 30.0 }, 10.0 * i as f64 - 60.0, 5.0 * i as f64]),
        })
        .collect()
}

struct Silent;

impl Observer for Silent {
    fn advance(&self, _done: usize, _rejected: usize) {}

    fn stop_requested(&self) -> bool {
        false
    }
}

/// Twenty-four people whose first regions follow a wave.
pub(crate) fn cohort_folder(folder: &Path, names: &Names) {
    let plan = Plan {
        provenance: Provenance::of("test", json!({"note": names.at(5)})),
        atlas_name: names.at(6),
        regions: regions(names),
        items: 24,
        part_bytes: 1 << 20,
    };
    let subject = |i: usize| format!("{}-{i}", names.at(i).replace(['/', '\0'], "_"));
    let scan = |i: usize| Scan {
        id: ScanId { subject: subject(i), session: None, task: None, run: None },
        site: Some(names.at(7 + i % 2)),
        tr_seconds: 2.0,
        frame_times_seconds: (0..30).map(|t| 2.0 * f64::from(t)).collect(),
        series: (0..30 * 12).map(|k| 100.0 + (((k / 12 + i) as f64) * 0.4 + (k % 12) as f64).sin() as f32).collect(),
        framewise_displacement_mm: Some(vec![0.1 + 0.01 * i as f32; 30]),
        coverage: None,
        source: Source { name: names.at(i), ..Source::default() },
    };
    let mut people = Participants::with_columns(["age", "sex", "site"]);
    for i in 0..24 {
        people.insert(
            subject(i),
            vec![
                Some(format!("{}", 20 + i)),
                Some(if i % 2 == 0 { "F" } else { "M" }.into()),
                Some(names.at(7 + i % 2)),
            ],
        );
    }
    let tables = |_: &cohort::BuildReport| Tables { participants: people.clone(), extras: BTreeMap::new() };
    cohort::build(folder, &plan, |i| Ok(scan(i)), tables, &Silent).unwrap();
}

/// A page with every figure there is.
pub(crate) fn everything(folder: &Path, names: &Names) -> String {
    let at = |name: &str| folder.join(name);
    run_folder(&at("run"), 100);
    run_folder(&at("run-2"), 60);
    compare_folder(&at("compare"), names);
    sweep_folder(&at("sweep"), names);
    head_folder(&at("head"), names);
    cohort_folder(&at("cohort"), names);
    inference_folder(&at("filled"));
    std::fs::write(at("bench.json"), json!([{"size": "tiny", "batch": 8, "median_ms": 10.0, "peak_rss_mb": 300.0, "flops_per_step": 1e9}, {"size": "base", "batch": 8, "median_ms": 90.0, "peak_rss_mb": 900.0, "flops_per_step": 2e10}]).to_string()).unwrap();
    let paths: Vec<(PathBuf, Kind)> = ["run", "run-2", "compare", "sweep", "head", "cohort", "filled", "bench.json"]
        .iter()
        .map(|n| (at(n), Kind::of(&at(n)).unwrap()))
        .collect();
    let mut page = page_of(&paths, &format!("bdo report {} --out page.html", names.at(9))).unwrap();
    let regions = regions(names);
    let value = |k: usize| ((k as f64) * 0.37).sin() as f32;
    let scan = ReconstructedScan {
        name: names.at(3),
        frames: (0..40).map(|t| (2.0 * f64::from(t), t % 4 == 0)).collect(),
        region_valid: (0..12).map(|r| r != 5).collect(),
        original: (0..480).map(value).collect(),
        predicted: (0..480).map(|k| 0.8 * value(k)).collect(),
        deviation: Some(vec![0.3; 480]),
    };
    page.section("Through the model");
    page.figure(&reconstruction_figure(&[scan.clone(), scan.clone()], &regions).unwrap());
    page.figure(&trace_figure(&scan, &regions).unwrap());
    let cohort = cohort::Cohort::open(&at("cohort")).unwrap();
    let row = |e: &cohort::IndexEntry| ScanRow { scan: e.id.subject.clone(), ..ScanRow::of(e) };
    let values = (0..24 * 6).map(|k| f64::from(((k * k) as f32 * 0.11).cos())).collect();
    let features = FeatureTable::new(cohort.index().iter().map(row).collect(), 6, values).unwrap();
    for figure in projection_figures(&features, cohort.participants()) {
        page.figure(&figure);
    }
    let found = RegionValues {
        name: "time-constants".into(),
        title: "Time constants".into(),
        caption: format!("Time constants of {}", names.at(4)),
        unit: "s".into(),
        values: (0..12).map(|r| 1.0 + f64::from(r)).collect(),
    };
    for figure in network_figures(&regions, &found) {
        page.figure(&figure);
    }
    page.finish("0.1.0")
}
