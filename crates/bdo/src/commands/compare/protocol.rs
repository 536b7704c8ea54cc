//! What a comparison leaves out of the full protocol, by options or by their defaults, and the command that leaves out nothing.

use bdo_eval::comparison::{Cut, Protocol};

use super::CompareArgs;
use super::asked::Asked;
use super::pretraining::{self, Run};
use super::request::{Statistics, Training};
use super::row::Row;
use crate::args::{Choice, Configuration, General, SEEDS};

/// Configurations of the protocol's fine-tuning.
const TUNING_CONFIGURATIONS: usize = 36;
/// Keys of a configuration that shorten pre-training.
const KEYS: [&str; 3] = ["train.epochs", "train.max_minutes", "train.data_fraction"];

/// What was cut. It is asked after everything was trained, so that it is known how far the runs came.
pub(super) fn protocol(args: &CompareArgs, rows: &[Asked], runs: &[Run], general: General) -> anyhow::Result<Protocol> {
    let mut cuts = Cuts::default();
    let too_few_seeds = args.people.seeds().len() < SEEDS.len();
    if too_few_seeds {
        let seeds = args.people.seeds().iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        cuts.add("--seeds", "repetitions with random splits", format!("seeds {seeds}"), "seeds 0, 1, 2");
    }
    let trained_here = args.trains(rows);
    if trained_here {
        cuts.pretraining(args, runs)?;
    }
    let default = CompareArgs::new(&args.cohort.data, &[""], &[], &args.out);
    let rows: Vec<Row> = rows.iter().filter_map(Asked::single).collect();
    let tuned = rows.iter().any(|row| row.is_finetuned());
    cuts.training(&args.training, &default.training, &rows, tuned);
    let (given, full) = (&args.statistics, &default.statistics);
    for (option, what, here, full) in [
        ("--bootstraps", "resamples of people behind each interval", given.bootstraps, full.bootstraps),
        ("--permutations", "permutations of labels behind each p", given.permutations, full.permutations),
    ] {
        cuts.fewer(option, what, here, full);
    }
    if given.no_audit {
        cuts.add("--no-audit", "confound audit", "left out", "made");
    }
    let command = args.command(general);
    if cuts.0.is_empty() {
        return Ok(Protocol { cuts: cuts.0, full_command: command.clone(), command });
    }
    let mut full = CompareArgs {
        // Pre-trainings of this folder go on as they were configured, or not at all.
        out: format!("{}-full", args.out.display().to_string().trim_end_matches('/')).into(),
        statistics: Statistics { against: args.statistics.against.clone(), ..default.statistics },
        training: Training {
            configuration: uncut(&args.training.configuration),
            pretrain_minutes: if trained_here { 0.0 } else { default.training.pretrain_minutes },
            finetune_budget: if tuned { TUNING_CONFIGURATIONS } else { default.training.finetune_budget },
            ..default.training
        },
        ..args.clone()
    };
    if too_few_seeds {
        full.people.seeds = SEEDS.to_vec();
    }
    Ok(Protocol { cuts: cuts.0, command, full_command: full.command(general) })
}

#[derive(Default)]
struct Cuts(Vec<Cut>);

impl Cuts {
    fn add(&mut self, option: &str, what: &str, here: impl Into<String>, full: impl Into<String>) {
        self.0.push(Cut { what: what.to_owned(), option: option.to_owned(), here: here.into(), full: full.into() });
    }

    /// A number that is smaller than the protocol's.
    fn fewer(&mut self, option: &str, what: &str, here: usize, full: usize) {
        if here < full {
            self.add(option, what, here.to_string(), full.to_string());
        }
    }

