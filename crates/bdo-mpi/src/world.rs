//! All ranks of a job, as one of them sees them.

use crate::announced::Announced;
use crate::functions::{Blocks, Called, Calls, Failure, Functions, MPICH, SERIALIZED, Started, Wait, open_mpi};
use crate::library::{MpiError, open};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A wait this long is not worth sleeping in.
const SPIN: Duration = Duration::from_micros(500);
/// Sleep between two looks at an exchange that takes longer: other ranks may compute on the same cores.
const NAP: Duration = Duration::from_micros(50);

/// The ranks of this job. MPI is started when this is made and may be started once per process.
pub struct World {
    calls: Mutex<Box<dyn Calls>>,
    rank: usize,
    size: usize,
    node: String,
    version: String,
    patience: Duration,
    /// After an error nothing but ending the job is possible.
    failed: AtomicBool,
    traffic: Mutex<Traffic>,
}

/// What communication has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Bytes that this rank sent to others.
    pub bytes: u64,
    /// Time in exchanges, waiting for slower ranks included.
    pub seconds: f64,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("rank", &self.rank).field("size", &self.size).finish_non_exhaustive()
    }
}

impl World {
    /// Joins the ranks that a launcher started. `library` names the file of MPI where it is not to be searched for; an exchange
    /// that takes longer than `patience` is an error.
    pub fn join(announced: &Announced, library: Option<PathBuf>, patience: Duration) -> Result<Self, MpiError> {
        let (library, path) = open(announced.launcher, library)?;
        let calls: Box<dyn Calls> = match open_mpi(&library) {
            Some(constants) => Box::new(Functions::of(&library, &path, constants)?),
            None => Box::new(Functions::of(&library, &path, MPICH)?),
        };
        // MPI leaves functions behind that run when the process ends.
        std::mem::forget(library);
        let failed = |failure| said(&*calls, 0, "MPI_Init_thread", Duration::ZERO, failure);
        let Started { level, rank, size, version, node } = calls.start().map_err(failed)?;
        if level < SERIALIZED {
            return Err(MpiError::Threads { found: level, version });
        }
        if size != announced.processes {
            let (variable, announced) = (announced.variable, announced.processes);
            return Err(MpiError::OtherSize { variable, announced, found: size, version });
        }
        Ok(Self {
            calls: Mutex::new(calls),
            rank,
            size,
            node,
            version,
            patience,
            failed: AtomicBool::new(false),
            traffic: Mutex::new(Traffic::default()),
        })
    }

