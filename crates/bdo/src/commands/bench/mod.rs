//! `bdo bench`: how fast the parts run here, and how far that is from what the machine could do.

mod contestant;
mod efficiency;
mod embed;
mod gemm;
mod infer;
mod ingest;
mod limits;
mod scan;
mod serve;
mod train;
mod workload;

use std::time::Instant;

use serde_json::{Value, json};

use super::{peak_rss_mib, print};
use crate::Outcome;
use crate::cli::{BenchArgs, BenchTask, Common};
use limits::Limits;

pub(crate) fn run(args: &BenchArgs, common: &Common) -> anyhow::Result<Outcome> {
    bdo_kernels::allocator::tune_allocator();
    match args.task {
        BenchTask::Train => step_bench(args, common, train::TrainStep::new(args, common.seed)?),

        BenchTask::Embed => step_bench(args, common, embed::EmbedStep::new(args, common.seed)?),
        BenchTask::Scan => {
            let table = scan::table(args);
            print(common, &json!({"task": "scan", "rows": table.rows}), &table.text);
            Ok(Outcome::Done)
        }
        BenchTask::Infer => infer::run(args, common),
        BenchTask::Efficiency => efficiency::run(args, common),
        BenchTask::Ingest => ingest::run(args, common),
        BenchTask::Gemm => {
            let table = gemm::table();
            print(common, &json!({"task": "gemm", "limits": table.limits, "rows": table.rows}), &table.text);
            Ok(Outcome::Done)
        }
    }
}

/// Something that is timed again and again.
pub(crate) trait Step {
    /// Does the work once.
    fn step(&mut self) -> anyhow::Result<()>;
    /// Floating-point operations of the matrix products in it; a multiply-add counts as two.
    fn flops(&self) -> f64;
    /// What the linear layers compute in.
    fn precision(&self) -> bdo_kernels::Precision;
}

/// Untimed steps before the timed ones: buffers are grown, pages touched.
const WARM_UP: usize = 2;

fn step_bench(args: &BenchArgs, common: &Common, mut work: impl Step) -> anyhow::Result<Outcome> {
    for _ in 0..WARM_UP {
        work.step()?;
    }
    if args.serve {
        serve::serve(&mut work)?;
        return Ok(Outcome::Done);
    }
    let mut laps = Vec::with_capacity(args.steps);
    for _ in 0..args.steps.max(1) {
        let started = Instant::now();
        work.step()?;
        laps.push(started.elapsed().as_secs_f64() * 1e3);
    }
    laps.sort_by(f64::total_cmp);
    let (median, least) = (laps[laps.len() / 2], laps[0]);
    let precision = work.precision();
    let mut json = json!({
        "task": args.task.to_string(), "size": args.size.to_string(), "batch": args.batch, "regions": args.regions,
        "frames": args.frames, "steps": laps.len(), "threads": rayon::current_num_threads(),
        "precision": limits::name(precision), "isa": bdo_kernels::Isa::current().to_string(),
        "median_ms": rounded(median), "min_ms": rounded(least), "flops_per_step": work.flops(),
        "peak_rss_mb": peak_rss_mib().map(rounded),
    });
    let limits = Limits::measure();
    json["gflops"] = rounded(work.flops() / least / 1e6).into();
    json["f32_limit_gflops"] = rounded(limits.f32_gflops).into();
    json["share_of_f32_limit"] = rounded(work.flops() / least / 1e6 / limits.f32_gflops).into();
    json["bf16_limit_gflops"] = limits.bf16_gflops.map_or(Value::Null, |g| rounded(g).into());
    json["share_of_bf16_limit"] =
        limits.bf16_gflops.map_or(Value::Null, |g| rounded(work.flops() / least / 1e6 / g).into());
    let text = format!(
        "{} {}: median {median:.1} ms, best {least:.1} ms of {} steps (batch {}, {} threads, {}, {}); {:.0} GFLOP/s, {:.0} % of the machine's f32 limit of {:.0}",
        args.task,
        args.size,
        laps.len(),
        args.batch,
        rayon::current_num_threads(),
        limits::name(precision),
        bdo_kernels::Isa::current(),
        work.flops() / least / 1e6,
        100.0 * work.flops() / least / 1e6 / limits.f32_gflops,
        limits.f32_gflops
    );
    print(common, &json, &text);
    Ok(Outcome::Done)
}

/// Three digits after the point: more would only be noise.
pub(crate) fn rounded(x: f64) -> f64 {
    (x * 1e3).round() / 1e3
}
