//! `bdo ingest`: scans into a cohort.

use bdo_data::cohort::Cohort;
use bdo_data::confound::{Preset, Scrub};
use bdo_data::durable;
use bdo_data::ingest::{self, Format, IngestOptions, Wishes};
use bdo_report::report::{Kind, Report};
use serde_json::json;

use super::inspect::poorly_covered;
use super::report::quoted;
use super::{note, print};
use crate::Outcome;
use crate::cli::{Common, DenoiseName, FormatName, IngestArgs};
use crate::progress::Progress;

/// How many rejected files are listed on the terminal; all of them are in `rejected.tsv`.
const LISTED: usize = 20;

pub(crate) fn run(args: &IngestArgs, common: &Common) -> anyhow::Result<Outcome> {
    let options = options(args);
    let plan = ingest::plan(&args.source, &options)?;
    for warning in &plan.warnings {
        note(common, warning);
    }
    let progress = Progress::start("ingest", plan.files.len(), common.quiet)?;
    let report = ingest::ingest(&plan, &args.out, &progress);
    progress.finish();
    let report = report?;
    let cohort = Cohort::open(&args.out)?;
    for r in report.rejected.iter().take(LISTED) {
        eprintln!("rejected: {}: {}: expected {}, found {}", r.file, r.reason, r.expected, r.found);
    }
    if report.rejected.len() > LISTED {
        eprintln!(
            "rejected: {} more, all in {}",
            report.rejected.len() - LISTED,
            args.out.join("rejected.tsv").display()
        );
    }
    let poor = poorly_covered(&cohort);
    for entry in &poor {
        note(
            common,
            &format!(
                "{} ({}) is badly covered: {} of {} regions are constant or missing",
                entry.id,
                entry.source,
                entry.invalid_regions,
                cohort.regions().len()
            ),
        );
    }
    let poor: Vec<_> = poor
        .iter()
        .map(|e| json!({"scan": e.id.to_string(), "source": e.source, "invalid_regions": e.invalid_regions}))
        .collect();
    if args.report {
        let name = args.out.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let path = args.out.with_file_name(format!("{name}.html"));
        let paths = [(args.out.clone(), Kind::Cohort)];
        let mut page =
            Report::new(&Report::title(&paths), &format!("bdo report {} --out {}", quoted(&args.out), quoted(&path)));
        page.add(&paths)?;
        durable::write(&path, page.finish(env!("CARGO_PKG_VERSION")).as_bytes())?;
        note(common, &format!("the page about quality is {}", path.display()));
    }
    let json = json!({
        "cohort": args.out, "format": plan.format.name(), "scans": report.scans, "added": report.added,
        "skipped": report.skipped, "subjects": cohort.manifest().subjects, "regions": cohort.regions().len(),
        "badly_covered": poor, "rejected": report.rejected, "warnings": plan.warnings,
    });
    let text = format!(
        "{}: {} scans of {} people, {} regions ({} added, {} there already, {} rejected, {} badly covered)\nNext: bdo inspect {0}",
        args.out.display(),
        report.scans,
        cohort.manifest().subjects,
        cohort.regions().len(),
        report.added,
        report.skipped,
        report.rejected.len(),
        poor.len()
    );
    print(common, &json, &text);
    Ok(if report.rejected.is_empty() { Outcome::Done } else { Outcome::SomeRejected })
}

/// The arguments as typed, resolved into what the library wants.
fn options(args: &IngestArgs) -> IngestOptions {
    let denoise = args.denoise.and_then(|d| match d {
        DenoiseName::None => None,
        DenoiseName::Simple => Some(Preset::Simple),
        DenoiseName::Scrubbing => Some(Preset::Scrubbing),
        DenoiseName::Compcor => Some(Preset::Compcor),
        DenoiseName::IcaAroma => Some(Preset::IcaAroma),
    });
    let scrub = Scrub {
        fd_threshold_mm: args.fd_threshold,
        std_dvars_threshold: args.std_dvars_threshold,
        shortest_segment: args.scrub_segment,
    };
    IngestOptions {
        format: args.format.map(|f| match f {
            FormatName::AbidePcp => Format::AbidePcp,
            FormatName::Bids => Format::Bids,
            FormatName::Cifti => Format::Cifti,
            FormatName::Nifti => Format::Nifti,
            FormatName::Series => Format::Series,
        }),
        labels: args.labels.clone(),
        atlas: args.atlas.clone(),
        mask: args.mask.clone(),
        participants: args.participants.clone(),
        tr_seconds: args.tr,
        drop_volumes: args.drop_volumes,
        shard: args.shard,
        space: args.space.clone(),
        participant_labels: args.participant_label.clone(),
        session_labels: args.session_label.clone(),
        task_ids: args.task_id.clone(),
        wishes: Wishes {
            denoise,
            scrub: (args.scrub || denoise == Some(Preset::Scrubbing)).then_some(scrub),
            band_pass: args.band_pass,
            detrend: args.detrend,
            coverage_threshold: Some(args.coverage_threshold),
        },
        assume_affine: args.assume_affine,
    }
}
