//! Probes find what is there, nothing where there is nothing, and never look at the test people.

use crate::fixture::{Silent, cohort, model, noise, reordered_cohort};
use bdo_data::division::{Division, Scheme, Split};
use bdo_data::participants::Participants;
use bdo_data::target::{Target, TargetKind};
use bdo_eval::error::EvalError;
use bdo_eval::features::{FeatureTable, ScanRow};
use bdo_eval::fit::ProbePoint;
use bdo_eval::fitted::{FittedHead, HeadKind};
use bdo_eval::outcome::HeadRequest;
use bdo_eval::predict::{Trusting, predict};
use bdo_eval::probe::{ProbeSettings, probe, probe_features};
use bdo_model::error::ModelError;
use bdo_model::pooling::Pooling;
use burn::tensor::Device;
use std::path::{Path, PathBuf};

const PEOPLE: usize = 200;
const WIDTH: usize = 8;

fn people() -> Participants {
    let mut table = Participants::with_columns(["group", "age"]);
    for person in 0..PEOPLE {
        let labels = vec![Some(["no", "yes"][person % 2].to_owned()), Some((person as f64 * 0.37).to_string())];
        table.insert(format!("p{person:03}"), labels);
    }
    table
}

/// Features whose first column tells the classes apart by two units, with noise of one.
fn features() -> FeatureTable {
    let mut draw = noise("probe features", &[]);
    let mut values = Vec::new();
    for person in 0..PEOPLE {
        values.extend((0..WIDTH).map(|_| draw()));
        values[person * WIDTH] += if person % 2 == 1 { 1.0 } else { -1.0 };
    }
    let row = |p: usize| ScanRow { scan: format!("p{p:03}"), subject: format!("p{p:03}"), session: None };
    let values = values.into_iter().map(f64::from).collect();
    FeatureTable::new((0..PEOPLE).map(row).collect(), WIDTH, values).unwrap()
}

fn split(people: &Participants, target: &str, seed: u64) -> Split {
    Division::of_people(people).split(Some(target), Scheme::Random, seed).unwrap()
}

#[test]
fn classes_that_can_be_told_apart_are_and_shuffled_ones_are_not() {
    let (people, table) = (people(), features());
    let target = Target::of(&people, "group").unwrap();
    let settings = ProbeSettings { epochs: 20, ..ProbeSettings::protocol("group") };
    let (found, _) = probe_features(&table, &target, &split(&people, "group", 0), &settings).unwrap();
    let accuracy = found.test.get("accuracy").unwrap();
    // The columns are uniform, one unit to either side of each class' own centre: the classes touch at zero.
    assert!(accuracy >= 0.95, "{accuracy}");
    assert_eq!(found.people, [120, 40, 40]);
    let quick = ProbeSettings { epochs: 5, grid: ProbePoint::grid()[..2].to_vec(), ..settings };
    let runs = 100;
    let mean = (0..runs)
        .map(|seed| {
            let shuffled = target.shuffled(seed);
            let split = split(&people, "group", seed);
            // Shuffling may leave a part with few of a class, never with none.
            probe_features(&table, &shuffled, &split, &quick).unwrap().0.test.get("auc").unwrap()
        })
        .sum::<f64>()
        / runs as f64;
    // One AUC of 20 against 20 people has a spread of sqrt(41 / 4800) = 0.092; the mean of 100, of 0.0092.
    assert!((mean - 0.5).abs() < 0.03, "{mean}");
}

