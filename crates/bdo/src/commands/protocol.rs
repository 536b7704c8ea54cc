//! What a comparison was spared of the full protocol, by options or by their defaults, and the command that spares nothing.

use std::path::Path;

use bdo_data::division::Split;
use bdo_eval::comparison::{Cut, Protocol};
use bdo_report::journal::Journal;
use bdo_train::settings::Settings;

use super::pretrain::preset;
use super::report::quoted_text;
use super::{baseline_rows, model_rows};
use crate::comparison_args::CompareArgs;

/// Seeds of the protocol.
const SEEDS: usize = 3;
/// Epochs and configurations of its fine-tuning.
const TUNING_EPOCHS: usize = 50;
const TUNING_CONFIGURATIONS: usize = 36;
/// Resamples and permutations behind intervals and p.
const RESAMPLES: usize = 2000;

/// Options that make a comparison smaller; those with a value and the switch.
const OPTIONS: [&str; 10] = [
    "--pretrain-minutes",
    "--finetune-epochs",
    "--finetune-frames",
    "--finetune-budget",
    "--baseline-epochs",
    "--baseline-minutes",
    "--bootstraps",
    "--permutations",
    "--seeds",
    "--no-audit",
];
/// Keys of a configuration that do the same.
const KEYS: [&str; 3] = ["train.epochs", "train.max_minutes", "train.data_fraction"];

/// What was cut, after everything was trained, so that it is known how far it came; `typed` is what followed the program's name.
pub(crate) fn protocol(
    args: &CompareArgs,
    names: &[&str],
    splits: &[Split],
    typed: &[String],
) -> anyhow::Result<Protocol> {
    let (mut cuts, mut more) = (vec![], vec![]);
    let mut cut = |option: &str, what: &str, here: String, full: String| {
        let (option, what) = (option.to_owned(), what.to_owned());
        cuts.push(Cut { what, option, here, full });
    };
    if args.seeds.len() < SEEDS {
        let seeds = args.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        cut("--seeds", "repetitions with random splits", format!("seeds {seeds}"), "seeds 0, 1, 2".to_owned());
    }
    if model_rows::needed(names) && args.model.is_none() {
        let configured = configured_epochs(args)?;
        let (fewest, most) = trained_epochs(&args.out, splits);
        let (limit, full) = (args.pretrain_minutes, format!("{configured:.0} epochs"));
        let came_to = if most - fewest < 0.5 { format!("{fewest:.0}") } else { format!("{fewest:.0} to {most:.0}") };
        if fewest < configured - 0.5 {
            let why = if limit > 0.0 { format!(" in {limit} min for each split") } else { String::new() };
            let option = if limit > 0.0 { "--pretrain-minutes" } else { "--set train.epochs" };
            cut(option, "pre-training of BDO", format!("{came_to} epochs{why}"), full);
        }
        let share = Settings::resolve(&preset(args.config.as_deref())?, &args.set)?.train.data_fraction;
        if share < 1.0 {
            let here = format!("{share} of the training people");
            cut("--set train.data_fraction", "people BDO is pre-trained on", here, "all".to_owned());
        }
        // Left out, the option has a limit of its own.
        more.push("--pretrain-minutes 0");
    }
    let tuned = names.iter().any(|name| name.ends_with("-finetune"));
    if tuned && args.finetune_epochs < TUNING_EPOCHS {
        let (here, full) = (args.finetune_epochs.to_string(), TUNING_EPOCHS.to_string());
        cut("--finetune-epochs", "epochs of fine-tuning", here, full);
    }
    if tuned {
        if args.finetune_budget < TUNING_CONFIGURATIONS {
            let (here, full) = (args.finetune_budget.to_string(), TUNING_CONFIGURATIONS.to_string());
            cut("--finetune-budget", "configurations of fine-tuning", here, full);
        }
        more.push("--finetune-budget 36");
    }
    if names.contains(&"bdo-finetune") {
        if args.finetune_frames > 0 {
            let here = format!("{} of a scan at a visit", args.finetune_frames);
            cut("--finetune-frames", "frames bdo-finetune is trained on", here, "whole scans".to_owned());
        }
        more.push("--finetune-frames 0");
    }
    if let Some(epochs) = args.baseline_epochs {
        let own = names.iter().filter_map(|name| Some((*name, baseline_rows::own_epochs(name)?)));
        let cut_short: Vec<String> = own
            .filter(|(_, own)| (epochs as f64) < own - 0.5)
            .map(|(name, own)| format!("{own:.0} ({name})"))
            .collect();
        if !cut_short.is_empty() {
            cut("--baseline-epochs", "epochs of the baselines", epochs.to_string(), cut_short.join(", "));
        }
    }
    if args.baseline_minutes > 0.0 && names.iter().any(|name| baseline_rows::NAMES.contains(name)) {
        let here = format!("at most {} min each; the flags of a row say what was left of it", args.baseline_minutes);
        cut("--baseline-minutes", "time of the baselines", here, "no limit".to_owned());
    }
    for (option, what, here) in [
        ("--bootstraps", "resamples of people behind each interval", args.bootstraps),
        ("--permutations", "permutations of labels behind each p", args.permutations),
    ] {
        if here < RESAMPLES {
            cut(option, what, here.to_string(), RESAMPLES.to_string());
        }
    }
    if args.no_audit {
        cut("--no-audit", "confound audit", "left out".to_owned(), "made".to_owned());
    }
    if cuts.is_empty() {
        return Ok(Protocol { cuts, command: command(typed), full_command: command(typed) });
    }
    let mut words = uncut(typed, args.seeds.len() < SEEDS);
    words.extend(more.iter().flat_map(|option| option.split(' ').map(str::to_owned)));
    Ok(Protocol { cuts, command: command(typed), full_command: command(&words) })
}

