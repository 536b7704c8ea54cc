//! The model a training started from: the same configuration, initial weights, scaler and people, and no step. What a
//! trained feature is worth more than this was learned.

use std::path::Path;

use bdo_model::init::initial_parameters;
use bdo_model::weights::{CardFacts, ModelDirectory};

use crate::error::EvalError;

/// Makes sure that `folder` holds the untrained twin of a model; false where the model does not record its seed.
pub fn untrained_twin(model: &Path, folder: &Path) -> Result<bool, EvalError> {
    let trained = ModelDirectory::read(model)?;
    let Some(mut notes) = trained.notes.clone() else { return Ok(false) };
    notes.steps = 0;
    let parameters = initial_parameters(&trained.config, notes.seed);
    let facts = CardFacts {
        name: "BDO, untrained".to_owned(),
        software_version: env!("CARGO_PKG_VERSION").to_owned(),
        data: "only the scaler comes from data, those of the trained model".to_owned(),
        training: format!("None: the initial weights of seed {}.", notes.seed),
        ..CardFacts::default()
    };
    let twin = ModelDirectory { parameters, notes: Some(notes), ..trained };
    let same = |found: ModelDirectory| {
        found.parameters == twin.parameters && found.config == twin.config && found.people == twin.people
    };
    if !ModelDirectory::read(folder).is_ok_and(same) {
        twin.write(folder, &facts)?;
    }
    Ok(true)
}
