//! The tests of the model run under the options of the default preset, which they read from a file: it says what the preset
//! says.

use bdo_model::config::ModelConfig;
use bdo_train::settings::Settings;

#[test]
fn the_model_is_tested_under_the_default_preset() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let text = std::fs::read_to_string(format!("{root}/configs/default.toml")).unwrap();
    let preset = Settings::resolve(&text, &[]).unwrap().model_config(450);
    let tested = std::fs::read(format!("{root}/testdata/golden/default_preset.json")).unwrap();
    assert_eq!(preset, serde_json::from_slice::<ModelConfig>(&tested).unwrap());
}