/// Epochs of BDO's pre-training by its configuration, without what cuts them.
fn configured_epochs(args: &CompareArgs) -> anyhow::Result<f64> {
    let sets: Vec<String> = args.set.iter().filter(|set| !cuts_short(set)).cloned().collect();
    Ok(Settings::resolve(&preset(args.config.as_deref())?, &sets)?.train.epochs)
}

fn cuts_short(set: &str) -> bool {
    KEYS.contains(&set.split('=').next().unwrap_or_default().trim())
}

/// The least and the most epochs that pre-trainings of splits have come to; not a number where none says it.
fn trained_epochs(out: &Path, splits: &[Split]) -> (f64, f64) {
    let epochs = splits.iter().filter_map(|split| {
        let run = out.join("pretraining").join(&split.blake3[..16]);
        let record: serde_json::Value = serde_json::from_slice(&std::fs::read(run.join("run.json")).ok()?).ok()?;
        // Not the steps that were planned: the time may have been up before.
        let last = Journal::parse(&std::fs::read_to_string(run.join("journal.jsonl")).ok()?).steps.last()?.step;
        Some((last + 1) as f64 / record["plan"]["steps_per_epoch"].as_f64()?)
    });
    epochs.fold((f64::NAN, f64::NAN), |(low, high), epochs| (epochs.min(low), epochs.max(high)))
}

/// What was typed without the options and keys that cut. Seeds are left as they are unless there are too few. Another folder
/// takes the results: pre-trainings of this one go on as they were configured, or not at all.
fn uncut(typed: &[String], too_few_seeds: bool) -> Vec<String> {
    let (mut kept, mut words) = (vec![], typed.iter());
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        if OPTIONS.contains(&name) && (name != "--seeds" || too_few_seeds) {
            // The value stands in the same word, or is the next one.
            if value.is_none() && name != "--no-audit" {
                words.next();
            }
        } else if name == "--out" {
            let out = value.map(str::to_owned).or_else(|| words.next().cloned()).unwrap_or_default();
            kept.extend(["--out".to_owned(), format!("{}-full", out.trim_end_matches('/'))]);
        } else if name == "--set" {
            let set = value.map(str::to_owned).or_else(|| words.next().cloned()).unwrap_or_default();
            if !cuts_short(&set) {
                kept.extend(["--set".to_owned(), set]);
            }
        } else {
            kept.push(word.clone());
        }
    }
    kept
}

/// Words as one line for a shell.
fn command(words: &[String]) -> String {
    words.iter().fold("bdo".to_owned(), |line, word| format!("{line} {}", quoted_text(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cuts_is_taken_out_and_the_rest_stays_as_it_was_typed() {
        let words = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
        let typed = words(
            "compare|--data|my data|--seeds|0|--no-audit|--targets|a,b|--finetune-epochs=3|--set|train.epochs=2|\
             --set=model.size=small|--permutations|9|--out|it's",
        );
        assert_eq!(
            command(&uncut(&typed, true)),
            r"bdo compare --data 'my data' --targets a,b --set model.size=small --out 'it'\''s-full'"
        );
        assert!(command(&uncut(&typed, false)).contains("--seeds 0 "));
    }
}
