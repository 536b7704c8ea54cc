//! `bdo infer conformal`: intervals and sets around a head's predictions that hold for new people.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use bdo_data::cohort::Cohort;
use bdo_data::division::SplitManifest;
use bdo_data::durable;
use bdo_data::random::{shuffle, stream};
use bdo_data::target::{Target, TargetKind};
use bdo_eval::conformal::Conformal;
use bdo_eval::fitted::{FittedHead, mean_of};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::ConformalArgs;
use crate::answer::Answer;
use crate::cli::Common;
use crate::commands::predict::{note_namesakes, predicted};

const FORMAT: &str = "bdo-conformal/1";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CalibratedHead {
    format: String,
    target: String,
    numbers_blake3: String,
    cohort_blake3: String,
    pub(crate) conformal: Conformal,
}

/// Reads the file of `bdo infer conformal`, which must be of this head.
pub(crate) fn read(path: &Path, head: &FittedHead) -> anyhow::Result<Conformal> {
    let found: CalibratedHead = serde_json::from_slice(&durable::read(path)?)
        .with_context(|| format!("{}: expected the file of bdo infer conformal", path.display()))?;
    if found.format != FORMAT || found.numbers_blake3 != head.numbers_blake3 {
        bail!(
            "{}: expected {FORMAT} for the head with BLAKE3 {}, found {} for {}",
            path.display(),
            head.numbers_blake3,
            found.format,
            found.numbers_blake3
        );
    }
    Ok(found.conformal)
}

pub(super) fn run(args: &ConformalArgs, common: &Common) -> anyhow::Result<Answer> {
    if !(args.level > 0.0 && args.level < 1.0) {
        bail!("--level: expected a chance above 0 and below 1, found {}", args.level);
    }
    let head = FittedHead::read(&args.from.head)?;
    let cohort = Cohort::open(&args.from.cohort.data)?;
    let target = Target::read_as(cohort.participants(), &head.target, &head.task)?;
    let predictions = predicted(&args.from, &head, &cohort, common)?;
    note_namesakes(predictions.namesakes, common);
    // Names of the head's splits mean nothing in another study.
    let used = if predictions.same_study { used_people(&args.from.head) } else { Vec::new() };
    let mut people: BTreeMap<&str, Vec<Vec<f64>>> = BTreeMap::new();
    for scan in predictions.scans.iter().filter(|s| !s.seen_by_head) {
        let subject = scan.row.subject.as_str();
        if target.value(subject).is_some() && !used.iter().any(|u| u == subject) {
            people.entry(subject).or_default().push(scan.mean());
        }
    }
    let said: Vec<Said> = people.iter().map(|(subject, scans)| (mean_of(scans), target.values[*subject])).collect();
    let least = (1.0 / (1.0 - args.level)).ceil() as usize;
    if said.len() < least {
        bail!(
            "{}: expected at least {least} labelled people whom the head was neither fitted nor chosen on, found {}; hint: a head of \
             one seed (bdo probe --seeds 0) leaves a fifth of its cohort",
            args.from.cohort.data.display(),
            said.len()
        );
    }
    let all: Vec<usize> = (0..said.len()).collect();
    let conformal = calibrate(args.level, &said, &all);
    let file = CalibratedHead {
        format: FORMAT.to_owned(),
        target: head.target.clone(),
        numbers_blake3: head.numbers_blake3.clone(),
        cohort_blake3: cohort.content_blake3()?,
        conformal,
    };
    durable::write_json(&args.out, &file)?;
    let checked = halvings(args, &said, common.seed);
    let wide = match &head.task {
        TargetKind::Regression => format!("intervals reach {:.3} to either side", file.conformal.threshold),
        TargetKind::Classification { .. } => {
            format!("classes with a chance of {:.3} or more stay in the set", 1.0 - file.conformal.threshold)
        }
    };
    let mut text = format!("{}: {} of {} people, {wide}", args.out.display(), head.target, said.len());
    if let Some(checked) = &checked {
        text.push_str(&format!(
            "\n{} random halves: {:.1} % inside where {:.1} % was asked for (binomial error of one half {:.1} %), {:.1} % decided",
            args.splits,
            100.0 * checked.coverage,
            100.0 * args.level,
            100.0 * checked.binomial_error,
            100.0 * checked.decided
        ));
    }
    let json = json!({"out": args.out, "target": head.target, "people": said.len(), "conformal": file.conformal, "halves": checked});
    Ok(Answer::new(json, text))
}

/// Validation people of the head's own splits: nothing was fitted on them, but its settings were chosen by them.
fn used_people(head: &Path) -> Vec<String> {
    let manifest = durable::read(&head.join("splits.json")).ok();
    let manifest: Option<SplitManifest> = manifest.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let splits = manifest.map(|m| m.splits).unwrap_or_default();
    splits.iter().flat_map(|s| s.validation.subjects().iter().chain(s.train.subjects()).cloned()).collect()
}

/// What is said of a person, and what is true.
type Said = (Vec<f64>, f64);

fn calibrate(level: f64, said: &[Said], people: &[usize]) -> Conformal {
    Conformal::of_people(level, people.iter().map(|&i| (said[i].0.as_slice(), said[i].1)))
}

#[derive(Serialize)]
struct Halvings {
    coverage: f64,
    binomial_error: f64,
    decided: f64,
}

/// Calibrates on random halves and looks at the others.
fn halvings(args: &ConformalArgs, said: &[Said], seed: u64) -> Option<Halvings> {
    let half = said.len() / 2;
    if half < 2 || args.splits == 0 {
        return None;
    }
    let (mut inside, mut decided, mut count) = (0usize, 0usize, 0usize);
    for split in 0..args.splits {
        let mut order: Vec<usize> = (0..said.len()).collect();
        shuffle(&mut order, &mut stream("conformal halves", &[seed, split]));
        let conformal = calibrate(args.level, said, &order[..half]);
        for (said, truth) in order[half..].iter().map(|&i| &said[i]) {
            count += 1;
            inside += usize::from(conformal.holds(said, *truth));
            let is_decided =
                if said.len() == 1 { conformal.threshold.is_finite() } else { conformal.set(said).len() == 1 };
            decided += usize::from(is_decided);
        }
    }
    let n = count as f64;
    let tested = (said.len() - half) as f64;
    Some(Halvings {
        coverage: inside as f64 / n,
        binomial_error: (args.level * (1.0 - args.level) / tested).sqrt(),
        decided: decided as f64 / n,
    })
}
