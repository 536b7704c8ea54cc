//! A 4D image to region means, beside inflating it alone: what the reading costs over the unavoidable.

use anyhow::Context;
use bdo_data::atlas::image::AtlasImage;
use bdo_data::nifti::Limits;
use bdo_data::parcellate::measure_speed;

use super::Files;
use crate::answer::Answer;

pub(super) fn run(args: &Files) -> anyhow::Result<Answer> {
    let image = args.image.as_ref().context("bench ingest: expected --image with a 4D image, found none")?;
    let atlas = args.atlas.as_ref().context("bench ingest: expected --atlas with a label image, found none")?;
    let limits = Limits::default();
    let atlas = AtlasImage::read(atlas, None, &limits)?;
    let measured = serde_json::to_value(measure_speed(image, &atlas, &limits)?)?;
    let text = format!(
        "{}: {} ms, of which inflating alone takes {} ms; peak {} MB",
        image.display(),
        measured["total_ms"],
        measured["inflate_only_ms"],
        measured["peak_rss_mb"]
    );
    Ok(Answer::new(measured, text))
}
