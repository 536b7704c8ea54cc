//! A 4D image to region means, beside inflating it alone: what the reading costs over the unavoidable.

use anyhow::Context;
use bdo_data::atlas::image::AtlasImage;
use bdo_data::parcellate::measure_speed;

use super::Files;
use crate::answer::Answer;
use crate::commands::peak_rss_mib;

pub(super) fn run(args: &Files) -> anyhow::Result<Answer> {
    let image = args.image.as_ref().context("bench ingest: expected --image with a 4D image, found none")?;
    let atlas = args.atlas.as_ref().context("bench ingest: expected --atlas with a label image, found none")?;
    let atlas = AtlasImage::read(atlas, None)?;
    let mut measured = serde_json::to_value(measure_speed(image, &atlas)?)?;
    measured["peak_rss_mb"] = peak_rss_mib().into();
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
