//! `bdo demo`: the whole path on a synthetic cohort.

use crate::Outcome;
use crate::cli::{Common, DemoArgs};

pub(crate) fn run(_args: &DemoArgs, _common: &Common) -> anyhow::Result<Outcome> {
    Ok(Outcome::Done)
}
