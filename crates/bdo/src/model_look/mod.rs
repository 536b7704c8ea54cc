//! A cohort seen through a model, as plain numbers for figures.

mod drive;

use std::path::Path;

use anyhow::bail;
use bdo_data::cohort::Cohort;
use bdo_data::random::stream;
use bdo_data::region::Region;
use bdo_data::scan::Scan;
use bdo_data::shard::spread;
use bdo_eval::cache::cached_features;
use bdo_eval::features::FeatureTable;
use bdo_model::frozen::FrozenModel;
use bdo_model::intake::{Intake, MaskSettings, Timing, Windows};
use bdo_model::pooling::Pooling;
use bdo_model::posterior::engine::Engine;
use bdo_model::posterior::rows::Rows;
use bdo_model::posterior::spread::{Uncertainty, decoded_variance};
use bdo_report::chart::{Axis, Chart, Marks, Point};
use bdo_report::figure::Figure;
use bdo_report::network::{NO_COORDINATES, RegionValues, network_figures};
use bdo_report::page::{Citation, Page};
use bdo_report::palette::Colour;
use bdo_report::projection::projection_figures;
use bdo_report::reconstruction::{ReconstructedScan, reconstruction_figure, trace_figure};

use crate::cli::Common;
use crate::progress::Progress;
use drive::Drive;

/// Draws of the state from which deviations are estimated: their own relative error is 1 / sqrt(2 * 128), 6 %.
const DRAWS: usize = 128;
/// Scans over which control and time constants are averaged.
const DRIVEN_SCANS: usize = 20;

/// Reconstructions, features and dynamics of a cohort under a model.
pub(crate) struct Look {
    /// The model's regions, with what the cohort knows of them.
    regions: Vec<Region>,
    scans: Vec<ReconstructedScan>,
    /// Whether the model has never seen the people of those scans.
    unseen: bool,
    features: FeatureTable,
    drive: Drive,
    driven_scans: usize,
    /// Units of the decoder's output.
    unit: &'static str,
    windows: Windows,
}

impl Look {
    /// Reconstructs a few scans, embeds all, and looks at what drives a few more.
    pub(crate) fn through(
        folder: &Path,
        cohort: &Cohort,
        count: usize,
        common: &Common,
        cache: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let frozen = FrozenModel::read_on(folder, &common.place()?)?;
        let intake = Intake::new(&frozen.contract, cohort)?;
        let regions: Vec<Region> = intake.columns().iter().map(|c| cohort.regions()[*c].clone()).collect();
        let notes = frozen.notes.as_ref();
        let mask = notes.as_ref().map_or_else(MaskSettings::default, |n| n.mask.at_ratio(n.mask.ratio));
        let index = cohort.index();
        let usable = |i: &usize| index[*i].frames >= 4;
        let known = frozen.people.known_in(cohort);
        let validated = |subject: &str| notes.as_ref().is_some_and(|n| known.is_listed(&n.validation_people, subject));
        let is_unseen = |i: &usize| {
            let subject = index[*i].id.subject.as_str();
            !known.is_trained(subject) && !validated(subject)
        };
        let all: Vec<usize> = (0..cohort.len()).filter(usable).collect();
        let mut shown: Vec<usize> = all.iter().copied().filter(is_unseen).collect();
        let unseen = !shown.is_empty();
        if !unseen {
            shown.clone_from(&all);
        }
        if shown.is_empty() {
            bail!("{}: expected scans of at least 4 frames, found none", cohort.folder().display());
        }
        let shown = spread(&shown, count);
        let mut scans = vec![];
        let engine = Engine::new(&frozen);
        for (n, i) in shown.iter().enumerate() {
            // Deviations cost many passes through the decoder; traces are drawn of one scan.
            scans.extend(reconstructed(&engine, &intake, &cohort.scan(*i)?, &mask, (common.seed, *i), n == 0)?);
        }
        let driven = spread(&all, DRIVEN_SCANS);
        let drive = Drive::of(&engine, cohort, &driven)?;
        let progress = Progress::start("embed", cohort.len(), common)?;
        let features = match cache {
            Some(folder) => cached_features(folder, &frozen, cohort, Pooling::Mean, &progress)?,
            None => FeatureTable::embed(&frozen, cohort, Pooling::Mean, &progress)?,
        };
        let unit = if frozen.model.config().unit_input { "scan sizes" } else { "inter-quartile ranges" };
        Ok(Self { regions, scans, unseen, features, drive, driven_scans: driven.len(), unit, windows: frozen.windows })
    }
}

