//! `bdo bench`: how fast the parts run here, and how far that is from what the machine could do.

mod contestant;
mod efficiency;
mod infer;
mod kernels;
mod steps;
pub(crate) mod workload;

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use bdo_data::atlas::image::AtlasImage;
use bdo_data::parcellate::measure_speed;
use bdo_eval::memory::peak_mib;
use bdo_kernels::Precision;
use bdo_model::device::{Traffic, is_cpu, launches, name_of};
use bdo_train::settings::Size;
use burn::tensor::Device;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::args::{Choice, Maybe, one_of, parsed, positive};
use crate::cli::Common;

/// Measure how fast this machine trains, embeds and multiplies
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bdo bench train --size tiny --batch 32\n  bdo bench gemm --json")]
pub(crate) struct BenchArgs {
    /// What to time
    #[arg(value_enum)]
    task: BenchTask,
    #[command(flatten)]
    workload: Workload,
    #[command(flatten)]
    files: Files,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Workload")]
struct Workload {
    /// Size of the model
    #[arg(long, value_parser = one_of::<Size>(), default_value = "tiny")]
    size: Size,
    /// Scans at once
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = positive)]
    batch: usize,
    /// With train: scans of a micro-batch, of which each thread works on one at a time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = positive)]
    micro_batch: usize,
    /// Timed repetitions
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = positive)]
    steps: usize,
    /// Regions of a scan
    #[arg(long, value_name = "N", default_value_t = 450, value_parser = positive)]
    regions: usize,
    /// Frames of a scan
    #[arg(long, value_name = "N", default_value_t = 160, value_parser = positive)]
    frames: usize,
    /// Precision of the linear layers
    #[arg(long, value_parser = one_of::<Maybe<Precision>>(), default_value = "fastest")]
    precision: Maybe<Precision>,
    /// Use the framework's own operations instead of our kernels
    #[arg(long)]
    composed: bool,
    /// Answer lines `step` on stdin with milliseconds, until `quit`
    #[arg(long)]
    serve: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Input and output")]
