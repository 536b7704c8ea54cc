//! Models on devices other than the CPU: kernels and goldens on a graphics device through wgpu, then the program from pre-training to a
//! comparison, its numbers beside those of the CPU. In a profile of its own, so that nothing else is built again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::{check, packages, root, scratch};

/// A Vulkan loader and a driver in software, so that a machine without a graphics card can run what needs one.
const PACKAGES: [&str; 3] = ["libvulkan1", "mesa-vulkan-drivers", "vulkan-tools"];
/// One selection of packages for building and testing: another would build everything again.
const BUILD: &str = "--profile devices --package bdo --package bdo-model --package bdo-train --features bdo/wgpu --bin bdo --test model \
                     --test device";
/// Every device, for the types alone.
const ALL_DEVICES: &str = "wgpu,vulkan,metal,cuda,rocm";
/// A model small enough for a processor that plays graphics card: 20 steps.
const SETTINGS: &str = "--set model.width=16 --set model.blocks=2 --set model.heads=2 --set model.basis_count=4 \
                        --set mask.frames=24 --set train.epochs=4 --set train.batch_size=8 --set train.micro_batch_size=8 \
                        --set train.precision=f32 --set train.checkpoint_steps=10 --set train.keep_checkpoints=3";
const STEPS: usize = 20;
/// How far losses may be from those of the CPU, relative.
const LOSS: f64 = 1e-3;
/// The same for features.
const FEATURE: f64 = 1e-4;

/// With `walk`, only what the program that was built last does.
pub(crate) fn run(only: Option<&str>) -> anyhow::Result<()> {
    match only {
        None => {}
        Some("walk") => return Ground::new()?.walk(),
        Some(other) => bail!("devices: expected nothing or walk, found {other:?}"),
    }
    if !vulkan() {
        println!("== devices: installing {}", PACKAGES.join(", "));
        packages::install(&PACKAGES);
    }
    if !vulkan() {
        println!("SKIPPED: no Vulkan device ({}), nothing runs on wgpu", PACKAGES.join(", "));
        return types();
    }
    let build: Vec<&str> = BUILD.split_whitespace().collect();
    check::step("program", &[["build"].as_slice(), &build].concat(), &[])?;
    let only = ["--", "device", "--nocapture"];
    check::step("kernels, goldens, steps", &[["test"].as_slice(), &build, &only].concat(), &[])?;
    Ground::new()?.walk()?;
    types()
}

/// Whether the code of every device type-checks, those included that this machine cannot build for.
pub(crate) fn types() -> anyhow::Result<()> {
    // A build for CUDA fetches a compiler over the network; types can be checked without it, as documentation is built.
    let check = ["check", "--profile", "devices", "--package", "bdo", "--features", ALL_DEVICES];
    check::step("every device", &check, &[("DOCS_RS", "1")])
}

/// Whether there is a device; its name goes to the log.
fn vulkan() -> bool {
    let Ok(found) = Command::new("vulkaninfo").arg("--summary").output() else {
        return false;
    };
    let text = String::from_utf8_lossy(&found.stdout);
    let mut names = text.lines().filter(|line| line.trim_start().starts_with("deviceName")).peekable();
    let any = found.status.success() && names.peek().is_some();
    names.for_each(|name| println!("== devices: {}", name.trim()));
    any
}

struct Ground {
    folder: PathBuf,
    bdo: PathBuf,
}

impl Ground {
    fn new() -> anyhow::Result<Self> {
        Ok(Self { folder: scratch("devices")?, bdo: root().join("target/devices/bdo") })
    }

    /// Runs a verb and gives what it answers; its first line goes to the log.
    fn bdo(&self, arguments: &str) -> anyhow::Result<Value> {
        let started = Instant::now();
        let mut command = Command::new(&self.bdo);
        let command = command.args(arguments.split_whitespace()).args(["--json", "--quiet"]).current_dir(&self.folder);
        let done = command.output().with_context(|| format!("cannot start {}", self.bdo.display()))?;
        let said = String::from_utf8_lossy(&done.stderr);
        // 1 says that some inputs were rejected.
        ensure!(matches!(done.status.code(), Some(0 | 1)), "bdo {arguments}: {}", said.trim());
        println!("bdo {arguments}: {:.1} s", started.elapsed().as_secs_f64());
        Ok(serde_json::from_slice(&done.stdout)?)
    }

