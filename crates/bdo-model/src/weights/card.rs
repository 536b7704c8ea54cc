//! The model card, generated from the same values as the files beside it.

use super::{PreprocessorConfig, TrainingPeople};
use crate::config::ModelConfig;
use crate::parameters::{encoder_table, parameter_table, trainable_count};

/// What only the training run knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CardFacts {
    /// Name shown as the title.
    pub name: String,
    /// Version of the software that trained it.
    pub software_version: String,
    /// Where the training data came from, in words.
    pub data: String,
    /// How it was trained, in words: steps, batch, schedule, seed.
    pub training: String,
    /// Results as lines of text; each must say on whom and how it was measured.
    pub results: Vec<String>,
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
         Series of the atlas `{atlas}` ({atlas_hash}), matched by region name; {dropped} volumes dropped at the start; \
         each region centred per scan, then scaled by the stored medians and inter-quartile ranges \
         (fitted on {scans} scans, list {list_hash}); time in seconds times {time_scale}.\n\n\
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
        tau = config.loss.tau,
        version = or_unknown(&facts.software_version),
        atlas = contract.atlas_name,
        atlas_hash = contract.atlas_hash,
        dropped = contract.dropped_volumes,
        scans = contract.scan_count,
        list_hash = contract.scan_list_hash,
        time_scale = contract.time_scale,
        data = or_unknown(&facts.data),
        subjects = people.subjects.len(),
        people_scans = people.scans.len(),
        training = or_unknown(&facts.training),
    )
}