struct Files {
    /// With efficiency: the cohort whose scans are used
    #[arg(long, value_name = "COHORT")]
    data: Option<PathBuf>,
    /// With efficiency: where table and figure go
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// With ingest: the 4D image
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// With ingest: the label image
    #[arg(long, value_name = "FILE")]
    atlas: Option<PathBuf>,
    /// With efficiency: one model alone, in this process
    #[arg(long, hide = true, requires = "phase")]
    only: Option<String>,
    /// With efficiency: what is measured of it
    #[arg(long, value_enum, hide = true)]
    phase: Option<Phase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BenchTask {
    /// A whole training step: student, teacher, dynamics, decoder, optimiser, moving average
    Train,
    /// Whole scans to features
    Embed,
    /// Moments of the latent process along scans of 100 to 100,000 frames
    Scan,
    /// Matrix products at the model's shapes
    Gemm,
    /// One scan reconstructed with and without its spread, beside embedding it (--frames 490)
    Infer,
    /// BDO, BrainLM and Brain-JEPA side by side: training step, embedding, peak memory (needs --data and --out)
    Efficiency,
    /// A 4D image to region means, beside inflating it alone (needs --image and --atlas)
    Ingest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Phase {
    /// Training steps
    Train,
    /// Features
    Embed,
}

/// Cost of BDO, BrainLM and Brain-JEPA at a size on scans of a cohort, as `bdo bench efficiency` leaves it in a folder.
pub(crate) fn efficiency(size: Size, data: &Path, out: &Path, common: &Common) -> anyhow::Result<()> {
    let mut args: BenchArgs = parsed(["efficiency", "--batch", "8", "--micro-batch", "8", "--steps", "3"]);
    args.workload.size = size;
    (args.files.data, args.files.out) = (Some(data.to_path_buf()), Some(out.to_path_buf()));
    efficiency::run(&args, common).map(|_| ())
}

fn typed(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

pub(crate) fn run(args: &BenchArgs, common: &Common) -> anyhow::Result<Answer> {
    bdo_kernels::allocator::tune_allocator();
    match args.task {
        BenchTask::Train => step_bench(args, common, steps::training(&args.workload, common)?),
        BenchTask::Embed => step_bench(args, common, steps::embedding(&args.workload, common)?),
        BenchTask::Scan => Ok(kernels::scan_bench(&args.workload)),
        BenchTask::Infer => infer::run(&args.workload, common),
        BenchTask::Efficiency => efficiency::run(args, common),
        BenchTask::Ingest => ingest(&args.files),
        BenchTask::Gemm => Ok(kernels::gemm_bench()),
    }
}

/// Something that is timed again and again.
struct Step {
    /// Does it once.
    work: Box<dyn FnMut() -> anyhow::Result<()>>,
    /// Floating-point operations of the matrix products in it; a multiply-add counts as two.
    flops: f64,
    /// Precision of the linear layers.
    precision: Precision,
}

/// Untimed steps before the timed ones: buffers are grown, pages touched.
fn warm_up(mut step: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
    (0..2).try_for_each(|_| step())
}

/// Median and least of the milliseconds of so many steps.
fn laps(steps: usize, mut step: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<(f64, f64)> {
    let mut laps = Vec::with_capacity(steps);
    for _ in 0..steps {
        let started = Instant::now();
        step()?;
        laps.push(started.elapsed().as_secs_f64() * 1e3);
    }
    laps.sort_by(f64::total_cmp);
    Ok((laps[laps.len() / 2], laps[0]))
}

fn step_bench(
    BenchArgs { task, workload: args, .. }: &BenchArgs,
    common: &Common,
    Step { mut work, flops, precision }: Step,
) -> anyhow::Result<Answer> {
    let device = common.place()?;
    warm_up(&mut work)?;
    if args.serve {
        serve(&mut work)?;
        return Ok(Answer::nothing());
    }
    let (median, least) = laps(args.steps, &mut work)?;
    let precision = Some(precision).typed();
    let mut json = json!({
        "task": typed(*task), "size": args.size.typed(), "batch": args.batch, "regions": args.regions,
        "frames": args.frames, "steps": args.steps, "threads": rayon::current_num_threads(),
        "precision": precision, "isa": bdo_kernels::Isa::current().to_string(),
        "median_ms": rounded(median), "min_ms": rounded(least), "flops_per_step": flops,
        "peak_rss_mb": peak_mib().map(rounded), "device": name_of(&device),
    });
    if !is_cpu(&device) {
        // The limits below are those of the processor.
        return counted(json, args, &device, (median, flops), work);
    }
    let ((f32_limit, bf16_limit), gflops) = (kernels::limits(), flops / least / 1e6);
    json["gflops"] = rounded(gflops).into();
    json["f32_limit_gflops"] = rounded(f32_limit).into();
    json["share_of_f32_limit"] = rounded(gflops / f32_limit).into();
    json["bf16_limit_gflops"] = json!(bf16_limit.map(rounded));
    json["share_of_bf16_limit"] = json!(bf16_limit.map(|limit| rounded(gflops / limit)));
    let text = format!(
        "{} {}: median {median:.1} ms, best {least:.1} ms of {} steps (batch {}, {} threads, {}, {}); {:.0} GFLOP/s, {:.0} % of the machine's f32 limit of {f32_limit:.0}",
        typed(*task),
        args.size.typed(),
        args.steps,
        args.batch,
        rayon::current_num_threads(),
        precision,
        bdo_kernels::Isa::current(),
        gflops,
        100.0 * gflops / f32_limit
    );
    Ok(Answer::new(json, text))
}

/// Answers every line `step` on stdin with the milliseconds of one step, until `quit` or the end, so that two programs can be timed
/// in turns on a noisy machine.
fn serve(work: &mut impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
    writeln!(std::io::stderr(), "ready")?;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        match line?.trim() {
            "step" => {
                let started = Instant::now();
                work()?;
                writeln!(out, "{:.3}", started.elapsed().as_secs_f64() * 1e3)?;
                out.flush()?;
            }
            "quit" => break,
            _ => {}
        }
    }
    Ok(())
}

/// What a step does on a device that is not the CPU: kernels, and bytes between it and the host.
fn counted(
    mut json: Value,
    args: &Workload,
    device: &Device,
    (median, flops): (f64, f64),
    work: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Answer> {
    let before = Traffic::so_far();
    let (done, launches) = launches(work);
    done?;
    let moved = Traffic::so_far().since(before);
    json["gflops"] = rounded(flops / median / 1e6).into();
    json["launches_per_step"] = launches.into();
    json["transfers_per_step"] = json!(moved);
    let text = format!(
        "{} {} on {}: median {median:.1} ms of {} steps (batch {}); {launches} kernels per step, {} uploads of {:.2} MB, {} read back \
         of {} bytes",
        json["task"].as_str().unwrap_or_default(),
        args.size.typed(),
        name_of(device),
        args.steps,
        args.batch,
        moved.uploads,
        moved.uploaded_bytes as f64 / 1e6,
        moved.downloads,
        moved.downloaded_bytes
    );
    Ok(Answer::new(json, text))
}

/// A 4D image to region means, beside inflating it alone: what the reading costs over the unavoidable.
fn ingest(args: &Files) -> anyhow::Result<Answer> {
    let image = args.image.as_ref().context("bench ingest: expected --image with a 4D image, found none")?;
    let atlas = args.atlas.as_ref().context("bench ingest: expected --atlas with a label image, found none")?;
    let atlas = AtlasImage::read(atlas, None)?;
    let mut measured = serde_json::to_value(measure_speed(image, &atlas)?)?;
    measured["peak_rss_mb"] = json!(peak_mib());
    let text = format!(
        "{}: {} s by the clock and {} s of the processor; inflating alone takes {} s and {} s; peak {} MB",
        image.display(),
        measured["masker_wall_s"],
        measured["masker_cpu_s"],
        measured["inflate_wall_s"],
        measured["inflate_cpu_s"],
        measured["peak_rss_mb"]
    );
    Ok(Answer::new(measured, text))
}

/// Three digits after the point: more would only be noise.
pub(crate) fn rounded(x: f64) -> f64 {
    (x * 1e3).round() / 1e3
}
