//! The model directory: round trip, and every kind of damage refused by name.

use crate::fuzz::model_directory;
use crate::toy;
use bdo_model::config::ModelConfig;
use bdo_model::init::initial_parameters;
use bdo_model::model::Bdo;
use bdo_model::ops::Kernels;
use bdo_model::parameters::{ParameterError, Parameters, parameter_table};
use bdo_model::weights::{
    CardFacts, ContractError, ModelDirectory, Problem, TrainingPeople, WEIGHTS_FILE, read_parameters, write_parameters,
};
use burn::tensor::Device;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use std::fs;
use std::path::{Path, PathBuf};

fn directory() -> ModelDirectory {
    model_directory::toy(toy::config(), vec![0.1, -0.2, 0.3, 1.0 / 3.0], vec![1.0, 2.0, 0.0, 0.7])
}

/// A weight file and its table, to be damaged.
fn weight_file(folder: &Path) -> (PathBuf, Vec<u8>) {
    let path = folder.join(WEIGHTS_FILE);
    let config = toy::config();
    write_parameters(&path, &parameter_table(&config), &initial_parameters(&config, 1)).unwrap();
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

fn read(path: &Path) -> Result<Parameters, Problem> {
    read_parameters(path, &parameter_table(&toy::config())).map_err(|error| {
        assert!(error.to_string().contains(WEIGHTS_FILE), "the message names the file: {error}");
        error.problem
    })
}

/// The file with its header text changed and its length field kept true.
fn with_header(bytes: &[u8], change: impl Fn(&str) -> String) -> Vec<u8> {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = change(std::str::from_utf8(&bytes[8..8 + length]).unwrap());
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &bytes[8 + length..]].concat()
}

#[test]
fn a_directory_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut written = directory();
    let facts = CardFacts { name: "Toy".into(), ..CardFacts::default() };
    written.write(folder.path(), &facts).unwrap();
    let read = ModelDirectory::read(folder.path()).unwrap();
    // The scans of the training stand beside the contract, which knows them once it is read.
    written.preprocessor.trained_scans = Some(written.people.scans.clone());
    assert_eq!(read, written);
    let card = fs::read_to_string(folder.path().join("README.md")).unwrap();
    assert!(card.contains("# Toy") && card.contains("Not a medical device"));
    let config = fs::read_to_string(folder.path().join("config.json")).unwrap();
    assert!(config.contains(r#""model_type": "bdo""#));
    let mut files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(
        files,
        ["README.md", "config.json", "model.safetensors", "preprocessor_config.json", "training_people.json"]
    );
    let model =
        Bdo::from_parameters(&read.config, read.parameters.clone(), Kernels::default(), &Device::flex()).unwrap();
    assert_eq!(model.parameters(), written.parameters);
}

#[test]
fn other_tools_can_read_the_weights() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = weight_file(folder.path());
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.tensor("encoder.blocks.1.attn.qkv.weight").unwrap().shape(), [24, 8]);
}

#[test]
fn truncated_and_trailing_bytes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = weight_file(folder.path());
    for length in [0, 7, 8, 100, bytes.len() - 4, bytes.len() - 1] {
        fs::write(&path, &bytes[..length]).unwrap();
        assert!(matches!(read(&path), Err(Problem::Truncated { .. })), "cut to {length}");
    }
    fs::write(&path, [&bytes[..], &[0]].concat()).unwrap();
    assert!(matches!(read(&path), Err(Problem::Trailing { .. })));
    fs::write(&path, &bytes).unwrap();
    read(&path).unwrap();
}

#[test]
fn a_header_too_large_is_refused_before_memory_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut bytes) = weight_file(folder.path());
    bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(read(&path), Err(Problem::TooLarge { limit: 16_777_216, found: u64::MAX })));
}

#[test]
fn wrong_names_shapes_types_and_places_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = weight_file(folder.path());
    let refused = |from: &str, to: &str| {
        let changed = with_header(&bytes, |header| {
            assert!(header.contains(from), "{from} is not in the header");
            header.replacen(from, to, 1)
        });
        fs::write(&path, changed).unwrap();
        read(&path).unwrap_err()
    };
    assert!(
        matches!(refused("\"dynamics.cayley\"", "\"dynamics.kayley\""), Problem::Parameter(ParameterError::Missing { name }) if name == "dynamics.cayley")
    );
    let extra = r#"{"zzz":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"#;
    assert!(matches!(refused("{", extra), Problem::Parameter(ParameterError::Unknown { name }) if name == "zzz"));
    assert!(
        matches!(refused("\"shape\":[24,8]", "\"shape\":[8,24]"), Problem::Parameter(ParameterError::Shape { expected, found, .. }) if expected == [24, 8] && found == [8, 24])
    );
    assert!(
        matches!(refused("\"dtype\":\"F32\"", "\"dtype\":\"F16\""), Problem::Dtype { found, .. } if found == "F16")
    );
    assert!(matches!(refused("\"data_offsets\":[0,", "\"data_offsets\":[4,"), Problem::Offsets { .. }));
    assert!(matches!(refused("{", "{\"__metadata__\":{\"a\":1},"), Problem::Json(_)));
    assert!(matches!(refused("{", "["), Problem::Json(_)));
}

