//! The tests of the model run under the options of the default preset, which they read from a file: it says what the preset
//! says.

use bdo_model::config::ModelConfig;
use bdo_train::settings::{Preset, Settings};

#[test]
fn the_model_is_tested_under_the_default_preset() {
    let preset = Settings::preset(Preset::Default).model_config(450);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/golden/default_preset.json");
    let tested = std::fs::read(path).unwrap();
    assert_eq!(preset, serde_json::from_slice::<ModelConfig>(&tested).unwrap());
}
