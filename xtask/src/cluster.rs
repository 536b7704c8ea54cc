//! A cluster on one machine: MPI over two network namespaces, kills of ranks, and a real Slurm with two nodes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::{check, entries, packages, root, scratch};

/// The plugin of Slurm that starts ranks through `PMIx` opens the library by a name that only the development package has.
const PACKAGES: [&str; 7] =
    ["openmpi-bin", "mpich", "slurm-wlm", "libpmix-dev", "iproute2", "procps", "openssh-client"];
/// Network of the two namespaces.
const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
const SPACES: [&str; 2] = ["bdo-a", "bdo-b"];
const KILLS: usize = 20;
/// After a kill a job must be gone within this time.
const LONGEST_END: Duration = Duration::from_secs(30);
/// Eight micro-batches per step, and enough steps for a kill to land between two of them.
const SETTINGS: &str = "--set model.width=16 --set model.blocks=1 --set model.heads=1 --set model.basis_count=4 \
                        --set mask.frames=24 --set train.epochs=15 --set train.batch_size=16 \
                        --set train.micro_batch_size=2 --set train.checkpoint_steps=5 --set train.keep_checkpoints=2";

/// With a program that is there, or one built for it.
pub(crate) fn run(program: Option<PathBuf>) -> anyhow::Result<()> {
    packages::install(&PACKAGES);
    if program.is_none() {
        check::step("program", &["build", "--release"], &[])?;
    }
    let program = program.unwrap_or_else(|| root().join("target/release/bdo"));
    // Commands run in the folders of their jobs.
    let ground = Ground::prepare(program.canonicalize().with_context(|| program.display().to_string())?)?;
    let network = Network::up(&ground)?;
    ground.over_two_hosts(&network)?;
    Slurm::up(&ground)?.jobs(&ground)?;
    ground.kills(&network)?;
    // After a failure it is there to be looked at.
    std::fs::remove_dir_all(&ground.folder).with_context(|| ground.folder.display().to_string())
}

/// A scratch folder with a cohort, and what one process makes of it.
struct Ground {
    folder: PathBuf,
    bdo: PathBuf,
    expected: BTreeMap<PathBuf, Vec<u8>>,
    whole: Duration,
}

impl Ground {
    fn prepare(bdo: PathBuf) -> anyhow::Result<Self> {
        let mut ground = Self { folder: scratch("cluster")?, bdo, expected: BTreeMap::new(), whole: Duration::ZERO };
        insist(&mut ground.program("simulate c --subjects 80 --regions 20 --frames 60 --quiet"))?;
        let started = Instant::now();
        insist(&mut ground.program(&pretrain("one")))?;
        ground.whole = started.elapsed();
        ground.expected = ground.outcome("one")?;
        println!("one process: {:.1} s, {} files to compare", ground.whole.as_secs_f64(), ground.expected.len());
        Ok(ground)
    }

