//! One model trained by several processes under mpirun: the same bytes for any number of them, and a job that ends when it must.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use bdo_data::random::{below, stream};
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{bdo, bytes, names, run, run_json, torture};

/// Four micro-batches in most steps and three in the last of an epoch: not every rank always has one.
const BDO: &str = "--set model.width=16 --set model.blocks=1 --set model.heads=1 --set model.basis_count=4 \
                   --set mask.frames=24 --set train.epochs=5 --set train.batch_size=8 --set train.micro_batch_size=2 \
                   --set train.validation_steps=5 --set train.checkpoint_steps=3 --set train.keep_checkpoints=2";
const TOKENS: &str = "--set train.epochs=2 --set train.batch_size=8 --set train.micro_batch_size=2 \
                      --set train.checkpoint_steps=2 --set train.keep_checkpoints=2";

/// How each launcher starts more processes than there are cores, and the variable that numbers them.
const LAUNCHERS: [(&str, &[&str], &str); 2] = [
    ("mpirun.openmpi", &["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"], "OMPI_COMM_WORLD_RANK"),
    ("mpirun.mpich", &[], "PMI_RANK"),
];

/// Launchers that this machine has; says which it lacks.
fn launchers() -> Vec<(&'static str, &'static [&'static str], &'static str)> {
    let has = |name: &str| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
    let (found, missing): (Vec<_>, Vec<_>) = LAUNCHERS.into_iter().partition(|(name, ..)| has(name));
    for (name, ..) in missing {
        println!("SKIPPED: {name} is not installed, nothing was trained with it");
    }
    found
}

/// Several programs side by side, each a number of ranks and its arguments.
fn mpirun((launcher, flags, _): (&str, &[&str], &str), folder: &Path, programs: &[(usize, &str)]) -> Command {
    let mut command = Command::new(launcher);
    command.args(flags).current_dir(folder);
    for (place, (ranks, arguments)) in programs.iter().enumerate() {
        command.args((place > 0).then_some(":")).args(["-n", &ranks.to_string(), env!("CARGO_BIN_EXE_bdo")]);
        command.args(arguments.split_whitespace()).args(["--threads", "1"]);
    }
    command
}

fn insist(mut command: Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

fn cohort(folder: &Path) {
    run_json(folder, "simulate c --subjects 24 --regions 12 --frames 70 --sites 1 --missing-labels 0");
}

/// Weights, optimiser, moving average and position at the end of a run, and its journal but for times.
fn outcome(run: &Path) -> (Vec<(String, Vec<u8>)>, Vec<String>) {
    let last = names(&run.join("checkpoints")).into_iter().rfind(|name| name.starts_with("step-")).unwrap();
    let of = |folder: &str| bytes(&run.join(folder)).into_iter().map(|(path, b)| (path.display().to_string(), b));
    let journal = std::fs::read_to_string(run.join("journal.jsonl")).unwrap();
    let timeless = |line: &str| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        let fields = line.as_object_mut().unwrap();
        for time in ["scans_per_second", "waiting_share", "memory_mib", "exchange"] {
            fields.remove(time);
        }
        line.to_string()
    };
    (of(&format!("checkpoints/{last}")).chain(of("model")).collect(), journal.lines().map(timeless).collect())
}

#[test]
fn any_number_of_ranks_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let kinds = [("bdo", BDO), ("brainlm", TOKENS), ("brainjepa", TOKENS)];
    for (kind, settings) in kinds {
        let asked = |out: &str| format!("pretrain --data c --out {out} --set model.kind={kind} {settings} --quiet");
        run_json(dir.path(), &asked(kind));
        let expected = outcome(&dir.path().join(kind));
        for launcher in launchers() {
            let counts: &[usize] = if kind == "bdo" { &[1, 2, 3, 4] } else { &[3] };
            for ranks in counts {
                let name = format!("{kind}-{}-{ranks}", launcher.0);
                insist(mpirun(launcher, dir.path(), &[(*ranks, &asked(&name))]));
                assert!(outcome(&dir.path().join(&name)) == expected, "{name}: other bytes than one process");
                let journal = std::fs::read_to_string(dir.path().join(&name).join("journal.jsonl")).unwrap();
                let sent = journal.lines().filter(|line| line.contains(&format!("\"exchange\":{{\"ranks\":{ranks},")));
                assert_eq!(sent.count() > 0, *ranks > 1, "{name}: {journal}");
            }
        }
    }
}

/// Everything that learning with labels leaves behind but locks, times and what is only there to go on from.
fn learned(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let kept = |path: &str| {
        let timed = ["lock", "journal.jsonl", "result.json", "run.json", "config.toml", "report.html"];
        let name = path.rsplit('/').next().unwrap_or(path);
        !timed.contains(&name)
            && !name.starts_with("seed-")
            && !path.contains("checkpoints")
            && !path.contains("events")
    };
    let files = bytes(folder).into_iter().map(|(path, bytes)| (path.display().to_string(), bytes));
    files.filter(|(path, _)| kept(path)).collect()
}