#[test]
fn three_classes_that_can_be_told_apart_are() {
    let (mut people, mut table) = (Participants::with_columns(["kind"]), features());
    for person in 0..PEOPLE {
        let kind = ["left", "middle", "right"][person % 3];
        people.insert(format!("p{person:03}"), vec![Some(kind.to_owned())]);
        // Two columns of two units: no single direction tells all three apart.
        let row = table.features.row_mut(person);
        row[1] += [2.0, -2.0, -2.0][person % 3];
        row[2] += [0.0, 2.0, -2.0][person % 3];
    }
    let target = Target::of(&people, "kind").unwrap();
    let settings = ProbeSettings { epochs: 20, ..ProbeSettings::protocol("kind") };
    let (found, member) = probe_features(&table, &target, &split(&people, "kind", 0), &settings).unwrap();
    assert_eq!(member.parameters.len(), 3 * (WIDTH + 1));
    assert!(found.test.get("accuracy").unwrap() >= 0.9 && found.test.get("auc").unwrap() > 0.97, "{:?}", found.test);
    for person in &found.predictions {
        assert!((person.predicted.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{person:?}");
    }
    let shuffled = probe_features(&table, &target.shuffled(3), &split(&people, "kind", 0), &settings).unwrap().0;
    // 40 tested people: a third is right by chance, with a standard deviation of 7.5 %.
    assert!(shuffled.test.get("accuracy").unwrap() < 0.6, "{:?}", shuffled.test);
}

#[test]
fn a_number_is_predicted_in_its_own_units() {
    let (people, mut table) = (people(), features());
    for person in 0..PEOPLE {
        table.features.row_mut(person)[3] = f64::from((person as f32 * 0.37 - 37.0) / 20.0);
    }
    let target = Target::of(&people, "age").unwrap();
    assert_eq!(target.kind, TargetKind::Regression);
    let (found, member) =
        probe_features(&table, &target, &split(&people, "age", 1), &ProbeSettings::protocol("age")).unwrap();
    let (rho, mse) = (found.test.get("rho").unwrap(), found.test.get("mse").unwrap());
    assert!(rho > 0.99 && mse < 0.05, "{rho} {mse}");
    let errors: Vec<f64> = found.predictions.iter().map(|p| (p.said() - p.truth).abs()).collect();
    assert!(errors.iter().all(|e| *e < 12.0), "{errors:?}");
    assert!((member.label_mean - 36.8).abs() < 3.0, "{}", member.label_mean);
}

#[test]
fn nothing_is_chosen_by_the_test_people() {
    let (people, table) = (people(), features());
    let split = split(&people, "group", 2);
    let settings = ProbeSettings { epochs: 4, standardise: true, ..ProbeSettings::protocol("group") };
    let target = Target::of(&people, "group").unwrap();
    let (before, kept) = probe_features(&table, &target, &split, &settings).unwrap();
    let mut turned = target.clone();
    for person in split.test.subjects() {
        let value = turned.values.get_mut(person).unwrap();
        *value = 1.0 - *value;
    }
    let mut moved = table.clone();
    for (i, row) in table.rows.iter().enumerate().filter(|(_, row)| split.test.contains(&row.subject)) {
        moved.features.row_mut(i)[0] += row.scan.len() as f64 * 100.0;
    }
    let (after, same) = probe_features(&moved, &turned, &split, &settings).unwrap();
    assert_eq!((kept.parameters, kept.transform), (same.parameters, same.transform));
    assert_eq!((before.tried, before.validation), (after.tried, after.validation));
    assert_ne!(before.test, after.test);
}

fn request(dir: &Path, model: PathBuf, target: &str, out: &str) -> HeadRequest<ProbeSettings> {
    let grid = ProbePoint::grid()[..2].to_vec();
    HeadRequest {
        trusting: Trusting::default(),
        device: Device::flex(),
        model,
        data: dir.join("c"),
        test_data: None,
        out: dir.join(out),
        settings: ProbeSettings { epochs: 5, seeds: vec![0, 1], grid, ..ProbeSettings::protocol(target) },
    }
}

#[test]
fn a_head_read_back_says_the_very_same() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = model(dir.path(), "m");
    let cohort = cohort(dir.path(), "c", 0..40);
    let kinds = [
        ("group", Pooling::Mean, HeadKind::Linear, false),
        ("age", Pooling::MeanStd, HeadKind::Linear, true),
        ("group", Pooling::Tangent, HeadKind::Linear, false),
        ("group", Pooling::Mean, HeadKind::Attention, false),
        ("group", Pooling::Covariance, HeadKind::Ridge, false),
        ("age", Pooling::Mean, HeadKind::Ridge, false),
        ("group", Pooling::Coupling, HeadKind::Ridge, false),
        ("age", Pooling::Regions, HeadKind::Linear, true),
        ("site", Pooling::Mean, HeadKind::Linear, true),
        ("site", Pooling::Mean, HeadKind::Attention, false),
        ("site", Pooling::Mean, HeadKind::Ridge, false),
    ];
    bdo_model::readout::ensure_readout(&path, &Device::flex(), &cohort, &Silent).unwrap();
    for (i, (target, pooling, head, standardise)) in kinds.into_iter().enumerate() {
        let mut request = request(dir.path(), path.clone(), target, &format!("out{i}"));
        request.settings = ProbeSettings { pooling, head, standardise, ..request.settings };
        let found = probe(&request, &Silent).unwrap();
        let fitted = FittedHead::read(&request.out).unwrap();
        let said = predict(&request.out, &fitted, &cohort, (Trusting::default(), &Device::flex()), &Silent).unwrap();
        for (m, seed) in found.seeds.iter().enumerate() {
            assert_eq!(seed.predictions.len(), 8);
            for person in &seed.predictions {
                let scan = said.scans.iter().find(|s| s.row.subject == person.subject).unwrap();
                let said = *scan.members[m].last().unwrap();
                assert!(said == person.said(), "{target}: {said} {}", person.said());
            }
        }
        let seen = said.scans.iter().filter(|s| s.seen_by_model).map(|s| s.row.subject.as_str()).collect::<Vec<_>>();
        assert_eq!(seen, ["p003"]);
        assert_eq!(said.scans.iter().filter(|s| s.seen_by_head).count(), {
            let trained: std::collections::BTreeSet<_> =
                fitted.members.iter().flat_map(|m| m.train_people.iter()).collect();
            trained.len()
        });
        let tsv = said.to_tsv(&fitted, None);
        let header = tsv.lines().next().unwrap();
        let classes = match target {
            "age" => "",
            "site" => "\tprobability_s0\tprobability_s1\tprobability_s2",
            _ => "\tprobability_a\tprobability_b",
        };
        assert_eq!(header, format!("scan\tsubject\tprediction{classes}\tseed0\tseed1\tseen\ttrust\treasons"));
        for file in ["result.json", "table.md", "splits.json", "predictions.tsv", "head.json", "model/config.json"] {
            assert!(request.out.join(file).is_file(), "{file}");
        }
    }
}

#[test]
fn further_people_are_scored_and_known_ones_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = model(dir.path(), "m");
    cohort(dir.path(), "c", 0..40);
    cohort(dir.path(), "further", 30..60);
    let mut request = request(dir.path(), path, "group", "out");
    request.test_data = Some(dir.path().join("further"));
    let found = probe(&request, &Silent).unwrap().test_data.unwrap();
    assert!(found.seen_by_head > 0 && found.seen_by_head <= 10, "{}", found.seen_by_head);
    let score = found.score.unwrap();
    assert_eq!(
        (score.people, score.members.len()),
        (30 - found.seen_by_head, 2),
        "people a head was fitted on do not count"
    );
    assert!(dir.path().join("out/test_data_predictions.tsv").is_file());
}

