//! `bdo simulate`: a synthetic cohort with known truth.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bdo_data::cohort::{self, Cohort};
use bdo_data::synth::{self, Effects, Generator, PART_MIB, SynthSpec};
use bdo_eval::memory::peak_mib;
use clap::Args;
use serde_json::json;

use crate::answer::Answer;
use crate::cli::Common;
use crate::progress::Progress;

/// Make a synthetic cohort with known dynamics and labels
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bdo simulate cohort --subjects 200 --regions 100 --frames 300 --sites 3")]
pub(crate) struct SimulateArgs {
    /// The cohort to make
    out: PathBuf,
    #[command(flatten)]
    people: People,
    #[command(flatten)]
    scans: Scans,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "People")]
struct People {
    /// People
    #[arg(long, value_name = "N", default_value_t = 100)]
    subjects: usize,
    /// Sites, each with its own repetition time, gain and noise
    #[arg(long, value_name = "N", default_value_t = 3)]
    sites: usize,
    /// Share of labels that are missing
    #[arg(long, value_name = "F", default_value_t = 0.03)]
    missing_labels: f64,
    /// An effect size, e.g. `age_rate=0`; `none` sets all to zero (see docs/simulate.md)
    #[arg(long, value_name = "NAME=SIZE")]
    effect: Vec<String>,
    /// Seed of what all brains have in common; cohorts that share it are samples of one population
    #[arg(long, value_name = "N", default_value_t = 0)]
    population_seed: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Scans")]
struct Scans {
    /// Scans per person
    #[arg(long, value_name = "N", default_value_t = 1)]
    sessions: usize,
    /// Regions: 450 is Schaefer-400 + Tian S3, fewer a balanced subset of it
    #[arg(long, value_name = "N", default_value_t = 450)]
    regions: usize,
    /// Volumes per scan
    #[arg(long, value_name = "N", default_value_t = 490)]
    frames: usize,
    /// Repetition time of the first site in seconds [default: typical ones]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    tr: Option<f64>,
    /// Leave out volumes with more head motion than this (true times are kept)
    #[arg(long, value_name = "MM", num_args = 0..=1, default_missing_value = "0.5")]
    censor: Option<f64>,
    /// Size at which a file of scans is closed, in MiB; a kill costs at most one file of work
    #[arg(long, value_name = "N", default_value_t = PART_MIB, value_parser = clap::value_parser!(u64).range(1..=4096))]
    part_mib: u64,
}

pub(crate) fn run(args: &SimulateArgs, common: &Common) -> anyhow::Result<Answer> {
    let cohort = cohort(spec(args, common.seed)?, &args.out, args.scans.part_mib, common)?;
    let (scans, subjects, regions) = (cohort.len(), cohort.manifest().subjects, cohort.regions().len());
    let json = json!({"cohort": args.out, "scans": scans, "subjects": subjects, "regions": regions,
                      "peak_rss_mib": peak_mib()});
    let text =
        format!("{}: {scans} scans of {subjects} people, {regions} regions\nNext: bdo inspect {0}", args.out.display());
    Ok(Answer::new(json, text))
}

/// The cohort of a specification: the one that is there, or a new one.
pub(crate) fn cohort(spec: SynthSpec, out: &Path, part_mib: u64, common: &Common) -> anyhow::Result<Cohort> {
    let provenance = synth::provenance(&spec, part_mib);
    let generator = Generator::new(spec)?;
    if let Some(cohort) = cohort::existing(out, &provenance)? {
        common.note(format!("{} is already there, made with these settings", out.display()));
        return Ok(cohort);
    }
    if let Some(partial) = cohort::resumable(out, &provenance) {
        common.note(format!("going on with {}", partial.display()));
    }
    let progress = Progress::start("simulate", generator.scan_count(), common)?;
    Ok(synth::simulate(&generator, out, part_mib, &progress)?)
}

fn spec(SimulateArgs { people, scans, .. }: &SimulateArgs, seed: u64) -> anyhow::Result<SynthSpec> {
    let effects = effects(&people.effect)?;
    // Far beyond any scanner, short of what would exhaust the memory of the machine.
    for (name, most, found) in [("regions", 20_000, scans.regions), ("frames", 1_000_000, scans.frames)] {
        if found > most {
            bail!("{name}: expected at most {most}, found {found}");
        }
    }
    if scans.regions * scans.frames > 1 << 28 {
        bail!("regions x frames: expected at most {}, found {}", 1 << 28, scans.regions * scans.frames);
    }
    Ok(SynthSpec {
        subjects: people.subjects,
        regions: scans.regions,
        frames: scans.frames,
        sites: people.sites,
        tr_seconds: scans.tr,
        sessions: scans.sessions,
        seed,
        population_seed: people.population_seed,
        effects,
        missing_label_fraction: people.missing_labels,
        censor_fd_mm: scans.censor,
    })
}

/// The default effects, changed one by one as `NAME=SIZE`; `none` sets all to zero first.
fn effects(changes: &[String]) -> anyhow::Result<Effects> {
    let mut effects = serde_json::to_value(Effects::default())?;
    for change in changes {
        if change == "none" {
            effects = serde_json::to_value(Effects::none())?;
            continue;
        }
        let known = effects.as_object().map(|e| e.keys().cloned().collect::<Vec<_>>().join(", ")).unwrap_or_default();
        let (name, size) =
            change.split_once('=').with_context(|| format!("--effect: expected NAME=SIZE, found {change:?}"))?;
        let size: f64 =
            size.parse().ok().with_context(|| format!("--effect {name}: expected a number, found {size:?}"))?;
        if effects.get(name).is_none() {
            bail!("--effect: expected one of {known}, found {name:?}");
        }
        effects[name] = json!(size);
    }
    Ok(serde_json::from_value(effects)?)
}
