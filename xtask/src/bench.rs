//! BDO and PyTorch side by side on the same work, step by step in turns: on a noisy machine only such a ratio means something.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};

use crate::{check, python, root};

/// Steps of each program per comparison; small enough that the whole table takes minutes.
const DEFAULT_STEPS: usize = 8;

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let option = |name: &str| arguments.iter().position(|a| a == name).and_then(|i| arguments.get(i + 1)).cloned();
    let sizes = option("--sizes").unwrap_or_else(|| "tiny,small,base".into());
    let tasks = option("--tasks").unwrap_or_else(|| "train,embed".into());
    let modes = option("--modes").unwrap_or_else(|| "eager".into());
    let precision = option("--precision").unwrap_or_else(|| "f32".into());
    let threads = option("--threads").unwrap_or_else(|| "2".into());
    let steps = option("--steps").map_or(Ok(DEFAULT_STEPS), |s| s.parse()).context("--steps: expected a number")?;
    check::step("build", &["build", "--release", "--package", "bdo"], &[])?;
    let Some(python) = python::torch_interpreter() else {
        bail!("a comparison needs a Python with torch (set BDO_TORCH_PYTHON, or let this command install it)");
    };
    println!(
        "| task | size | PyTorch | BDO | PyTorch ms, median (least) | BDO ms, median (least) | PyTorch / BDO, median | PyTorch MB | BDO MB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for size in sizes.split(',') {
        for task in tasks.split(',') {
            for mode in modes.split(',') {
                let pair = Pair { python: python.clone(), task, size, mode, precision: &precision, threads: &threads };
                pair.compare(steps)?;
            }
        }
    }
    Ok(())
}

struct Pair<'a> {
    python: PathBuf,
    task: &'a str,
    size: &'a str,
    mode: &'a str,
    precision: &'a str,
    threads: &'a str,
}

impl Pair<'_> {
    /// Steps in turns, the order swapped every time so that neither always runs behind the other.
    fn compare(&self, steps: usize) -> anyhow::Result<()> {
        let mut torch = Server::start(&mut self.torch())?;
        let mut bdo = Server::start(&mut self.bdo())?;
        let (mut torch_laps, mut bdo_laps, mut ratios) = (vec![], vec![], vec![]);
        for step in 0..steps {
            for turn in 0..2 {
                if (step + turn) % 2 == 0 {
                    torch_laps.push(torch.step()?);
                } else {
                    bdo_laps.push(bdo.step()?);
                }
            }
            ratios.push(torch_laps[step] / bdo_laps[step]);
        }
        let memory = [torch.peak_mb(), bdo.peak_mb()];
        torch.stop();
        bdo.stop();
        let (torch_median, torch_least) = summary(&mut torch_laps);
        let (bdo_median, bdo_least) = summary(&mut bdo_laps);
        let (ratio, _) = summary(&mut ratios);
        println!(
            "| {} | {} | {} {} | {} | {torch_median:.0} ({torch_least:.0}) | {bdo_median:.0} ({bdo_least:.0}) | {ratio:.2} | {:.0} | {:.0} |",
            self.task, self.size, self.mode, self.precision, self.precision, memory[0], memory[1]
        );
        Ok(())
    }

    fn torch(&self) -> Command {
        let mut command = Command::new(&self.python);
        command.arg(root().join("tools/reference/bench_torch.py"));
        command.args(["--task", self.task, "--size", self.size, "--mode", self.mode]);
        command.args(["--precision", self.precision, "--threads", self.threads, "--serve"]);
        command
    }

    fn bdo(&self) -> Command {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        let mut command = Command::new(target.join("release/bdo"));
        command.args(["bench", self.task, "--size", self.size, "--precision", self.precision]);
        command.args(["--threads", self.threads, "--serve"]);
        command
    }
}

fn summary(laps: &mut [f64]) -> (f64, f64) {
    laps.sort_by(f64::total_cmp);
    (laps[laps.len() / 2], laps[0])
}

/// A process that does one step when asked and says how long it took.
struct Server {
    child: Child,
    ask: ChildStdin,
    answer: BufReader<ChildStdout>,
}

impl Server {
    fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let mut said = String::new();
        let errors = child.stderr.take().context("stderr was piped")?;
        let mut errors = BufReader::new(errors);
        // Warming up, and compiling, happens before this line; anything else said before it is shown if it never comes.
        loop {
            let mut line = String::new();
            if errors.read_line(&mut line)? == 0 {
                bail!("{command:?} ended before it was ready: {said}");
            }
            if line.trim() == "ready" {
                break;
            }
            said += &line;
        }
        // Whatever comes later must not fill the pipe and block the process.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        let (ask, answer) = (child.stdin.take(), child.stdout.take());
        let (ask, answer) = (ask.context("stdin was piped")?, answer.context("stdout was piped")?);
        Ok(Self { child, ask, answer: BufReader::new(answer) })
    }

    fn step(&mut self) -> anyhow::Result<f64> {
        writeln!(self.ask, "step")?;
        self.ask.flush()?;
        let mut line = String::new();
        self.answer.read_line(&mut line)?;
        line.trim().parse().with_context(|| format!("expected milliseconds, found {line:?}"))
    }

    /// Most memory the process has held so far.
    fn peak_mb(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).map_or(f64::NAN, |kib| kib / 1024.0)
    }

    fn stop(mut self) {
        let _ = writeln!(self.ask, "quit");
        drop(self.ask);
        let _ = self.child.wait();
    }
}
