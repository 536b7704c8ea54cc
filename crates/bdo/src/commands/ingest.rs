//! `bdo ingest`: scans into a cohort.

use std::path::PathBuf;

use anyhow::bail;
use bdo_data::bids::Selection;
use bdo_data::clean::{self, Band};
use bdo_data::cohort::{Cohort, CohortError, Rejection};
use bdo_data::confound::{Expansion, Preset, Scrub, Strategy};
use bdo_data::ingest::{self, Format, IngestError, IngestOptions, IngestPlan, Recipe};
use bdo_data::pattern::Pattern;
use bdo_data::shard::Shard;
use bdo_report::kind::Kind;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::inspect::{covered_json, poorly_covered};
use super::report::write_page;
use crate::answer::Answer;
use crate::args::{Maybe, above_zero, one_of, shard};
use crate::cli::Common;
use crate::progress::Progress;

/// Read scans into a cohort
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bdo ingest derivatives/fmriprep cohort participant --participant-label 01 02 --atlas atlas_dseg.nii.gz --denoise simple\n  bdo ingest derivatives/xcp_d cohort --atlas 4S456Parcels\n  bdo ingest abide/ abide-cohort --format abide-pcp\n  bdo ingest study/ cohort --manifest scans.tsv --atlas atlas_dseg.nii.gz\n  bdo ingest hcp/timeseries hcp-cohort --format series --tr 0.72 --labels hcp/region_names.txt"
)]
pub(crate) struct IngestArgs {
    /// Folder with the scans
    source: PathBuf,
    /// The cohort to make, or to add to
    out: PathBuf,
    /// Level of analysis, as BIDS-Apps want it; changes nothing
    #[arg(value_enum)]
    level: Option<Level>,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    cleaning: Cleaning,
    /// Also write a page about the quality of the cohort, beside it as OUT.html
    #[arg(long, help_heading = "Output")]
    report: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
struct Input {
    /// Layout of the source [default: recognised]
    #[arg(long, value_parser = one_of::<Format>())]
    format: Option<Format>,
    /// Label image (.nii, .nii.gz) or .dlabel.nii; for tables in several parcellations, the name of one
    #[arg(long, value_name = "FILE")]
    atlas: Option<PathBuf>,
    /// Region names: one per line, a table with a `name` column, or FSL-style label text
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Brain mask for images without one of their own
    #[arg(long, value_name = "FILE")]
    mask: Option<PathBuf>,
    /// Space of the images, e.g. `MNI152NLin6Asym` or `MNI152NLin6Asym:res-2` [default: the atlas']
    #[arg(long, value_name = "NAME")]
    space: Option<String>,
    /// Only these people
    #[arg(long, value_name = "LABEL", num_args = 1..)]
    participant_label: Vec<String>,
    /// Only these sessions
    #[arg(long, value_name = "LABEL", num_args = 1..)]
    session_label: Vec<String>,
    /// Only these tasks
    #[arg(long, value_name = "LABEL", num_args = 1..)]
    task_id: Vec<String>,
    /// Table of the people [default: found beside the scans]
    #[arg(long, value_name = "FILE")]
    participants: Option<PathBuf>,
    /// Table that names the scans of any layout: path, subject, and where wanted session, task, run, tr, site
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Only files like this, e.g. `*_hp2000_clean.dtseries.nii`, where a scan is there in several versions
    #[arg(long, value_name = "GLOB")]
    pattern: Option<String>,
    /// The desc entity of BIDS derivatives, where a scan is there in several versions, e.g. denoised
    #[arg(long, value_name = "LABEL")]
    desc: Option<String>,
    /// Repetition time in seconds; decides where sidecar and header disagree or say nothing
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    tr: Option<f64>,
    /// Take an image whose header has no affine as centred on the origin
    #[arg(long)]
    assume_affine: bool,
    /// Only part I of N of the scans; auto for the task of a Slurm array
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<Shard>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Cleaning")]
struct Cleaning {
    /// Volumes to drop from the start [default: 10 for images and ABIDE, 0 for parcels and other series]
    #[arg(long, value_name = "N")]
    drop_volumes: Option<usize>,
    /// Confounds of fMRIPrep to regress out, with a linear trend
    #[arg(long, value_name = "PRESET", value_parser = one_of::<Maybe<Preset>>(), default_value = "none")]
    denoise: Maybe<Preset>,
    /// Also regress out the mean signal of the brain, with these terms
    #[arg(long, value_name = "TERMS", value_parser = one_of::<Expansion>())]
    global_signal: Option<Expansion>,
    /// With `compcor`: at most so many components per mask [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    n_compcor: Option<u16>,
    /// Also, or only, regress out these columns of the confound table; `cosine*` is all whose names begin so
    #[arg(long, value_name = "COLUMN,COLUMN", value_delimiter = ',')]
    confounds: Vec<String>,
    /// Leave out volumes of high motion; true times are kept, nothing is interpolated
    #[arg(long)]
    scrub: bool,
    /// With scrubbing: framewise displacement above which a volume goes [default: 0.5]
    #[arg(long, value_name = "MM", value_parser = above_zero)]
    fd_threshold: Option<f64>,
    /// With scrubbing: standardised DVARS above which a volume goes [default: 1.5]
    #[arg(long, value_name = "X", value_parser = above_zero)]
    std_dvars_threshold: Option<f64>,
    /// With scrubbing: stretches of fewer volumes than this go too [default: 5]
    #[arg(long, value_name = "N")]
    scrub_segment: Option<usize>,
    /// Butterworth band-pass in Hz, e.g. 0.01,0.1 (either side may be empty), with a linear trend taken out [default: off]
    #[arg(long, value_name = "LOW,HIGH", value_parser = band)]
    band_pass: Option<Band>,
    /// Take out a linear trend, or do not [default: with --denoise or --band-pass]
    #[arg(long, value_name = "BOOL")]
    detrend: Option<bool>,
    /// A region with a smaller share of its voxels in image and mask, with a finite signal, is missing (NaN)
    #[arg(long, value_name = "F", default_value_t = 0.5, value_parser = share)]
    coverage_threshold: f64,
    /// A scan with a smaller share of regions that have a signal is rejected
    #[arg(long, value_name = "F", default_value_t = 0.5, value_parser = share)]
    min_regions: f64,
}

/// Levels of analysis, as BIDS-Apps name them.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Level {
    /// Scans into a cohort
    Participant,
}

/// How many rejected files are listed on the terminal; all of them are in `rejected.tsv`.
const LISTED: usize = 20;

pub(crate) fn run(args: &IngestArgs, common: &Common) -> anyhow::Result<Answer> {
    let options = options(args)?;
    let plan = ingest::plan(&args.source, &options)?;
    for warning in &plan.warnings {
        common.note(warning);
    }
    let report = ingest::ingest(&plan, &args.out, &Progress::start("ingest", plan.files.len(), common)?);
    let report = match report {
        Err(IngestError::Cohort(CohortError::Empty { rejected })) => {
            return nothing_good(args, &plan, &rejected, common);
        }
        other => other?,
    };
    let cohort = Cohort::open(&args.out)?;
    say_rejected(&report.rejected, args, common);
    for sentence in &report.notes {
        common.note(sentence);
    }
    if report.relabelled > 0 {
        common.note(format!(
            "labels of {} people are taken from the participants table, which has changed",
            report.relabelled
        ));
    }
    let poor = poorly_covered(&cohort);
    for entry in &poor {
        common.note(format!(
            "{} ({}) is badly covered: {} of {} regions are constant or missing",
            entry.id,
            entry.source,
            entry.invalid_regions,
            cohort.regions().len()
        ));
    }
    if args.report {
        let name = args.out.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let path = args.out.with_file_name(format!("{name}.html"));
        write_page(&args.out, Kind::Cohort, None, &path)?;
        common.note(format!("the page about quality is {}", path.display()));
    }
    let json = json!({
        "cohort": args.out, "format": plan.format.name(), "scans": report.scans, "added": report.added,
        "skipped": report.skipped, "subjects": cohort.manifest().subjects, "regions": cohort.regions().len(),
        "badly_covered": covered_json(&poor), "rejected": report.rejected, "relabelled": report.relabelled,
        "degrees_of_freedom": report.degrees_of_freedom.map(|f| json!({"least": f.least, "most": f.most})),
        "warnings": plan.warnings.iter().chain(&report.notes).collect::<Vec<_>>(),
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
    Ok(Answer::new(json, text).rejected(!report.rejected.is_empty()))
}

/// The first of the rejected files; all of them are in `rejected.tsv`.
fn say_rejected(rejected: &[Rejection], args: &IngestArgs, common: &Common) {
    for r in rejected.iter().take(LISTED) {
        common.complain(format!("rejected: {}: {}: expected {}, found {}", r.file, r.reason, r.expected, r.found));
    }
    if rejected.len() > LISTED {
        let (more, file) = (rejected.len() - LISTED, args.out.join("rejected.tsv"));
        common.complain(format!("rejected: {more} more, all in {}", file.display()));
    }
}

/// Everything was rejected: every reason is said, also as JSON, and there is no cohort.
fn nothing_good(
    args: &IngestArgs,
    plan: &IngestPlan,
    rejected: &[Rejection],
    common: &Common,
) -> anyhow::Result<Answer> {
    say_rejected(rejected, args, common);
    if common.json {
        let json = json!({
            "cohort": null, "format": plan.format.name(), "scans": 0, "added": 0, "skipped": 0, "subjects": 0,
            "regions": plan.regions.len(), "rejected": rejected, "warnings": plan.warnings,
        });
        Answer::new(json, "").print(common)?;
    }
    let file = args.out.join("rejected.tsv");
    bail!(
        "expected at least one scan, found {} that were rejected; every reason is in {}",
        rejected.len(),
        file.display()
    )
}

/// The arguments as typed, resolved into what the library wants.
fn options(IngestArgs { input, cleaning, .. }: &IngestArgs) -> anyhow::Result<IngestOptions> {
    let denoise = cleaning.denoise;
    let scrubs = cleaning.scrub || denoise == Some(Preset::Scrubbing);
    let given = [
        ("--fd-threshold", cleaning.fd_threshold.is_some()),
        ("--std-dvars-threshold", cleaning.std_dvars_threshold.is_some()),
        ("--scrub-segment", cleaning.scrub_segment.is_some()),
    ];
    if let Some((flag, _)) = given.iter().find(|(_, is)| *is && !scrubs) {
        bail!(
            "{flag}: expected scrubbing, found none, so that it does nothing; hint: add --scrub or --denoise scrubbing"
        );
    }
    let usual = Scrub::default();
    let scrub = Scrub {
        fd_threshold_mm: cleaning.fd_threshold.unwrap_or(usual.fd_threshold_mm),
        std_dvars_threshold: cleaning.std_dvars_threshold.unwrap_or(usual.std_dvars_threshold),
        shortest_segment: cleaning.scrub_segment.unwrap_or(usual.shortest_segment),
    };
    if cleaning.n_compcor.is_some() && cleaning.denoise != Some(Preset::Compcor) {
        bail!("--n-compcor: expected --denoise compcor, found another preset or none");
    }
    if let Some(empty) = cleaning.confounds.iter().find(|c| c.trim().is_empty()) {
        bail!("--confounds: expected names of columns, found {empty:?}");
    }
    let regresses = denoise.is_some() || cleaning.global_signal.is_some() || !cleaning.confounds.is_empty();
    let preset = denoise.map_or_else(Strategy::nothing, Preset::strategy);
    let strategy = Strategy {
        global_signal: cleaning.global_signal.or(preset.global_signal),
        n_compcor: cleaning.n_compcor.map(usize::from),
        columns: cleaning.confounds.iter().map(|c| c.trim().to_owned()).collect(),
        scrub: scrubs.then_some(scrub),
        ..preset
    };
    Ok(IngestOptions {
        format: input.format,
        labels: input.labels.clone(),
        atlas: input.atlas.clone(),
        mask: input.mask.clone(),
        participants: input.participants.clone(),
        manifest: input.manifest.clone(),
        selection: Selection {
            participants: input.participant_label.clone(),
            sessions: input.session_label.clone(),
            tasks: input.task_id.clone(),
            desc: input.desc.as_deref().map(|d| d.strip_prefix("desc-").unwrap_or(d).to_owned()),
            pattern: input.pattern.as_deref().map(Pattern::new),
        },
        tr_seconds: input.tr,
        drop_volumes: cleaning.drop_volumes,
        shard: input.shard,
        space: input.space.clone(),
        recipe: Recipe {
            denoise: (regresses || scrubs).then_some(strategy),
            cleaning: clean::Cleaning {
                detrend: cleaning.detrend.unwrap_or(regresses || cleaning.band_pass.is_some()),
                band_pass: cleaning.band_pass,
            },
            coverage_threshold: cleaning.coverage_threshold,
            least_regions: cleaning.min_regions,
            ..Recipe::default()
        },
        assume_affine: input.assume_affine,
    })
}

fn band(text: &str) -> Result<Band, String> {
    let malformed = || "expected LOW,HIGH in Hz, for example 0.01,0.1 or 0.01, or ,0.1".to_owned();
    let limit = |text: &str| match text.trim() {
        "" => Ok(None),
        number => number.parse::<f64>().ok().filter(|hz| hz.is_finite() && *hz > 0.0).map(Some).ok_or_else(malformed),
    };
    let (low, high) = text.split_once(',').ok_or_else(malformed)?;
    let band = Band { high_pass_hz: limit(low)?, low_pass_hz: limit(high)? };
    match band {
        Band { high_pass_hz: None, low_pass_hz: None } => Err(malformed()),
        Band { high_pass_hz: Some(low), low_pass_hz: Some(high) } if low >= high => Err(malformed()),
        band => Ok(band),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let parsed = text.parse::<f64>().ok().filter(|x| (0.0..=1.0).contains(x));
    parsed.ok_or_else(|| "expected a share from 0 to 1".to_owned())
}
