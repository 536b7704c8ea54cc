//! Arguments of the verbs that show what there is.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Cohorts, runs, models, comparisons, sweeps, probes, inferences or measurements (JSON of `bdo bench`)
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// The page to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// A cohort to look at through the model of a run: reconstructions, features, control, time constants
    #[arg(long, value_name = "COHORT")]
    pub(crate) data: Option<PathBuf>,
    /// Scans whose reconstruction is shown
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=20))]
    pub(crate) scans: u16,
}

/// Arguments of `watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The run folder
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Draw once and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Seconds between two drawings
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) every: u64,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The run folder
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Port on 127.0.0.1; 0 takes any that is free
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
}
