//! What is compared, and how.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use bdo_data::shard::Shard;
use bdo_eval::method::FitOn;
use clap::Args;
use serde::Serialize;

use super::asked::{Asked, AskedParser};
use super::row::Row;
use crate::args::{
    Choice, Configuration, Data, General, SEEDS, SeedSpan, above_zero, as_typed, command_line, one_of, parsed,
    positive, shard,
};
use crate::commands::finetune::RATES;

/// Compare methods on labels of people under the same splits, beside what can be said without a brain
#[derive(Debug, Clone, PartialEq, Args, Serialize)]
#[command(
    after_help = "Examples:\n  bdo compare --data cohort --targets age,sex --out comparison\n  bdo compare --data cohort --targets diagnosis --methods fc,fc-combat --site-groups --out comparison"
)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) cohort: Data,
    /// Columns of the participants table to predict
    #[arg(long, value_name = "A,B", value_delimiter = ',', required = true, help_heading = "Input")]
    pub(crate) targets: Vec<String>,
    /// Rows besides those every table has; rows of features joined by + are one row with the sum of their kernels
    /// (bdo-mean+fc-tangent)
    #[arg(long, value_name = "M,N", value_delimiter = ',', value_parser = AskedParser, help_heading = "Input")]
    pub(crate) methods: Vec<Asked>,
    /// A pre-trained model for the rows of BDO; its training people among the tested are flagged [default: one is
    /// pre-trained for every split, on its training people]
    #[arg(long, value_name = "DIR", help_heading = "Input")]
    pub(crate) model: Option<PathBuf>,
    /// Where results and tables go; what is there already is used again
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: PathBuf,
    /// One of N processes that share the work through the output folder: a task of one that was killed is taken over, part 1
    /// writes the tables; auto for the task of a Slurm array
    #[arg(long, value_name = "I/N", value_parser = shard, help_heading = "Output")]
    #[serde(skip)]
    pub(crate) shard: Option<Shard>,
    #[command(flatten)]
    pub(crate) training: Training,
    #[command(flatten)]
    pub(crate) people: People,
    #[command(flatten)]
    pub(crate) statistics: Statistics,
}

#[derive(Debug, Clone, PartialEq, Args, Serialize)]
#[command(next_help_heading = "Training")]
pub(crate) struct Training {
    #[command(flatten)]
    pub(crate) configuration: Configuration,
    /// Time for each pre-training of BDO where no model is given; 0 for the epochs of the configuration
    #[arg(long, value_name = "M", default_value_t = 15.0)]
    pub(crate) pretrain_minutes: f64,
    /// Epochs of the rows that are fine-tuned
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = positive)]
    pub(crate) finetune_epochs: usize,
    /// Configurations of the rows that are fine-tuned, of the protocol's grid of 36
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = positive)]
    pub(crate) finetune_budget: usize,
    /// Learning rates bdo-finetune runs each of them with; the protocol's is 1e-3
    #[arg(long, value_name = "R,R", value_delimiter = ',', default_values_t = RATES)]
    pub(crate) finetune_rates: Vec<f64>,
    /// Most time for bdo-finetune under one split: as many epochs are run as fit; 0 for no limit
    #[arg(long, value_name = "M", default_value_t = 0.0)]
    pub(crate) finetune_minutes: f64,
    /// Epochs of the rows brainnetcnn, braingnn, brainnettf, brainlm and brainjepa [default: those of their authors]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) baseline_epochs: Option<usize>,
    /// Most time for each training of those rows and of brainlm-finetune and brainjepa-finetune: as many epochs are run as
    /// fit; 0 for no limit
    #[arg(long, value_name = "M", default_value_t = 0.0)]
    pub(crate) baseline_minutes: f64,
    /// Operations of each pre-training and each training of a network, in billions, in place of times and epochs: equal compute
    /// for every row
    #[arg(long, value_name = "G", value_parser = above_zero)]
    #[arg(conflicts_with_all = ["pretrain_minutes", "baseline_epochs", "baseline_minutes"])]
    pub(crate) train_gflops: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Args, Serialize)]