    fn program(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.bdo);
        command.args(arguments.split_whitespace()).current_dir(&self.folder);
        command
    }

    /// The model and the last checkpoint of a run.
    fn outcome(&self, run: &str) -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
        let run = self.folder.join(run);
        let last = entries(&run.join("checkpoints"))?
            .into_iter()
            .rfind(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("step-")));
        let folders = [run.join("model"), last.context("a run leaves checkpoints")?];
        let mut found = BTreeMap::new();
        for folder in folders {
            for file in entries(&folder)? {
                let bytes = std::fs::read(&file).with_context(|| file.display().to_string())?;
                found.insert(file.strip_prefix(&run)?.to_path_buf(), bytes);
            }
        }
        Ok(found)
    }

    fn compare(&self, what: &str, run: &str) -> anyhow::Result<()> {
        let found = self.outcome(run)?;
        if found != self.expected {
            let differ = self.expected.iter().filter(|(name, bytes)| found.get(*name) != Some(bytes));
            bail!("{what}: other bytes than one process in {:?}", differ.map(|(name, _)| name).collect::<Vec<_>>());
        }
        Ok(())
    }

    fn over_two_hosts(&self, network: &Network) -> anyhow::Result<()> {
        for ranks in [2, 4] {
            let name = format!("hosts-{ranks}");
            let started = Instant::now();
            insist(&mut network.mpirun(self, ranks, &pretrain(&name)))?;
            self.compare(&name, &name)?;
            println!("two hosts, {ranks} ranks over TCP: {:.1} s, the same bytes", started.elapsed().as_secs_f64());
        }
        Ok(())
    }

    /// Ranks of jobs over both hosts are killed at random moments; each job goes on with another number of ranks.
    fn kills(&self, network: &Network) -> anyhow::Result<()> {
        let (mut landed, mut round, mut slowest, mut whole) = (0, 0u64, Duration::ZERO, self.whole);
        while landed < KILLS {
            let name = format!("killed-{round}");
            round += 1;
            if round > 10 * KILLS as u64 {
                bail!("only {landed} of {round} kills landed before the end of the job");
            }
            // Two to four ranks, then another number of them.
            let (ranks, other) = (2 + random(round, 3), 1 + random(round + 100, 3));
            let other = if other < ranks { other } else { other + 1 };
            let started = Instant::now();
            let mut job = network.mpirun(self, ranks, &pretrain(&name)).stderr(Stdio::null()).spawn()?;
            if let Some(pids) = processes(&mut job, &name, ranks)? {
                let moment = Instant::now() + whole.mul_f64(random(round + 200, 1000) as f64 / 1000.0);
                while Instant::now() < moment && job.try_wait()?.is_none() {
                    std::thread::sleep(Duration::from_millis(2));
                }
                let rank = random(round + 300, ranks);
                let killed = Instant::now();
                let hit = Command::new("kill").args(["-9", &pids[rank].to_string()]).status()?.success();
                let status = job.wait()?;
                if status.success() {
                    // The machine is less busy than it was: kills must come sooner.
                    whole = whole.min(started.elapsed());
                }
                if hit && !status.success() {
                    landed += 1;
                    slowest = slowest.max(killed.elapsed());
                    if killed.elapsed() > LONGEST_END {
                        bail!("{name}: the job lived {:?} after rank {rank} was killed", killed.elapsed());
                    }
                }
            }
            job.wait()?;
            insist(&mut network.mpirun(self, other, &pretrain(&name)))?;
            self.compare(&name, &name)?;
            std::fs::remove_dir_all(self.folder.join(&name))?;
            println!("{name}: {ranks} ranks, then {other}: the same bytes ({landed} of {KILLS} kills so far)");
        }
        println!(
            "{landed} kills: the slowest job ended {:.1} s later, all went on to the same bytes",
            slowest.as_secs_f64()
        );
        Ok(())
    }
}

/// The training of every job here.
fn pretrain(out: &str) -> String {
    format!("pretrain --data c --out {out} {SETTINGS} --resume --quiet --threads 1")
}

/// Runs a command that must succeed; what it printed.
fn insist(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A number below `end` that looks random and is the same in every run.
fn random(seed: u64, end: usize) -> usize {
    let mut x = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) % end as u64) as usize
}

