//! Training and embedding of BDO, BrainLM and Brain-JEPA side by side: time, memory, tokens and operations at equal width, on
//! the same scans. Memory is that of a process, so every model and phase gets a process of its own.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use bdo_data::durable;
use bdo_eval::memory::{forget_peak, peak_mib};
use bdo_report::bench::efficiency_drawing;
use serde_json::{Value, json};

use super::contestant::Contestant;
use super::{BenchArgs, Phase, Workload, laps, rounded, typed, warm_up};
use crate::answer::Answer;
use crate::args::Choice;
use crate::cli::Common;
use crate::commands::report::ReportArgs;

/// Who is compared, in the order of the table.
const MODELS: [(&str, &str); 3] = [("bdo", "BDO"), ("brainlm", "BrainLM"), ("brainjepa", "Brain-JEPA")];

pub(super) fn run(BenchArgs { workload: args, files, .. }: &BenchArgs, common: &Common) -> anyhow::Result<Answer> {
    let data = files.data.as_deref().context("--data: expected a cohort for this benchmark, found none")?;
    if let Some((model, phase)) = files.only.as_ref().zip(files.phase) {
        return measure(args, data, model, phase, common.seed);
    }
    let out = files.out.as_deref().context("--out: expected a folder for table and figure, found none")?;
    let mut rows = Vec::new();
    for (name, title) in MODELS {
        common.note(format!("{title}: training, then embedding"));
        let train = child(args, data, name, Phase::Train, common)?;
        let embed = child(args, data, name, Phase::Embed, common)?;
        rows.push(json!({
            "model": name, "title": title, "parameters": train["parameters"], "tokens": train["tokens"],
            "visible_tokens": train["visible_tokens"], "train_flops_per_scan": train["flops_per_scan"],
            "embed_flops_per_scan": embed["flops_per_scan"], "train_step_ms": train["median_ms"],
            "train_step_least_ms": train["least_ms"], "train_peak_mib": train["peak_mib"],
            "embed_ms_per_scan": rounded(embed["median_ms"].as_f64().unwrap_or(f64::NAN) / args.batch as f64),
            "embed_peak_mib": embed["peak_mib"], "regions": train["regions"], "frames": train["frames"],
            "threads": train["threads"], "train_resting_mib": train["resting_mib"],
            "embed_resting_mib": embed["resting_mib"],
        }));
    }
    let json = json!({
        "task": "efficiency", "data": data, "size": args.size.typed(), "batch": args.batch, "steps": args.steps,
        "regions": rows[0]["regions"], "frames": rows[0]["frames"], "threads": rows[0]["threads"],
        "isa": bdo_kernels::Isa::current().to_string(), "rows": rows,
    });
    let markdown = table(args, &rows);
    durable::create_folder(out)?;
    durable::write(&out.join("efficiency.md"), markdown.as_bytes())?;
    durable::write_json(&out.join("efficiency.json"), &json)?;
    durable::write(&out.join("efficiency.svg"), efficiency_drawing(&json).as_bytes())?;
    let page = ReportArgs::new(&[&out.join("efficiency.json")], None, Path::new("page.html")).command();
    common.note(format!("efficiency.svg is the figure; as a page that also saves it as PNG: {page}"));
    Ok(Answer::new(json, markdown))
}

/// One model in one phase, in this process.
fn measure(args: &Workload, data: &Path, model: &str, phase: Phase, seed: u64) -> anyhow::Result<Answer> {
    let Contestant { facts, mut work } = Contestant::new(args, data, model, phase, seed)?;
    // Reading the cohort takes more than small models do, and is the same for all.
    forget_peak();
    let resting = peak_mib();
    warm_up(&mut work)?;
    let (median, least) = laps(args.steps, &mut work)?;
    let json = json!({
        "model": model, "parameters": facts.parameters, "tokens": facts.tokens, "visible_tokens": facts.visible_tokens,
        "flops_per_scan": facts.flops_per_scan, "regions": facts.regions, "frames": facts.frames,
        "median_ms": rounded(median), "least_ms": rounded(least),
        "resting_mib": resting.map(rounded), "peak_mib": peak_mib().map(rounded),
        "threads": rayon::current_num_threads(),
    });
    let text = json.to_string();
    Ok(Answer::new(json, text))
}

/// The same in a process of its own.
fn child(args: &Workload, data: &Path, model: &str, phase: Phase, common: &Common) -> anyhow::Result<Value> {
    let program = std::env::current_exe().context("cannot find this program to start it again")?;
    let mut command = Command::new(program);
    command.args(["bench", "efficiency", "--json", "--only", model, "--data"]).arg(data);
    command.args(["--phase", &typed(phase), "--size", args.size.typed()]);
    command.args(["--batch", &args.batch.to_string(), "--steps", &args.steps.to_string()]);
    command.args(["--seed", &common.seed.to_string()]);
    if let Some(threads) = common.threads {
        command.args(["--threads", &threads.to_string()]);
    }
    let output = command.stderr(Stdio::inherit()).output().context("cannot start this program again")?;
    if !output.status.success() {
        bail!("{model}: the process that measured {} ended with {}", typed(phase), output.status);
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("{model}: expected one line of JSON"))
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or(f64::NAN)
}

fn table(args: &Workload, rows: &[Value]) -> String {
    let first = &rows[0];
    let mut text = format!(
        "### Cost at equal width ({}, {} regions, {} frames per scan, batch {}, {} threads)\n\n\
         | model | parameters | tokens per scan | GFLOP per scan, training | GFLOP per scan, embedding | training step, ms | \
         embedding, ms per scan | peak memory training, MiB | peak memory embedding, MiB |\n|---|{}\n",
        args.size.typed(),
        first["regions"],
        first["frames"],
        args.batch,
        first["threads"],
        "---|".repeat(8)
    );
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} ({:.0} visible) | {:.2} | {:.2} | {:.1} | {:.2} | {:.0} | {:.0} |",
            row["title"].as_str().unwrap_or_default(),
            row["parameters"],
            row["tokens"],
            number(row, "visible_tokens"),
            number(row, "train_flops_per_scan") / 1e9,
            number(row, "embed_flops_per_scan") / 1e9,
            number(row, "train_step_ms"),
            number(row, "embed_ms_per_scan"),
            number(row, "train_peak_mib"),
            number(row, "embed_peak_mib")
        );
    }
    let times = |row: &Value, key: &str| format!("{:.1}", number(row, key) / number(first, key));
    for row in &rows[1..] {
        let _ = writeln!(
            text,
            "\n{} against BDO: {} x the training step, {} x the embedding, {} x the peak memory of training.",
            row["title"].as_str().unwrap_or_default(),
            times(row, "train_step_ms"),
            times(row, "embed_ms_per_scan"),
            times(row, "train_peak_mib")
        );
    }
    text += "\nMedian of the timed steps; memory is the most the process of a model held during its steps, program and scans included. \
             Operations are those of matrix products, a multiply-add counted as two.\n";
    text
}
