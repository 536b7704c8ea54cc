//! What the launcher of this process says about the processes it started.

/// Launchers and the variable in which each says how many processes it started. A process that `mpirun` started inside a Slurm
/// job has variables of both: those of `mpirun` count.
const LAUNCHERS: [(Launcher, &str); 3] = [
    (Launcher::OpenMpi, "OMPI_COMM_WORLD_SIZE"),
    (Launcher::Pmi, "PMI_SIZE"),
    (Launcher::Slurm, "SLURM_STEP_NUM_TASKS"),
];

/// Who started this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpirun` of MPICH and its relatives, or `srun --mpi=pmi2`.
    Pmi,
    /// `srun`.
    Slurm,
}

/// Processes that were started together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// By whom.
    pub launcher: Launcher,
    /// How many.
    pub processes: usize,
    /// The variable that says so.
    pub variable: &'static str,
}

impl Announced {
    /// What a launcher says, looked up by the name of its variable; `None` for a process that was started by itself.
    pub fn by(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        LAUNCHERS.into_iter().find_map(|(launcher, name)| {
            let processes = variable(name)?.trim().parse().ok()?;
            Some(Self { launcher, processes, variable: name })
        })
    }

    /// In the environment of this process.
    pub fn here() -> Option<Self> {
        Self::by(|name| std::env::var(name).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among(set: &[(&str, &str)]) -> Option<Announced> {
        Announced::by(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_nearest_launcher_counts() {
        assert_eq!(among(&[]), None);
        let both = among(&[("SLURM_STEP_NUM_TASKS", "2"), ("OMPI_COMM_WORLD_SIZE", "6")]).unwrap();
        assert_eq!((both.launcher, both.processes), (Launcher::OpenMpi, 6));
        assert_eq!(among(&[("PMI_SIZE", "3")]).unwrap().launcher, Launcher::Pmi);
        assert_eq!(among(&[("SLURM_STEP_NUM_TASKS", "many")]), None);
    }
}