/// Centred on visible frames and scaled as in evaluation; `None` if no region carries a signal the model knows.
fn reconstructed(
    engine: &Engine<'_>,
    intake: &Intake,
    scan: &Scan,
    mask: &MaskSettings,
    (seed, number): (u64, usize),
    with_deviation: bool,
) -> anyhow::Result<Option<ReconstructedScan>> {
    let mut rng = stream("report visit", &[seed, number as u64]);
    let Some(visit) = intake.draw(scan, Timing::AsScanned, mask, &mut rng) else {
        return Ok(None);
    };
    let (mut predicted, mut deviation) = (Vec::new(), with_deviation.then(Vec::new));
    engine.infer(&Rows::of_masked(&visit), |piece| -> anyhow::Result<()> {
        if let Some(deviation) = &mut deviation {
            let how = Uncertainty::Sampled { draws: DRAWS };
            let variance = decoded_variance(engine, &piece, how, &[seed, number as u64]);
            deviation.extend(variance.iter().map(|v| v.sqrt()));
        }
        predicted.extend(piece.decoded);
        Ok(())
    })?;
    let start = visit.times_seconds.first().copied().unwrap_or(0.0);
    Ok(Some(ReconstructedScan {
        name: scan.id.to_string(),
        frames: visit.times_seconds.iter().map(|t| t - start).zip(visit.context).collect(),
        region_valid: visit.region_valid,
        original: visit.values,
        predicted,
        deviation,
    }))
}

/// Adds the sections of a model and a cohort to a page.
pub(crate) fn show_look(look: &Look, cohort: &Cohort, page: &mut Page) {
    show_reconstructions(look, page);
    show_features(look, cohort, page);
    show_control(look, page);
}

pub(crate) fn show_reconstructions(look: &Look, page: &mut Page) {
    page.section("Hidden frames and their reconstruction");
    if look.unseen {
        page.paragraph("These people were neither trained on nor validated with.");
    } else {
        page.missing(
            "Everybody in this cohort was trained on or validated with, so these reconstructions are better than on new people.",
            "",
        );
    }
    let figures = [
        reconstruction_figure(&look.scans, &look.regions),
        look.scans.first().and_then(|scan| trace_figure(scan, &look.regions)),
    ];
    for figure in figures.iter().flatten() {
        page.figure(figure);
    }
}

pub(crate) fn show_features(look: &Look, cohort: &Cohort, page: &mut Page) {
    page.section("Features").figures(
        &projection_figures(&look.features, cohort.participants()),
        "There are too few scans, or features that do not differ, so nothing can be projected.",
        "",
    );
    page.say(format!("Universal features are the mean over frames of the control, nothing hidden; scans of more than {} frames are encoded in windows of {} frames. They were projected by principal components and by UMAP (15 neighbours, least distance 0.1, 300 passes, fixed seed).", look.windows.longest_whole, look.windows.frames), &[Citation::Bdo, Citation::Umap]);
}

fn show_control(look: &Look, page: &mut Page) {
    page.section("Control and time constants").figure(&energy_figure(&look.drive));
    let values = [
        RegionValues {
            name: "control-drive".into(),
            title: "Control energy".into(),
            caption: format!(
                "Root mean square of how fast the control alone would move each region, over all frames of {} scans: the control in the coordinates of the state, carried through the slope of the decoder at each frame.",
                look.driven_scans
            ),
            unit: format!("{} / s", look.unit),
            values: look.drive.region_rms.clone(),
        },
        RegionValues {
            name: "time-constants".into(),
            title: "Time constants".into(),
            caption: format!(
                "Mean time constant (1 / decay rate) of the latent modes, weighted by how much each mode's movement moves the region, over {} scans.",
                look.driven_scans
            ),
            unit: "time constant (s)".into(),
            values: look.drive.region_time_constant_seconds.clone(),
        },
    ];
    let figures: Vec<Figure> = values.iter().flat_map(|found| network_figures(&look.regions, found)).collect();
    for figure in &figures {
        page.figure(figure);
    }
    if !figures.iter().any(|figure| figure.name.ends_with("brain")) {
        page.missing(NO_COORDINATES, "bdo ingest SOURCE OUT --atlas FILE");
    }
    page.say("Control energy and time constants of a region follow from the slope of the decoder: J = W2 diag(gate) W1 V. The drive of a region is J alpha; its time constant the mean of 1 / Lambda_k with weights (mean J_rk)^2 Var(m_k).", &[Citation::Bdo]);
}

fn energy_figure(drive: &Drive) -> Figure {
    let mut chart = Chart::new("", Axis::linear("time (s)"), Axis::log("squared norm of the control (log scale)"))
        .sized(700.0, 320.0);
    for (i, (name, curve)) in drive.energy.iter().take(5).enumerate() {
        let points = curve.iter().map(|(t, e)| Point::at(*t, *e)).collect();
        chart = chart.with(name, Colour::Kind(i), Marks::Line, points);
    }
    Figure::of_charts(
        "control-energy",
        "Control energy along scans",
        "Squared norm of the control at each frame of five scans, in the units of the latent space.",
        &[chart],
        1,
    )
}