#[test]
fn labels_are_learned_to_the_same_bytes_by_any_number_of_ranks() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    run_json(dir.path(), &format!("pretrain --data c --out run {BDO} --quiet").replace("epochs=5", "epochs=1"));
    let tokens = "--set train.epochs=1 --set train.batch_size=8 --set train.micro_batch_size=2";
    // Two micro-batches of eight visits in a step of fine-tuning; one in a step of the others, for whose statistics of a batch
    // there is no other way.
    let works = [
        ("finetune --model run/model --epochs 2 --budget 1 --seeds 0,1 --target sex".to_owned(), vec![2, 3]),
        ("baseline brainnetcnn --epochs 2 --seeds 0 --target sex".to_owned(), vec![2]),
        (
            format!(
                "baseline brainlm {tokens} --finetune --finetune-epochs 1 --finetune-budget 1 --seeds 0 --target sex"
            ),
            vec![3],
        ),
    ];
    for (number, (work, counts)) in works.iter().enumerate() {
        let asked = |out: &str| format!("{work} --data c --out {out} --quiet");
        let alone = format!("alone-{number}");
        run_json(dir.path(), &asked(&alone));
        let expected = learned(&dir.path().join(&alone));
        assert!(expected.iter().any(|(path, _)| path.ends_with("predictions.tsv")), "{work}");
        for launcher in launchers() {
            for ranks in counts {
                let name = format!("{number}-{}-{ranks}", launcher.0);
                insist(mpirun(launcher, dir.path(), &[(*ranks, &asked(&name))]));
                let found = learned(&dir.path().join(&name));
                let names =
                    |files: &[(String, Vec<u8>)]| files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
                assert_eq!(names(&found), names(&expected), "{name}");
                let other: Vec<_> = found.iter().zip(&expected).filter(|(a, b)| a != b).map(|(a, _)| &a.0).collect();
                assert!(other.is_empty(), "{name}: other bytes than one process in {other:?}");
                // Run again, it is already there.
                insist(mpirun(launcher, dir.path(), &[(1, &asked(&name))]));
            }
        }
    }
    for launcher in launchers() {
        let asked = |epochs| format!("{} --data c --out other --quiet", works[0].0.replace("--epochs 2", epochs));
        let output =
            mpirun(launcher, dir.path(), &[(1, &asked("--epochs 2")), (1, &asked("--epochs 3"))]).output().unwrap();
        let said = said(&output);
        assert!(
            !output.status.success() && said.contains("error: rank 1 on ") && said.contains("request.settings"),
            "{said}"
        );
        assert!(!dir.path().join("other").exists(), "work was begun");
    }
}

#[test]
fn ranks_that_are_asked_for_different_things_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    run_json(dir.path(), "simulate d --subjects 24 --regions 12 --frames 70 --sites 1 --seed 1");
    let asked = format!("pretrain --data c --out run {BDO} --quiet");
    let others = [
        (asked.replace("--data c", "--data d"), "cohort: the run has"),
        (format!("{asked} --seed 7"), "seed: the run has 0, asked for 7"),
        (format!("{asked} --set loss.tau=0.5"), "loss.tau: the run has"),
    ];
    for launcher in launchers() {
        for (other, named) in &others {
            let output = mpirun(launcher, dir.path(), &[(1, &asked), (1, other)]).output().unwrap();
            let said = said(&output);
            assert!(!output.status.success() && said.contains("error: rank 1 on ") && said.contains(named), "{said}");
            assert!(!dir.path().join("run/run.json").exists(), "a run was begun");
        }
    }
}

#[test]
fn several_processes_without_mpi_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let said_by = |variable: &str, library: &str, arguments: &str| {
        let mut command = bdo();
        command.args(arguments.split_whitespace()).current_dir(dir.path());
        let output = command.env(variable, "2").env("BDO_MPI_LIB", library).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        said(&output)
    };
    for variable in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"] {
        let said = said_by(variable, "no-such-library.so", "pretrain --data c --out run");
        assert!(said.contains(&format!("{variable} says that 2 processes")) && said.contains("BDO_MPI_LIB"), "{said}");
        assert!(said.contains("no-such-library.so: cannot open"), "{said}");
        assert!(!dir.path().join("run").exists());
    }
    let said_of = said_by("OMPI_COMM_WORLD_SIZE", "libm.so.6", "pretrain --data c --out run");
    assert!(said_of.contains("libm.so.6: expected MPI_Init_thread, which MPI 3 has, found none"), "{said_of}");
    if launchers().iter().any(|(name, ..)| *name == "mpirun.mpich") {
        // A library that nobody started ranks for knows one process; an empty name is none.
        let alone = said_by("SLURM_STEP_NUM_TASKS", "libmpich.so.12", "pretrain --data c --out run");
        assert_eq!(alone.matches("SLURM_STEP_NUM_TASKS says that 2 processes").count(), 1, "{alone}");
        assert!(alone.contains("knows 1") && !dir.path().join("run").exists(), "{alone}");
    }
    let other = said_by("OMPI_COMM_WORLD_SIZE", "", "inspect c");
    assert!(other.contains("expected one process, found 2") && other.contains("--shard"), "{other}");
    assert!(run(dir.path(), "inspect c").status.success());
}