    fn pretraining(&mut self, args: &CompareArgs, runs: &[Run]) -> anyhow::Result<()> {
        let Training { configuration, pretrain_minutes, train_gflops, .. } = &args.training;
        // Operations are the limit of every training; they are said once.
        if train_gflops.is_some() {
            return Ok(());
        }
        let limit = pretrain_minutes;
        let configured = uncut(configuration).resolve(&[])?.settings.train.epochs;
        let (fewest, most) = pretraining::epochs(runs);
        let came_to = if most - fewest < 0.5 { format!("{fewest:.0}") } else { format!("{fewest:.0} to {most:.0}") };
        if fewest < configured - 0.5 {
            let why = if *limit > 0.0 { format!(" in {limit} min for each split") } else { String::new() };
            let option = if *limit > 0.0 { "--pretrain-minutes" } else { "--set train.epochs" };
            let full = format!("{configured:.0} epochs");
            self.add(option, "pre-training of BDO", format!("{came_to} epochs{why}"), full);
        }
        let share = configuration.resolve(&[])?.settings.train.data_fraction;
        if share < 1.0 {
            let here = format!("{share} of the training people");
            self.add("--set train.data_fraction", "people BDO is pre-trained on", here, "all");
        }
        Ok(())
    }

    fn training(&mut self, given: &Training, default: &Training, rows: &[Row], tuned: bool) {
        if tuned {
            let full = default.finetune_epochs;
            self.fewer("--finetune-epochs", "epochs of fine-tuning", given.finetune_epochs, full);
            let what = "configurations of fine-tuning";
            self.fewer("--finetune-budget", what, given.finetune_budget, TUNING_CONFIGURATIONS);
        }
        if let Some(gflops) = given.train_gflops {
            let here = format!("{gflops} billion each");
            self.add("--train-gflops", "operations of pre-trainings and networks", here, "the epochs of the authors");
        }
        if tuned && given.finetune_minutes > 0.0 {
            let here = format!("at most {} min under each split", given.finetune_minutes);
            self.add("--finetune-minutes", "time of bdo-finetune", here, "no limit");
        }
        if let Some(epochs) = given.baseline_epochs {
            let cut_short: Vec<String> = (rows.iter())
                .filter_map(|row| Some((row.typed(), row.own_epochs()?)))
                .filter(|(_, own)| (epochs as f64) < own - 0.5)
                .map(|(name, own)| format!("{own:.0} ({name})"))
                .collect();
            if !cut_short.is_empty() {
                self.add("--baseline-epochs", "epochs of the baselines", epochs.to_string(), cut_short.join(", "));
            }
        }
        if given.baseline_minutes > 0.0 && rows.iter().any(|row| row.is_baseline()) {
            let here =
                format!("at most {} min each; the flags of a row say what was left of it", given.baseline_minutes);
            self.add("--baseline-minutes", "time of the baselines", here, "no limit");
        }
    }
}

/// A configuration without the keys that shorten pre-training.
fn uncut(configuration: &Configuration) -> Configuration {
    let cuts = |set: &str| KEYS.contains(&set.split('=').next().unwrap_or_default().trim());
    let set = configuration.set.iter().filter(|set| !cuts(set)).cloned().collect();
    Configuration { set, ..configuration.clone() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::request::tests::parsed;
    use super::super::rows;
    use super::*;

    #[test]
    fn the_full_protocol_keeps_what_does_not_cut() {
        let mut args = parsed(
            "bdo compare --data c --targets a,b --seeds 0 --no-audit --finetune-epochs 3 --set train.epochs=2 --set \
             model.size=small --permutations 9 --methods bdo-finetune --model m --out o",
        );
        args.out = "it's".into();
        let found = protocol(&args, &rows(&args), &[], General::default()).unwrap();
        let options: Vec<&str> = found.cuts.iter().map(|cut| cut.option.as_str()).collect();
        let all = "--seeds --finetune-epochs --finetune-budget --permutations --no-audit";
        assert_eq!(options.join(" "), all);
        assert_eq!(
            found.full_command,
            r"bdo compare --data c --targets a,b --methods bdo-finetune --model m --out 'it'\''s-full' --set model.size=small --finetune-budget 36"
        );
        args.people.seeds = vec!["5-7".parse().unwrap()];
        assert!(protocol(&args, &rows(&args), &[], General::default()).unwrap().full_command.contains("--seeds 5-7"));
    }
}