    /// The number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The node this rank runs on.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The MPI in use.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What communication has cost so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic.lock().map_or_else(|_| Traffic::default(), |traffic| *traffic)
    }

    /// The bytes of every rank, in the order of ranks.
    pub fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, MpiError> {
        let mut lengths = vec![0; 8 * self.size];
        self.gather_bytes(&(own.len() as u64).to_le_bytes(), &mut lengths, &vec![8; self.size])?;
        let (each, _) = lengths.as_chunks::<8>();
        let lengths: Vec<usize> = each.iter().map(|bytes| u64::from_le_bytes(*bytes) as usize).collect();
        let mut all = vec![0; lengths.iter().sum()];
        self.gather_bytes(own, &mut all, &lengths)?;
        let mut rest = all.as_slice();
        Ok(lengths.iter().map(|&length| rest.split_off(..length).unwrap_or_default().to_vec()).collect())
    }

    /// The numbers of every rank, one after another: `cuts` says where those of each begin, and where all end.
    pub fn collect(&self, own: &[f32], cuts: &[usize]) -> Result<Vec<f32>, MpiError> {
        let lengths: Vec<usize> = cuts.windows(2).map(|ends| 4 * (ends[1] - ends[0])).collect();
        let mut all = vec![0.0f32; lengths.iter().sum::<usize>() / 4];
        self.gather_bytes(bytes_of(own), bytes_of_mut(&mut all), &lengths)?;
        Ok(all)
    }

    /// Sends `own[cuts[k]..cuts[k + 1]]` to every rank `k`; what all ranks sent to this one, in their order.
    pub fn exchange(&self, own: &[f32], cuts: &[usize]) -> Result<Vec<f32>, MpiError> {
        let lengths: Vec<usize> = cuts.windows(2).map(|ends| 4 * (ends[1] - ends[0])).collect();
        let mine = lengths.get(self.rank).copied().unwrap_or(0);
        let mut all = vec![0.0f32; self.size * mine / 4];
        let sent = self.blocks("MPI_Ialltoallv", &lengths)?;
        let received = self.blocks("MPI_Ialltoallv", &vec![mine; self.size])?;
        let bytes = lengths.iter().sum::<usize>() - mine;
        self.call("MPI_Ialltoallv", bytes, |calls, wait| {
            calls.exchange((bytes_of(own), &sent), (bytes_of_mut(&mut all), &received), wait)
        })?;
        Ok(all)
    }

    /// Ends this rank's part once all ranks have come here.
    pub fn leave(&self) -> Result<(), MpiError> {
        self.call("MPI_Finalize", 0, |calls, _| calls.finish())
    }

    /// Ends all ranks at once.
    pub fn abort(&self, code: i32) -> ! {
        // Another thread that hangs in an exchange holds the lock: then the end of this process ends the job.
        if let Ok(calls) = self.calls.try_lock() {
            calls.abort(code);
        }
        std::process::exit(code)
    }

    fn gather_bytes(&self, own: &[u8], all: &mut [u8], lengths: &[usize]) -> Result<(), MpiError> {
        let blocks = self.blocks("MPI_Iallgatherv", lengths)?;
        let bytes = own.len() * (self.size - 1);
        self.call("MPI_Iallgatherv", bytes, |calls, wait| calls.gather(own, all, &blocks, wait))
    }

    fn blocks(&self, call: &'static str, lengths: &[usize]) -> Result<Blocks, MpiError> {
        let message = || format!("expected blocks below 2 GiB in all, found {} bytes", lengths.iter().sum::<usize>());
        Blocks::of(lengths).ok_or_else(|| MpiError::Call { call, rank: self.rank, message: message() })
    }

    /// One call at a time, timed; none after one that failed.
    fn call(
        &self,
        name: &'static str,
        bytes: usize,
        work: impl FnOnce(&dyn Calls, Wait<'_>) -> Called<()>,
    ) -> Result<(), MpiError> {
        let begun = Instant::now();
        let failed = |message: &str| MpiError::Call { call: name, rank: self.rank, message: message.to_owned() };
        let Ok(calls) = self.calls.lock() else { return Err(failed("a thread panicked inside MPI")) };
        if self.failed.load(Ordering::Relaxed) {
            return Err(failed("an earlier call failed"));
        }
        let ended = work(&**calls, &|poll| self.wait(poll));
        if let Ok(mut traffic) = self.traffic.lock() {
            traffic.bytes += bytes as u64;
            traffic.seconds += begun.elapsed().as_secs_f64();
        }
        ended.map_err(|failure| {
            self.failed.store(true, Ordering::Relaxed);
            said(&**calls, self.rank, name, self.patience, failure)
        })
    }

    /// Looks at an exchange until it is done or the patience is over.
    fn wait(&self, poll: &mut dyn FnMut() -> Called<bool>) -> Called<()> {
        let begun = Instant::now();
        while !poll()? {
            let waited = begun.elapsed();
            if waited > self.patience {
                return Err(Failure::TimedOut);
            }
            if waited > SPIN { std::thread::sleep(NAP) } else { std::thread::yield_now() }
        }
        Ok(())
    }
}

fn said(calls: &dyn Calls, rank: usize, name: &'static str, patience: Duration, failure: Failure) -> MpiError {
    match failure {
        Failure::Code(call, code) => MpiError::Call { call, rank, message: calls.error(code) },
        Failure::TimedOut => MpiError::TimedOut { call: name, rank, seconds: patience.as_secs() },
    }
}

fn bytes_of(numbers: &[f32]) -> &[u8] {
    // SAFETY: every f32 is four bytes without padding, and the borrow is passed on.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

fn bytes_of_mut(numbers: &mut [f32]) -> &mut [u8] {
    // SAFETY: as above; any four bytes are an f32.
    unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), size_of_val(numbers)) }
}