/// The processes of a job by their rank, once all of them run.
fn processes(job: &mut Child, variable: &str, out: &str, ranks: usize) -> Option<Vec<Pid>> {
    let mut found = vec![None; ranks];
    while job.try_wait().unwrap().is_none() {
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
            let command = read("cmdline");
            let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
            if words.first() != Some(&env!("CARGO_BIN_EXE_bdo").as_bytes()) || !words.contains(&out.as_bytes()) {
                continue;
            }
            let (environment, pid) = (read("environ"), entry.file_name().to_string_lossy().parse().ok());
            let numbered = environment.split(|byte| *byte == 0).find_map(|word| word.strip_prefix(variable.as_bytes()));
            let rank =
                numbered.and_then(|word| std::str::from_utf8(word).ok()?.strip_prefix('=')?.parse::<usize>().ok());
            if let Some(rank) = rank.filter(|rank| *rank < ranks) {
                found[rank] = pid.and_then(Pid::from_raw);
            }
        }
        if let Some(all) = found.iter().copied().collect() {
            return Some(all);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

#[test]
fn a_killed_rank_ends_the_job_which_resumes_on_another_number_of_ranks() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let asked =
        |out: &str| format!("pretrain --data c --out {out} {BDO} --resume --quiet").replace("epochs=5", "epochs=20");
    let started = Instant::now();
    run_json(dir.path(), &asked("whole"));
    let whole_micros = started.elapsed().as_micros() as u64;
    let expected = outcome(&dir.path().join("whole"));
    for launcher in launchers() {
        let (kills, mut landed, mut round) = (torture(20, 3), 0, 0u64);
        let mut slowest = Duration::ZERO;
        while landed < kills {
            let name = format!("{}-{round}", launcher.0);
            let mut rng = stream("kill a rank", &[round]);
            // Two to four ranks, then another number of them.
            let (ranks, other) = (2 + below(&mut rng, 3) as usize, 1 + below(&mut rng, 3) as usize);
            let other = if other < ranks { other } else { other + 1 };
            let mut command = mpirun(launcher, dir.path(), &[(ranks, &asked(&name))]);
            let mut job = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            round += 1;
            assert!(round < 20 * kills as u64, "only {landed} of {round} kills landed before the end");
            if let Some(pids) = processes(&mut job, launcher.2, &name, ranks) {
                std::thread::sleep(Duration::from_micros(below(&mut rng, whole_micros)));
                let rank = below(&mut rng, ranks as u64) as usize;
                let killed = Instant::now();
                if kill_process(pids[rank], Signal::KILL).is_ok() && !job.wait().unwrap().success() {
                    landed += 1;
                    slowest = slowest.max(killed.elapsed());
                    assert!(
                        slowest < Duration::from_secs(30),
                        "the job lived {slowest:?} after rank {rank} was killed"
                    );
                }
            }
            job.wait().unwrap();
            insist(mpirun(launcher, dir.path(), &[(other, &asked(&name))]));
            assert!(outcome(&dir.path().join(&name)) == expected, "{name}: {ranks} ranks killed, then {other}");
            std::fs::remove_dir_all(dir.path().join(&name)).unwrap();
        }
        println!(
            "COUNTED: {landed} kills of a rank under {}, the slowest job ended after {:.1} s",
            launcher.0,
            slowest.as_secs_f64()
        );
    }
}

#[test]
fn a_rank_that_hangs_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let asked =
        format!("pretrain --data c --out run {BDO} --quiet --rank-timeout 2").replace("epochs=5", "epochs=2000");
    for launcher in launchers() {
        let mut command = mpirun(launcher, dir.path(), &[(2, &asked)]);
        let mut job = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let pids = processes(&mut job, launcher.2, "run", 2).unwrap();
        while !dir.path().join("run/journal.jsonl").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let stopped = Instant::now();
        kill_process(pids[1], Signal::STOP).unwrap();
        let output = job.wait_with_output().unwrap();
        // Some launchers leave a stopped process to the system.
        let _ = kill_process(pids[1], Signal::KILL);
        let said = said(&output);
        assert!(!output.status.success() && said.contains("rank 0 waited 2 s in MPI_Iall"), "{said}");
        assert!(stopped.elapsed() < Duration::from_secs(30), "{:?}", stopped.elapsed());
        std::fs::remove_dir_all(dir.path().join("run")).unwrap();
    }
}
