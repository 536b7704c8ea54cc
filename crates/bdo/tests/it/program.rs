//! Running the built program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bdo_data::random::{below, stream};
use rustix::process::{Pid, Signal, kill_process};

/// A model that is trained in seconds.
pub(crate) const SMALL: &str = "--set model.width=16 --set model.blocks=1 --set model.heads=1 --set model.basis_count=4 \
                     --set mask.frames=24 --set train.epochs=2 --set train.batch_size=8 --quiet";

/// Full counts when asked for, a tenth otherwise.
pub(crate) fn torture(full: usize, least: usize) -> usize {
    if full_torture() { full } else { (full / 10).max(least) }
}

pub(crate) fn full_torture() -> bool {
    std::env::var("BDO_TORTURE").is_ok_and(|v| v == "full")
}

pub(crate) fn bdo() -> Command {
    Command::new(env!("CARGO_BIN_EXE_bdo"))
}

/// Runs the program in a folder; arguments are split at spaces.
pub(crate) fn run(folder: &Path, arguments: &str) -> Output {
    bdo().args(arguments.split_whitespace()).current_dir(folder).output().unwrap()
}

/// Runs and sends a signal as soon as `begun` holds; gives what was said. A run that came to its end before the signal, since
/// the machine let the test wait for its turn, is undone by `again` and started once more.
pub(crate) fn interrupted(
    folder: &Path,
    arguments: &str,
    signal: Signal,
    begun: impl Fn() -> bool,
    again: impl Fn(),
) -> Output {
    for _ in 0..20 {
        let mut command = bdo();
        command.args(arguments.split_whitespace()).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        while !begun() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        if child.try_wait().unwrap().is_none() {
            kill_process(Pid::from_child(&child), signal).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        if !output.status.success() {
            return output;
        }
        again();
    }
    panic!("bdo {arguments}: twenty runs ended before the signal came");
}

/// Starts the program and kills it after a while; if it came to its end before, gives how long that took.
pub(crate) fn ended_before_kill(folder: &Path, arguments: &str, moment: Duration) -> Option<Duration> {
    let mut command = bdo();
    command.args(arguments.split_whitespace()).current_dir(folder).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let started = Instant::now();
    while started.elapsed() < moment && child.try_wait().unwrap().is_none() {
        std::thread::sleep(moment.saturating_sub(started.elapsed()).min(Duration::from_millis(1)));
    }
    let ended = started.elapsed();
    child.kill().unwrap();
    child.wait().unwrap().success().then_some(ended)
}

/// What became of runs that were killed.
#[derive(Debug, Default)]
pub(crate) struct Killed {
    pub(crate) landed: usize,
    /// Those that found a checkpoint to go on from.
    pub(crate) amid: usize,
    pub(crate) runs: usize,
}

/// Runs that are killed at random moments within `longest` and taken up again until so many kills have landed, on as many threads
/// as there are cores. `command` is what is run for a folder of this name; every run is brought to its end at last and handed
/// to `check`.
pub(crate) fn killed_and_resumed(
    folder: &Path,
    purpose: &str,
    command: &(dyn Fn(&str) -> String + Sync),
    (kills, longest): (usize, Duration),
    check: &(dyn Fn(&Path) + Sync),
) -> Killed {
    let (left, all) = (AtomicUsize::new(kills), Mutex::new(Killed::default()));
    let claim = || left.try_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
    let worker = |worker: u64| {
        let mut round = 0;
        while left.load(Ordering::SeqCst) > 0 {
            let name = format!("{}-{worker}-{round}", purpose.replace(' ', "-"));
            let (arguments, run_folder) = (format!("{} --threads 1", command(&name)), folder.join(&name));
            let (mut landed, mut amid) = (0, 0);
            while claim() {
                let moment = below(&mut stream(purpose, &[worker, round, landed]), longest.as_micros() as u64);
                if ended_before_kill(folder, &arguments, Duration::from_micros(moment)).is_some() {
                    // Not a kill: it is given back.
                    left.fetch_add(1, Ordering::SeqCst);
                    break;
                }
                landed += 1;
                let sets = std::fs::read_dir(run_folder.join("checkpoints")).into_iter().flatten().flatten();
                amid += usize::from(sets.into_iter().any(|s| s.file_name().to_string_lossy().starts_with("step-")));
            }
            let last = run(folder, &arguments);
            assert!(last.status.success(), "bdo {arguments}: {}", String::from_utf8_lossy(&last.stderr));
            check(&run_folder);
            std::fs::remove_dir_all(&run_folder).unwrap();
            round += 1;
            let mut all = all.lock().unwrap();
            *all = Killed { landed: all.landed + landed as usize, amid: all.amid + amid, runs: all.runs + 1 };
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(8) as u64;
    std::thread::scope(|scope| (0..cores).for_each(|w| drop(scope.spawn(move || worker(w)))));
    all.into_inner().unwrap()
}

/// Runs and insists on success; gives the JSON it printed.
pub(crate) fn run_json(folder: &Path, arguments: &str) -> serde_json::Value {
    let output = run(folder, &format!("{arguments} --json"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "bdo {arguments}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Exit code and both streams as one text, the scratch folder's name taken out.
pub(crate) fn transcript(folder: &Path, arguments: &str) -> String {
    let output = run(folder, arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&*folder.to_string_lossy(), "[folder]");
    format!("exit {}\n{}{}", output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// Every file below a folder with its bytes.
pub(crate) fn bytes(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let below = bytes(&path);
            found.extend(below.into_iter().map(|(k, v)| (PathBuf::from(path.file_name().unwrap()).join(k), v)));
        } else {
            found.insert(PathBuf::from(path.file_name().unwrap()), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// Names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A small file system of its own, where the machine lets us mount one.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    pub(crate) fn mount(kibibytes: usize) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={kibibytes}k");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path()).output().ok()?;
        mounted.status.success().then_some(Self(dir))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn grow(&self, kibibytes: usize) {
        let size = format!("remount,size={kibibytes}k");
        assert!(Command::new("mount").args(["-o", &size]).arg(self.path()).status().unwrap().success());
    }

    /// Leaves no room.
    pub(crate) fn fill(&self) {
        let mut file = std::fs::File::create(self.path().join("filler")).unwrap();
        let block = vec![0u8; 4096];
        while std::io::Write::write_all(&mut file, &block).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}
