//! The processes that train one model together. What they agree on never depends on how many there are.

use crate::error::TrainError;
use bdo_data::record::Identity;
use bdo_kernels::Isa;
use bdo_mpi::world::{Traffic, World};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// This process among those that train together; unless said otherwise, it is the only one.
pub trait Ranks: Sync + std::fmt::Debug {
    /// The number of this process, from 0.
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    /// Where this one runs.
    #[allow(clippy::unnecessary_literal_bound)] // The name of a world is its own.
    fn node(&self) -> &str {
        "this machine"
    }

    /// The bytes of every rank, in the order of ranks.
    fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, TrainError> {
        Ok(vec![own.to_vec()])
    }

    /// The numbers of every rank, one after another: `cuts` says where those of each begin, and where all end.
    fn collect(&self, own: &[f32], _cuts: &[usize]) -> Result<Vec<f32>, TrainError> {
        Ok(own.to_vec())
    }

    /// Sends `own[cuts[k]..cuts[k + 1]]` to every rank `k`; what all ranks sent to this one, in their order.
    fn exchange(&self, own: &[f32], _cuts: &[usize]) -> Result<Vec<f32>, TrainError> {
        Ok(own.to_vec())
    }

    /// What communication has cost so far.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

/// One process.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Ranks for Alone {}

impl Ranks for World {
    fn rank(&self) -> usize {
        self.rank()
    }

    fn size(&self) -> usize {
        self.size()
    }

    fn node(&self) -> &str {
        self.node()
    }

    fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, TrainError> {
        Ok(self.gather(own)?)
    }

    fn collect(&self, own: &[f32], cuts: &[usize]) -> Result<Vec<f32>, TrainError> {
        Ok(self.collect(own, cuts)?)
    }

    fn exchange(&self, own: &[f32], cuts: &[usize]) -> Result<Vec<f32>, TrainError> {
        Ok(self.exchange(own, cuts)?)
    }

    fn traffic(&self) -> Traffic {
        self.traffic()
    }
}

impl dyn Ranks + '_ {
    /// Whether this is the one that writes.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Waits until all ranks have come here.
    pub fn meet(&self) -> Result<(), TrainError> {
        self.gather(&[]).map(|_| ())
    }

    /// Whether any rank says so.
    pub fn any(&self, own: bool) -> Result<bool, TrainError> {
        Ok(self.gather(&[u8::from(own)])?.iter().flatten().any(|said| *said != 0))
    }

    /// What each rank says, in the order of ranks.
    pub fn each<T: Serialize + DeserializeOwned>(&self, own: &T) -> Result<Vec<T>, TrainError> {
        self.gather(&to_json(own))?.iter().enumerate().map(|(rank, bytes)| from_json(rank, bytes)).collect()
    }

    /// What the first rank says, on all of them.
    pub fn first<T: Serialize + DeserializeOwned>(&self, own: T) -> Result<T, TrainError> {
        if self.size() == 1 {
            return Ok(own);
        }
        let own = if self.is_first() { to_json(&own) } else { Vec::new() };
        let said = self.gather(&own)?.into_iter().next().unwrap_or_default();
        from_json(0, &said)
    }

    /// Refuses ranks that see another checkpoint (rollbacks and step): their folders are not the same.
    pub fn agree_on_checkpoint(&self, newest: Option<(u32, u64)>) -> Result<(), TrainError> {
        let said = self.each(&(newest, self.node().to_owned()))?;
        let step = |newest: Option<(u32, u64)>| newest.map_or_else(|| "none".to_owned(), |(_, step)| step.to_string());
        let Some((expected, _)) = said.first() else { return Ok(()) };
        let other = said.iter().enumerate().find(|(_, (found, _))| found != expected);
        let Some((rank, (found, node))) = other else { return Ok(()) };
        let (expected, found) = (step(*expected), step(*found));
        let differences = vec![format!(
            "checkpoint: rank 0 has step {expected}, this one {found}; the run folder must be on a file system that all nodes share"
        )];
        Err(TrainError::OtherRank { rank, node: node.clone(), differences })
    }

    /// Refuses ranks that run another program, or were asked for other work on another cohort.
    pub fn agree_on_request(
        &self,
        asked: &serde_json::Value,
        cohort_blake3: &str,
        seed: u64,
    ) -> Result<(), TrainError> {
        self.agree_on(&Identity {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cohort_blake3: cohort_blake3.to_owned(),
            seed,
            instruction_set: Isa::current().to_string(),
            settings_blake3: String::new(),
            split_blake3: None,
            settings: serde_json::json!({ "request": asked }),
        })
    }

    /// Refuses ranks that run another program, or were asked for another run.
    pub fn agree_on(&self, identity: &Identity) -> Result<(), TrainError> {
        if self.size() == 1 {
            return Ok(());
        }
        let said = self.each(&(program(), self.node().to_owned(), identity.clone()))?;
        let Some((first, _, asked)) = said.first() else { return Ok(()) };
        for (rank, (program, node, found)) in said.iter().enumerate() {
            let mut differences = asked.differences(found);
            if program != first {
                differences.insert(0, format!("program: rank 0 runs {first}, this one {program}"));
            }
            if !differences.is_empty() {
                return Err(TrainError::OtherRank { rank, node: node.clone(), differences });
            }
        }
        Ok(())
    }
}

fn to_json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("reports hold only words and numbers")
}

fn from_json<T: DeserializeOwned>(rank: usize, bytes: &[u8]) -> Result<T, TrainError> {
    serde_json::from_slice(bytes).map_err(|error| TrainError::Unreadable { rank, found: error.to_string() })
}

/// Hash of the program that runs: two builds of one version may differ in the last bits of what they compute.
fn program() -> String {
    let bytes = std::env::current_exe().and_then(std::fs::read);
    bytes.map_or_else(|_| "unknown".to_owned(), |bytes| blake3::hash(&bytes).to_hex().to_string())
}
