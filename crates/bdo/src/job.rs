//! The processes of a job that mpirun or srun started: joined before the work, left or ended after it.

use bdo_train::error::TrainError;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use bdo_eval::error::EvalError;
use bdo_mpi::announced::{Announced, Launcher};
use bdo_mpi::library::{LIBRARY_VARIABLE, MpiError};
use bdo_mpi::world::World;
use bdo_train::ranks::{Alone, Ranks};

use clap::Args;
use serde::Serialize;

use crate::answer::Answer;
use crate::cli::Common;

/// How long a rank waits for the others.
const PATIENCE: Duration = Duration::from_mins(10);

/// What verbs take that train in several processes.
#[derive(Debug, Default, Args, Serialize)]
#[command(next_help_heading = "Training")]
pub(crate) struct RankArgs {
    /// Under mpirun or srun: end the job when another rank has not answered for so long [default: 600]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    rank_timeout: Option<u64>,
}

impl RankArgs {
    /// Does the work together with the other processes that a launcher started, or alone.
    pub(crate) fn train(
        &self,
        common: &Common,
        work: impl FnOnce(&Common, &dyn Ranks) -> anyhow::Result<Answer>,
    ) -> anyhow::Result<Answer> {
        let world = join(self.rank_timeout.map(Duration::from_secs))?;
        let ranks = world.as_ref().map_or(&Alone as &dyn Ranks, |world| world);
        // One rank says what there is to say.
        let ended = work(&Common { quiet: common.quiet || !ranks.is_first(), ..common.clone() }, ranks);
        match world {
            None => ended,
            Some(world) => leave(&world, ended, common),
        }
    }
}

/// A training that all ranks have stopped, as asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Stopped(pub(crate) String);

/// Joins the other processes if a launcher started several.
fn join(patience: Option<Duration>) -> anyhow::Result<Option<World>> {
    let Some(announced) = Announced::here().filter(|announced| announced.processes > 1) else { return Ok(None) };
    let library = std::env::var_os(LIBRARY_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    let world = World::join(&announced, library, patience.unwrap_or(PATIENCE)).map_err(|error| {
        let Announced { processes, variable, .. } = announced;
        match error {
            MpiError::OtherSize { .. } => error.into(),
            error => anyhow::Error::from(error).context(format!(
                "{variable} says that {processes} processes were started, which train one model only through MPI"
            )),
        }
    })?;
    // A rank that panics in any thread would leave the others waiting: its end ends the job.
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        say(panic);
        std::process::abort();
    }));
    Ok(Some(world))
}

/// Leaves the job. An error of this rank alone ends all of them.
fn leave(world: &World, ended: anyhow::Result<Answer>, common: &Common) -> anyhow::Result<Answer> {
    match ended {
        Err(error) if !is_agreed(&error) => {
            let (rank, node) = (world.rank(), world.node());
            common.complain(format!("{} (rank {rank} on {node})", crate::message(&error)));
            world.abort(2)
        }
        ended => {
            world.leave()?;
            match ended {
                // The first rank prints what all of them would.
                Err(_) if world.rank() > 0 => std::process::exit(2),
                Ok(_) if world.rank() > 0 => Ok(Answer::nothing()),
                ended => ended,
            }
        }
    }
}

/// Whether all ranks come to this end together.
fn is_agreed(error: &anyhow::Error) -> bool {
    error.is::<Stopped>()
        || error.downcast_ref().is_some_and(TrainError::is_agreed)
        || match error.downcast_ref() {
            Some(EvalError::Interrupted | EvalError::InterruptedAt { .. }) => true,
            Some(EvalError::Run(error)) => error.is_agreed(),
            _ => false,
        }
}

/// Refuses to do the same work in several processes at once.
pub(crate) fn refuse_ranks() -> anyhow::Result<()> {
    match Announced::here() {
        Some(Announced { launcher: Launcher::OpenMpi | Launcher::Pmi, processes, variable }) if processes > 1 => {
            bail!(
                "expected one process, found {processes} ({variable}); hint: mpirun is for pretrain, finetune and baseline, --shard cuts the work of other verbs"
            )
        }
        _ => Ok(()),
    }
}
