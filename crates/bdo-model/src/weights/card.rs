//! The model card, generated from the same values as the files beside it.

use super::{PreprocessorConfig, TrainingPeople};
use crate::config::ModelConfig;
use crate::intake::Centre;
use crate::parameters::{encoder_table, parameter_table, trainable_count};

/// Facts for the model card that come from the training run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CardFacts {
    /// Name shown as the title.
    pub name: String,
    /// Version of the software that trained it.
    pub software_version: String,
    /// Where the training data came from, in words.
    pub data: String,
    /// How series are centred and scaled, in words.
    pub input: String,
    /// How it was trained, in words: steps, batch, schedule, seed.
    pub training: String,
    /// Results as lines of text; each must say on whom and how it was measured.
    pub results: Vec<String>,
}

/// How the series of a model are centred and scaled, in words. Training may centre on the whole scan; evaluation and inference
/// always centre on visible frames.
pub fn input_words(config: &ModelConfig, centre: Centre) -> String {
    let centre = match centre {
        Centre::Visible => "its mean over the visible frames",
        Centre::Scan => "its mean over the scan (in evaluation and inference: over the visible frames)",
    };
    let unit = if config.unit_regions {
        " Each region of a scan is divided by the root mean square of its own visible values."
    } else if config.unit_input {
        " Each scan is then divided by the root mean square of its visible values, and predictions are multiplied by it again."
    } else {
        ""
    };
    format!(
        "Each region is centred on {centre}, then shifted by the median and divided by the inter-quartile range of the training people.{unit} Time runs at {} units per second.",
        config.time_scale
    )
}

/// README.md of a model directory.
pub fn model_card(
    config: &ModelConfig,
    contract: &PreprocessorConfig,
    people: &TrainingPeople,
    facts: &CardFacts,
) -> String {
    let or_unknown = |text: &str| if text.is_empty() { "not stated".to_owned() } else { text.to_owned() };
    let results = if facts.results.is_empty() {
        "None recorded.".to_owned()
    } else {
        facts.results.iter().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n")
    };
    format!(
        "---\nlibrary_name: bdo\ntags: [fmri, brain, self-supervised]\n---\n\n\
         # {name}\n\n\
         A BDO model: it encodes the visible frames of a functional MRI scan and predicts the others through a linear \
         stochastic process in a latent space.\n\n\
         ## Model\n\n\
         | | |\n|---|---|\n\
         | regions | {regions} |\n| latent width | {width} |\n| blocks x heads | {blocks} x {heads} |\n\
         | trainable parameters | {total} |\n| of them in the encoder | {encoder} |\n\
         | diffusion | {diffusion} |\n| tau | {tau} |\n| trained with | bdo {version} |\n\n\
         ## Input it expects\n\n\
         Series of the atlas `{atlas}` ({atlas_hash}), matched by region name; {dropped} volumes dropped at the start. \
         {input}\n\n\
         Medians and inter-quartile ranges are stored beside the weights; they were fitted on {scans} scans (list {list_hash}).\n\n\
         ## Training\n\n\
         Data: {data}. {subjects} people and {people_scans} scans, whose hashes are in `training_people.json`: \
         check that nobody you test on is among them.\n\n\
         {training}\n\n\
         ## Results\n\n{results}\n\n\
         ## Limits\n\n\
         Research software. Not a medical device: not for diagnosis or treatment. A model knows the scanners, ages and \
         preprocessing it was trained on; results elsewhere must be measured, not assumed.\n",
        name = if facts.name.is_empty() { "BDO" } else { &facts.name },
        regions = config.regions,
        width = config.width,
        blocks = config.blocks,
        heads = config.heads,
        total = trainable_count(&parameter_table(config)),
        encoder = trainable_count(&encoder_table(config)),
        diffusion = config.dynamics.diffusion,
        tau = config.tau(),
        version = or_unknown(&facts.software_version),
        atlas = contract.atlas_name,
        atlas_hash = contract.atlas_hash,
        dropped = contract.dropped_volumes,
        scans = contract.scan_count,
        list_hash = contract.scan_list_hash,
        input = or_unknown(&facts.input),
        data = or_unknown(&facts.data),
        subjects = people.subjects.len(),
        people_scans = people.scans.len(),
        training = or_unknown(&facts.training),
    )
}