#[test]
fn refusals_say_what_was_expected_and_found() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = model(dir.path(), "m");
    cohort(dir.path(), "c", 0..40);
    let say = |request: &HeadRequest<ProbeSettings>| match probe(request, &Silent) {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string().replace(&*dir.path().to_string_lossy(), "[folder]"),
    };
    let fine = request(dir.path(), path.clone(), "group", "out");
    assert_eq!(
        say(&request(dir.path(), path.clone(), "iq", "x")),
        "expected a label column \"iq\", found group, age, site"
    );
    assert!(!dir.path().join("x").exists());
    probe(&fine, &Silent).unwrap();
    assert_eq!(say(&fine), "no error");
    let mut other = fine.clone();
    other.settings.epochs = 6;
    let said = say(&other);
    assert_eq!(
        said,
        "[folder]/out: expected a new name, or the same request as before, found another request (settings.epochs: made with 5, asked for 6)"
    );
    // A head refuses people with other regions, and a model that is not its own.
    let lacking = reordered_cohort(dir.path(), "lacking", 0..4, &[0, 1, 2, 3, 4]);
    let head = FittedHead::read(&fine.out).unwrap();
    let said = predict(&fine.out, &head, &lacking, (Trusting::default(), &Device::flex()), &Silent).unwrap_err();
    assert_eq!(said.to_string(), "the data lack 1 of the model's 6 regions: r5");
    let mut foreign = head.clone();
    foreign.members.iter_mut().for_each(|m| m.model_blake3 = "0".repeat(64));
    let said = predict(&fine.out, &foreign, &lacking, (Trusting::default(), &Device::flex()), &Silent).unwrap_err();
    assert!(matches!(said, EvalError::Model(ModelError::Refused { .. })), "{said}");
    // A damaged head is not used.
    let numbers = fine.out.join("head.safetensors");
    let mut bytes = std::fs::read(&numbers).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&numbers, bytes).unwrap();
    assert!(FittedHead::read(&fine.out).unwrap_err().to_string().contains("head.safetensors: expected BLAKE3"));
}