    fn walk(&self) -> anyhow::Result<()> {
        println!("{}", serde_json::to_string(&self.bdo("inspect --devices")?)?);
        self.bdo("simulate c --subjects 45 --regions 20 --frames 60")?;
        self.bdo(&format!("pretrain --data c --out here {SETTINGS}"))?;
        self.bdo(&format!("pretrain --data c --out there {SETTINGS} --device wgpu"))?;
        let (here, there) = (self.losses("here")?, self.losses("there")?);
        ensure!(here.len() == STEPS, "expected {STEPS} steps, found {}", here.len());
        println!(
            "losses of {STEPS} steps: {:.1e} from those of the CPU at most",
            close("losses", &there, &here, LOSS)?
        );
        self.bdo(&format!("pretrain --data c --out again {SETTINGS} --device wgpu"))?;
        let weights =
            |run: &str| std::fs::read(self.folder.join(run).join("model/model.safetensors")).context(run.to_owned());
        let same = if weights("there")? == weights("again")? { "the same" } else { "other" };
        println!("weights of a second run of {STEPS} steps on the device: {same} bytes");
        self.moved("there", "cpu", &here)?;
        self.moved("here", "wgpu", &here)?;
        let features = |name: &str, device: &str| -> anyhow::Result<Vec<f64>> {
            self.bdo(&format!("embed --model there/model --data c --out {name}.tsv --device {device}"))?;
            numbers(&self.folder.join(format!("{name}.tsv")))
        };
        let (on_cpu, on_card) = (features("cpu", "cpu")?, features("card", "wgpu")?);
        println!(
            "{} numbers of features: {:.1e} apart at most",
            on_cpu.len(),
            close("features", &on_card, &on_cpu, FEATURE)?
        );
        self.downstream()?;
        for size in ["tiny --batch 4", "base --batch 1"] {
            let found = self.bdo(&format!("bench train --size {size} --steps 1 --device wgpu"))?;
            println!("{}", serde_json::to_string(&found)?);
        }
        std::fs::remove_dir_all(&self.folder).with_context(|| self.folder.display().to_string())
    }

    fn losses(&self, run: &str) -> anyhow::Result<Vec<f64>> {
        let lines = self.journal(run)?;
        let steps = lines.iter().filter(|line| line["kind"] == "step");
        Ok(steps.map(|line| line["loss"]["total"].as_f64().unwrap_or(f64::NAN)).collect())
    }

    fn journal(&self, run: &str) -> anyhow::Result<Vec<Value>> {
        let path = self.folder.join(run).join("journal.jsonl");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// A run taken up in its middle on another device: its journal says so, and its losses stay what they were.
    fn moved(&self, run: &str, device: &str, expected: &[f64]) -> anyhow::Result<()> {
        let name = format!("{run}-then-{device}");
        let copied = Command::new("cp").args(["-r", run, &name]).current_dir(&self.folder).status()?;
        ensure!(copied.success(), "cannot copy {run}");
        let last = self.folder.join(&name).join(format!("checkpoints/step-000-{STEPS:010}"));
        std::fs::remove_dir_all(&last).with_context(|| last.display().to_string())?;
        self.bdo(&format!("pretrain --data c --out {name} --resume --device {device}"))?;
        let devices: Vec<Value> = self.journal(&name)?.into_iter().filter(|line| line["kind"] == "device").collect();
        let said = devices.last().and_then(|line| line["device"].as_str()).unwrap_or_default();
        ensure!(said.starts_with(device), "{name}: expected {device} in the journal, found {devices:?}");
        let apart = close(&name, &self.losses(&name)?, expected, LOSS)?;
        println!("{run} taken up at step 10 on {said}: {apart:.1e} from the CPU at most");
        Ok(())
    }

    /// Everything that is done with a model.
    fn downstream(&self) -> anyhow::Result<()> {
        for verb in [
            "evaluate --model there/model --data c --people all",
            "probe --model there/model --data c --target age --out probe --epochs 2 --seeds 0",
            "finetune --model there/model --data c --target sex --out tuned --epochs 1 --budget 1 --rates 1e-3 --seeds 0",
            "predict --head tuned --data c --out predictions.tsv",
            "infer reconstruct --model there/model --data c --out reconstructed --draws 2",
            "compare --data c --targets sex --methods bdo-mean,brainnetcnn --model there/model --out table --seeds 0 \
             --baseline-epochs 1 --bootstraps 20 --permutations 20 --no-audit",
        ] {
            self.bdo(&format!("{verb} --device wgpu"))?;
        }
        Ok(())
    }
}

/// The largest distance, relative to the expected number or, for numbers that cross zero, to their root mean square; refused beyond a
/// limit.
fn close(what: &str, found: &[f64], expected: &[f64], most: f64) -> anyhow::Result<f64> {
    ensure!(found.len() == expected.len(), "{what}: expected {} numbers, found {}", expected.len(), found.len());
    let size = (expected.iter().map(|x| x * x).sum::<f64>() / expected.len().max(1) as f64).sqrt();
    let apart = found.iter().zip(expected).map(|(x, y)| (x - y).abs() / y.abs().max(size)).fold(0.0, f64::max);
    if apart.is_nan() || apart > most {
        bail!("{what}: {apart:.2e} apart, expected at most {most:.0e}");
    }
    Ok(apart)
}

fn numbers(path: &Path) -> anyhow::Result<Vec<f64>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(text.split_whitespace().filter_map(|word| word.parse().ok()).collect())
}
