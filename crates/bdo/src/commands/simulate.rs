//! `bdo simulate`: a synthetic cohort with known truth.

use anyhow::{Context, bail};
use bdo_data::cohort::{self, Cohort};
use bdo_data::synth::{Effects, Generator, SynthSpec};
use serde_json::json;

use super::{note, peak_rss_mib, print};
use crate::Outcome;
use crate::cli::{Common, SimulateArgs};
use crate::pipeline::{self, synthetic_provenance};

pub(crate) fn run(args: &SimulateArgs, common: &Common) -> anyhow::Result<Outcome> {
    let spec = spec(args, common.seed)?;
    let generator = Generator::new(spec.clone())?;
    let provenance = synthetic_provenance(&spec, args.part_mib);
    let already = cohort::existing(&args.out, &provenance)?;
    if already.is_some() {
        note(common, &format!("{} is already there, made with these settings", args.out.display()));
    } else {
        if let Some(partial) = cohort::resumable(&args.out, &provenance) {
            note(common, &format!("going on with {}", partial.display()));
        }
        pipeline::simulate(&generator, &args.out, args.part_mib, common.quiet)?;
    }
    let cohort = Cohort::open(&args.out)?;
    let (scans, subjects, regions) = (cohort.len(), cohort.manifest().subjects, cohort.regions().len());
    let json = json!({"cohort": args.out, "scans": scans, "subjects": subjects, "regions": regions,
                      "peak_rss_mib": peak_rss_mib()});
    let text =
        format!("{}: {scans} scans of {subjects} people, {regions} regions\nNext: bdo inspect {0}", args.out.display());
    print(common, &json, &text);
    Ok(Outcome::Done)
}

fn spec(args: &SimulateArgs, seed: u64) -> anyhow::Result<SynthSpec> {
    let effects = effects(&args.effect)?;
    // Far beyond any scanner, short of what would exhaust the memory of the machine.
    for (name, most, found) in [("regions", 20_000, args.regions), ("frames", 1_000_000, args.frames)] {
        if found > most {
            bail!("{name}: expected at most {most}, found {found}");
        }
    }
    if args.regions * args.frames > 1 << 28 {
        bail!("regions x frames: expected at most {}, found {}", 1 << 28, args.regions * args.frames);
    }
    Ok(SynthSpec {
        subjects: args.subjects,
        regions: args.regions,
        frames: args.frames,
        sites: args.sites,
        tr_seconds: args.tr,
        sessions: args.sessions,
        seed,
        population_seed: args.population_seed,
        effects,
        missing_label_fraction: args.missing_labels,
        censor_fd_mm: args.censor,
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