#[test]
fn a_name_given_twice_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = weight_file(folder.path());
    let doubled = with_header(&bytes, |header| {
        let body = header.trim_end();
        let start = body.find("\"dynamics.cayley\"").unwrap();
        let entry = &body[start..=start + body[start..].find('}').unwrap()];
        format!("{},{entry}}}", &body[..body.len() - 1])
    });
    fs::write(&path, doubled).unwrap();
    match read(&path).unwrap_err() {
        Problem::Json(error) => assert!(error.to_string().contains("`dynamics.cayley` appears twice"), "{error}"),
        other => panic!("{other}"),
    }
}

#[test]
fn values_that_are_not_finite_are_refused_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut bytes) = weight_file(folder.path());
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(read(&path), Err(Problem::NotFinite { .. })));
    let config = toy::config();
    let mut parameters = initial_parameters(&config, 1);
    parameters.0.get_mut("decoder.linear1.bias").unwrap().values[2] = f32::INFINITY;
    let error = write_parameters(&path, &parameter_table(&config), &parameters).unwrap_err();
    assert!(
        matches!(error.problem, Problem::NotFinite { ref name, index: 2, .. } if name == "decoder.linear1.bias"),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), bytes, "a refused write leaves the old file");
}

#[test]
fn regions_are_matched_by_name() {
    let contract = directory().preprocessor;
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(contract.match_regions(&names(&["d", "x", "c", "b", "a"])).unwrap(), [4, 3, 2, 0]);
    let error = contract.match_regions(&names(&["a", "c"])).unwrap_err();
    assert_eq!(error, ContractError::MissingRegions { expected: 4, missing: names(&["b", "d"]) });
    assert_eq!(error.to_string(), "the data lack 2 of the model's 4 regions: b, d");
    let mut other = contract.clone();
    other.iqrs[1] = -1.0;
    assert!(matches!(other.check(&toy::config()), Err(ContractError::Statistic { field: "iqrs", .. })));
    let mut other = contract.clone();
    other.roi_names[1] = "a".into();
    assert!(matches!(other.check(&toy::config()), Err(ContractError::DuplicateRegion { .. })));
    let clock = ModelConfig { time_scale: 0.2, ..toy::config() };
    assert!(matches!(contract.check(&clock), Err(ContractError::TimeScale { .. })));
}

#[test]
fn training_people_are_recognised() {
    let people = directory().people;
    let (ours, other, none) = ("22".repeat(32), "33".repeat(32), "");
    // The same study: a scan of it was trained on, so its IDs mean the same people.
    let here = people.known_among([("sub-01", &*other, none), ("sub-02", &ours, none), ("sub-03", &other, none)]);
    assert_eq!(["sub-01", "sub-02", "sub-03"].map(|id| here.is_trained(id)), [true, true, false]);
    // Another study that counts from sub-01 too.
    let there = people.known_among([("sub-01", &*other, none), ("sub-02", &other, none)]);
    assert_eq!((there.is_trained("sub-01"), there.namesakes), (false, 1));
    let said = TrainingPeople { by_id: true, ..people.clone() };
    assert!(said.known_among([("sub-01", &*other, none)]).is_trained("sub-01"));
    // The same file, prepared in another way.
    let anew = TrainingPeople { sources: ["44".repeat(32)].into(), ..people.clone() };
    assert!(anew.known_among([("nobody", &*other, &*"44".repeat(32))]).is_trained("nobody"));
    let wrong = TrainingPeople { subjects: ["sub-01".to_owned()].into(), ..people };
    assert!(wrong.check().unwrap_err().to_string().contains("sub-01"));
}

proptest! {
    /// Damage anywhere is refused or harmless, never a crash: what is accepted has the right names, shapes and
    /// finite values.
    #[test]
    fn damaged_bytes_never_crash_the_reader(edits in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4), cut in any::<usize>()) {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut bytes) = weight_file(folder.path());
        let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        for (place, value) in edits {
            // Most damage goes to the header, which is where a reader can be misled.
            let place = if place % 4 == 0 { place % bytes.len() } else { place % header };
            bytes[place] = value;
        }
        if cut % 3 == 0 {
            bytes.truncate(cut % bytes.len());
        }
        fs::write(&path, &bytes).unwrap();
        if let Ok(parameters) = read(&path) {
            for row in parameter_table(&toy::config()) {
                let array = &parameters.0[&row.name];
                prop_assert_eq!(&array.shape, &row.shape);
                prop_assert!(array.values.iter().all(|value| value.is_finite()));
            }
        }
    }
}