#[command(next_help_heading = "People")]
pub(crate) struct People {
    /// Repetitions with random splits
    #[arg(long, value_name = "N,N-M", value_delimiter = ',', default_values_t = SEEDS)]
    pub(crate) seeds: Vec<SeedSpan>,
    /// Divide people once per seed, evenly by this label, and use that for every target: one pre-training per seed instead
    /// of one per seed and target [default: evenly by each target, people without it left out]
    #[arg(long, value_name = "TARGET")]
    pub(crate) stratify_by: Option<String>,
    /// Also leave out groups of sites (rows that train end to end are run on random splits only)
    #[arg(long)]
    pub(crate) site_groups: bool,
    /// Who closed-form methods are fitted on
    #[arg(long, value_parser = one_of::<FitOn>(), default_value = "train")]
    #[serde(serialize_with = "as_typed")]
    pub(crate) fit_on: FitOn,
    /// Column of families, whose members stay together [default: recognised]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) family_column: Option<String>,
    /// Column of sites [default: recognised]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) site_column: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Args, Serialize)]
#[command(next_help_heading = "Statistics")]
pub(crate) struct Statistics {
    /// Resamples of people behind each interval
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = positive)]
    pub(crate) bootstraps: usize,
    /// Permutations of labels behind each p
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = positive)]
    pub(crate) permutations: usize,
    /// Rows that every other is compared with, paired over splits (besides what a row brings with it: the same untrained,
    /// the last member of a stack)
    #[arg(long, value_name = "M,N", value_delimiter = ',', value_parser = AskedParser, hide_possible_values = true,
          default_value = "fc")]
    pub(crate) against: Vec<Asked>,
    /// Do not ask how well connectivity predicts site, repetition time, scan length and head motion
    #[arg(long)]
    pub(crate) no_audit: bool,
}

impl People {
    pub(crate) fn seeds(&self) -> Vec<u64> {
        SeedSpan::seeds(&self.seeds)
    }
}

impl CompareArgs {
    /// Everything else at its default.
    pub(crate) fn new(data: &Path, targets: &[&str], methods: &[Row], out: &Path) -> Self {
        let word = |flag: &str, value: &OsStr| [OsStr::new(flag), value].join(OsStr::new("="));
        let mut words = vec![word("--data", data.as_os_str()), word("--out", out.as_os_str())];
        words.extend(targets.iter().map(|target| word("--targets", target.as_ref())));
        words.extend(methods.iter().map(|row| word("--methods", row.typed().as_ref())));
        parsed(words)
    }

    /// Whether BDO is pre-trained for every split.
    pub(super) fn trains(&self, rows: &[Asked]) -> bool {
        self.model.is_none() && rows.iter().flat_map(Asked::members).any(|row| row.needs_model())
    }

    pub(crate) fn command(&self, general: General) -> String {
        command_line("compare", self, general)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;
    use crate::cli::{Cli, Verb};
    use clap::Parser;

    pub(in super::super) fn parsed(line: &str) -> CompareArgs {
        match Cli::try_parse_from(line.split(' ')).unwrap().verb {
            Verb::Compare(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_is_the_command_that_repeats_it() {
        let plain = parsed("bdo compare --data c --targets age,sex --out o");
        assert_eq!(plain, CompareArgs::new(Path::new("c"), &["age", "sex"], &[], Path::new("o")));
        assert_eq!(plain.command(General::default()), "bdo compare --data c --targets age,sex --out o");
        let typed = "bdo compare --data c --targets a --methods bdo-probe,brainlm-finetune --model m --out o --config f.toml \
                     --set x.y=1 --set z=2 --pretrain-minutes 0.5 --finetune-budget 36 --baseline-epochs 2 --seeds 3 \
                     --site-groups --fit-on train-and-validation --family-column f --permutations 9 --no-audit --seed 7 --device cuda:1";
        let general = General { seed: 7, device: "cuda:1".parse().unwrap() };
        assert_eq!(parsed(typed).command(general), typed);
    }
}