/// The processes of a job by rank, once all run; none if it ends before.
fn processes(job: &mut Child, out: &str, ranks: usize) -> anyhow::Result<Option<Vec<u32>>> {
    let mut found = vec![None; ranks];
    while job.try_wait()?.is_none() {
        for folder in entries(Path::new("/proc"))? {
            let read = |file: &str| std::fs::read(folder.join(file)).unwrap_or_default();
            let command = String::from_utf8_lossy(&read("cmdline")).into_owned();
            let mut words = command.split('\0');
            if words.next().and_then(|program| program.rsplit('/').next()) != Some("bdo")
                || !words.any(|word| word == out)
            {
                continue;
            }
            let environment = String::from_utf8_lossy(&read("environ")).into_owned();
            let rank = environment.split('\0').find_map(|word| word.strip_prefix("OMPI_COMM_WORLD_RANK="));
            let pid = folder.file_name().and_then(|name| name.to_string_lossy().parse().ok());
            if let Some(place) = rank.and_then(|rank| rank.parse::<usize>().ok()).and_then(|rank| found.get_mut(rank)) {
                *place = pid;
            }
        }
        if let Some(all) = found.iter().copied().collect() {
            return Ok(Some(all));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(None)
}

/// Two namespaces joined by a cable; taken down when dropped.
struct Network {
    agent: PathBuf,
}

impl Network {
    fn up(ground: &Ground) -> anyhow::Result<Self> {
        let network = Self { agent: ground.folder.join("agent.sh") };
        let ip = |words: &str| -> anyhow::Result<()> {
            insist(Command::new("ip").args(words.split_whitespace())).map(|_| ())
        };
        for space in SPACES {
            ip(&format!("netns add {space}"))?;
        }
        ip(&format!("link add veth-a netns {} type veth peer name veth-b netns {}", SPACES[0], SPACES[1]))?;
        for ((space, address), end) in SPACES.iter().zip(ADDRESSES).zip(["veth-a", "veth-b"]) {
            ip(&format!("-n {space} addr add {address}/24 dev {end}"))?;
            ip(&format!("-n {space} link set {end} up"))?;
            ip(&format!("-n {space} link set lo up"))?;
        }
        // What mpirun would call ssh for.
        let [a, b] = ADDRESSES;
        let text = format!(
            "#!/bin/sh\nhost=$1\nshift\ncase $host in\n{a}) space={};;\n{b}) space={};;\n*) echo \"no host $host\" >&2; exit 1;;\nesac\nexec ip netns exec $space sh -c \"$*\"\n",
            SPACES[0], SPACES[1]
        );
        std::fs::write(&network.agent, text)?;
        insist(Command::new("chmod").arg("+x").arg(&network.agent))?;
        Ok(network)
    }

    /// Half of the ranks in either namespace.
    fn mpirun(&self, ground: &Ground, ranks: usize, arguments: &str) -> Command {
        let slots = ranks.div_ceil(2);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", SPACES[0], "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]);
        command.args(["--bind-to", "none", "--mca", "plm_rsh_agent"]).arg(&self.agent);
        command.args(["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]);
        command.args(["--mca", "btl_tcp_if_include", "10.77.0.0/24", "--mca", "oob_tcp_if_include", "10.77.0.0/24"]);
        command.args(["--host", &format!("{}:{slots},{}:{slots}", ADDRESSES[0], ADDRESSES[1]), "--map-by", "node"]);
        command.args(["-n", &ranks.to_string()]).arg(&ground.bdo).args(arguments.split_whitespace());
        command.current_dir(&ground.folder).stdout(Stdio::null());
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for space in SPACES {
            let _ = Command::new("ip").args(["netns", "del", space]).status();
        }
    }
}

/// A controller and two nodes of Slurm on this machine; ended when dropped.
struct Slurm {
    configuration: PathBuf,
    daemons: Vec<Child>,
}

impl Slurm {
    fn up(ground: &Ground) -> anyhow::Result<Self> {
        let folder = ground.folder.join("slurm");
        std::fs::create_dir_all(folder.join("state"))?;
        let host = insist(Command::new("hostname").arg("-s"))?;
        let (host, place) = (host.trim(), folder.display());
        let node =
            |i: u8| format!("NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port=3682{i} CPUs=2 State=UNKNOWN");
        let nodes = [node(1), node(2), String::new()].join("\n");
        let text = format!(
            "ClusterName=bdo\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort=36817\nSlurmdPort=36818\nAuthType=auth/none\n\
             CredType=cred/none\nSlurmUser=root\nSlurmdUser=root\nStateSaveLocation={place}/state\n\
             SlurmdSpoolDir={place}/spool-%n\nSlurmctldPidFile={place}/controller.pid\nSlurmdPidFile={place}/%n.pid\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU\nSwitchType=switch/none\nMpiDefault=none\nReturnToService=2\n\
             {nodes}PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP\n"
        );
        let configuration = folder.join("slurm.conf");
        std::fs::write(&configuration, &text)?;
        let mut slurm = Self { configuration, daemons: Vec::new() };
        for (program, node) in [("slurmctld", None), ("slurmd", Some("n1")), ("slurmd", Some("n2"))] {
            let mut command = Command::new(program);
            let own = node.map_or_else(|| folder.clone(), |node| folder.join(node));
            if let Some(node) = node {
                // Folders that PMIx makes on a node have one name on every node; these two nodes share a disk.
                std::fs::create_dir_all(own.join("pmix"))?;
                std::fs::write(own.join("slurm.conf"), &text)?;
                std::fs::write(own.join("mpi.conf"), format!("PMIxCliTmpDirBase={}\n", own.join("pmix").display()))?;
                command.args(["-N", node]);
            }
            command.arg("-D").arg("-f").arg(own.join("slurm.conf"));
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            slurm.daemons.push(child.with_context(|| format!("cannot start {program}"))?);
        }
        for _ in 0..60 {
            let idle = slurm.command("sinfo", "--noheader -o %D%t").output().map(|o| o.stdout).unwrap_or_default();
            if idle.trim_ascii() == b"2idle" {
                println!("slurm: a controller and two nodes");
                return Ok(slurm);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        bail!("slurm: expected two idle nodes within 30 s, found none");
    }

    fn command(&self, program: &str, arguments: &str) -> Command {
        let mut command = Command::new(program);
        command.args(arguments.split_whitespace()).env("SLURM_CONF", &self.configuration);
        command
    }

    /// Submits one of the scripts of the documentation and waits for its end.
    fn submit(&self, ground: &Ground, script: &str, options: &str, variables: &[(&str, &str)]) -> Command {
        let mut command = self.command("sbatch", &format!("--wait --parsable {options}"));
        command.arg(root().join("docs/jobs").join(script)).current_dir(&ground.folder).envs(variables.iter().copied());
        let path = format!(
            "{}:{}",
            ground.bdo.parent().unwrap_or(Path::new(".")).display(),
            std::env::var("PATH").unwrap_or_default()
        );
        command.env("PATH", path).env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }

    fn jobs(&self, ground: &Ground) -> anyhow::Result<()> {
        let tables = ground.folder.join("tables");
        std::fs::create_dir_all(&tables)?;
        let variables = [("MODEL", "one/model"), ("DATA", "c"), ("OUT", "tables")];
        insist(&mut self.submit(ground, "embed.sbatch", "", &variables))?;
        insist(&mut self.submit(ground, "merge.sbatch", "", &variables))?;
        insist(&mut ground.program("embed --model one/model --data c --out whole.parquet --quiet"))?;
        if std::fs::read(tables.join("features.parquet"))? != std::fs::read(ground.folder.join("whole.parquet"))? {
            bail!("slurm: the merged table differs from that of one process");
        }
        println!("slurm: an array of four embeds, merged, has the bytes of one process");
        // These two nodes are one machine, where ranks of both would take the same names in shared memory.
        let tcp = [("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "tcp,self"), ("OMPI_MCA_btl_tcp_if_include", "lo")];
        for (kind, options, variables) in [
            ("MPICH through PMI2", "--mpi=pmi2", [("BDO_MPI_LIB", "libmpich.so.12")].as_slice()),
            ("Open MPI through PMIx", "--mpi=pmix", tcp.as_slice()),
        ] {
            let name = format!("srun{options}");
            let mut command = self.command("srun", &format!("{options} --nodes=2 --ntasks=3"));
            command.arg(&ground.bdo).args(pretrain(&name).split_whitespace());
            insist(command.current_dir(&ground.folder).envs(variables.iter().copied()))?;
            ground.compare(&format!("srun {options}"), &name)?;
            let journal = std::fs::read_to_string(ground.folder.join(&name).join("journal.jsonl"))?;
            if !journal.contains("\"exchange\":{\"ranks\":3,") {
                bail!("srun {options}: expected three ranks that train one model, found others");
            }
            println!("slurm: three ranks on both nodes, started by srun ({kind}), end with the same bytes");
        }
        let variables = [("DATA", "c"), ("RUN", "requeued"), ("SETTINGS", SETTINGS)];
        let mut job = self.submit(ground, "pretrain.sbatch", "", &variables).stdout(Stdio::null()).spawn()?;
        let pids = processes(&mut job, "requeued", 2)?.context("the job ended before it could be killed")?;
        // Between its first steps: how long all of them take depends on what else the machine does.
        while !ground.folder.join("requeued/journal.jsonl").exists() && job.try_wait()?.is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        insist(Command::new("kill").args(["-9", &pids[1].to_string()]))?;
        println!("slurm: rank 1 of the training job was killed");
        if !job.wait()?.success() {
            bail!("slurm: the job did not go on to its end");
        }
        ground.compare("the requeued job", "requeued")?;
        let log = entries(&ground.folder)?.into_iter().find(|path| path.to_string_lossy().contains("pretrain-"));
        println!("slurm: the requeued job ended with the same bytes; its log:");
        print!("{}", std::fs::read_to_string(log.context("the job leaves a log")?)?);
        Ok(())
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
