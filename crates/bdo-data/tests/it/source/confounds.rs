//! Confounds equal those of nilearn.

use bdo_data::confound::{AromaKind, CompCorKind, ConfoundTable, Confounds, Expansion, Preset, Scrub, Strategy, load};

use super::golden::{golden, indices, numbers, real_data, texts};

fn strategy(case: &str) -> Strategy {
    let nothing = Strategy::nothing();
    let cosines = Strategy { high_pass: true, ..Strategy::nothing() };
    match case {
        "motion_basic" => Strategy { motion: Some(Expansion::Basic), ..nothing },
        "motion_power2" => Strategy { motion: Some(Expansion::Power2), ..nothing },
        "motion_derivatives_raw" => Strategy { motion: Some(Expansion::Derivatives), demean: false, ..nothing },
        "wm_csf_derivatives_global_full" => {
            Strategy { wm_csf: Some(Expansion::Derivatives), global_signal: Some(Expansion::Full), ..nothing }
        }
        "anat_separated_two" => Strategy { compcor: Some(CompCorKind::AnatSeparated), n_compcor: Some(2), ..cosines },
        "temporal" => Strategy { compcor: Some(CompCorKind::Temporal), ..cosines },
        "temporal_anat_combined_three" => {
            Strategy { compcor: Some(CompCorKind::TemporalAnatCombined), n_compcor: Some(3), ..cosines }
        }
        "compcor_two" => Strategy { n_compcor: Some(2), ..Preset::Compcor.strategy() },
        "simple_with_global_signal" => Strategy { global_signal: Some(Expansion::Basic), ..Preset::Simple.strategy() },
        "own_columns" => {
            let columns = ["cosine*", "rot_y", "csf_power2", "global_signal_derivative1"].map(str::to_owned).to_vec();
            Strategy { columns, ..nothing }
        }
        "aroma_basic" => Strategy { ica_aroma: Some(AromaKind::Basic), ..cosines },
        "scrub_without_segments" => {
            let scrub = Scrub { fd_threshold_mm: 0.3, std_dvars_threshold: 2.0, shortest_segment: 0 };
            Strategy { scrub: Some(scrub), global_signal: Some(Expansion::Basic), ..nothing }
        }
        preset => serde_json::from_value::<Preset>(preset.into()).unwrap().strategy(),
    }
}

pub(crate) fn generated_table() -> ConfoundTable {
    let golden = golden("confounds.json");
    let text = |key: &str| golden[key].as_str().unwrap().to_owned();
    ConfoundTable::parse("generated.tsv", text("table").as_bytes(), Some(text("json").as_bytes())).unwrap()
}

/// The goldens have 12 digits, sums of 60 numbers lose at most two more.
fn assert_close(found: &[f64], expected: &[f64], scale: f64, case: &str) {
    assert_eq!(found.len(), expected.len(), "{case}");
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= 1e-10 * (b.abs() + scale), "{case}: {a} is not {b} at {i}");
    }
}

#[test]
fn every_strategy_gives_the_columns_frames_and_values_of_nilearn() {
    let golden = golden("confounds.json");
    let table = generated_table();
    let cases = golden["cases"].as_object().unwrap();
    assert_eq!(cases.len(), 16);
    for (case, expected) in cases {
        let found = load(&table, &strategy(case)).unwrap();
        assert_eq!(found.names, texts(&expected["names"]), "{case}");
        assert_eq!(found.kept, indices(&expected["kept"]), "{case}");
        let rows = (0..found.frames).flat_map(|t| found.columns.iter().map(move |column| column[t]));
        assert_close(&rows.collect::<Vec<_>>(), &numbers(&expected["values"]), 10.0, case);
    }
}

#[test]
fn real_tables_give_what_nilearn_gives() {
    let Some(folder) = real_data("confounds") else { return };
    let golden = golden("confounds_real.json");
    for (file, cases) in golden.as_object().unwrap() {
        let table = ConfoundTable::read(&folder.join(file)).unwrap();
        for (preset, expected) in cases.as_object().unwrap() {
            let found = load(&table, &strategy(preset));
            if expected.get("error").is_some() {
                assert!(found.is_err(), "{file} {preset}");
                continue;
            }
            let found = found.unwrap();
            assert_eq!(found.names, texts(&expected["names"]), "{file} {preset}");
            assert_eq!(found.kept, indices(&expected["kept"]), "{file} {preset}");
            if found.kept.as_ref().is_some_and(Vec::is_empty) {
                // Every frame is censored: there is no mean to take out, and nilearn returns NaN.
                continue;
            }
            let last: Vec<f64> = found.columns.iter().map(|column| column[found.frames - 1]).collect();
            assert_close(&last, &numbers(&expected["last_row"]), 1.0, preset);
            let squares: Vec<f64> = found.columns.iter().map(|column| column.iter().map(|x| x * x).sum()).collect();
            assert_close(&squares, &numbers(&expected["sums_of_squares"]), 1.0, preset);
        }
    }
}

#[test]
fn what_is_missing_is_named() {
    let table = |text: &str, json: Option<&str>| {
        ConfoundTable::parse("t.tsv", text.as_bytes(), json.map(str::as_bytes)).map_err(|e| e.to_string())
    };
    let few = table("trans_x\ttrans_y\n0\t1\n1\t2\n", None).unwrap();
    let error = |preset: Preset| load(&few, &preset.strategy()).unwrap_err().to_string();
    assert_eq!(
        error(Preset::Simple),
        "t.tsv: columns: expected csf, rot_x, rot_x_derivative1, rot_x_derivative1_power2, rot_x_power2 and 19 more, found none"
    );
    assert_eq!(
        error(Preset::Compcor),
        "t.tsv: JSON beside the table: expected descriptions of the CompCor components, found none"
    );
    let scrub = Strategy { scrub: Some(Scrub::default()), ..Strategy::nothing() };
    assert!(load(&few, &scrub).unwrap_err().to_string().contains("framewise_displacement (for scrubbing)"));
    let own = |column: &str| Strategy { columns: vec![column.into()], ..Strategy::nothing() };
    assert_eq!(load(&few, &own("rot_*")).unwrap_err().to_string(), "t.tsv: columns: expected rot_*, found none");
    assert_eq!(load(&few, &own("rot_x")).unwrap_err().to_string(), "t.tsv: columns: expected rot_x, found none");
    let holes = table("global_signal\n1\nn/a\n3\n", None).unwrap();
    let global = Strategy { global_signal: Some(Expansion::Basic), ..Strategy::nothing() };
    assert_eq!(
        load(&holes, &global).unwrap_err().to_string(),
        "t.tsv: values: expected numbers in column global_signal, found none in row 2"
    );
    assert_eq!(
        table("1\t2\n3\t4\n", None).unwrap_err(),
        "t.tsv: header: expected names of confounds separated by tabs, found \"1\""
    );
    assert_eq!(table("a\ta\n3\t4\n", None).unwrap_err(), "t.tsv: header: expected different names, found \"a\" twice");
    assert_eq!(table("a\tb\n3\n", None).unwrap_err(), "t.tsv: table: expected 2 columns in line 2, found 1");
    assert_eq!(table("a\n3\n", None).unwrap_err(), "t.tsv: table: expected at least 2 rows, found 1");
}

#[test]
fn dropping_the_first_volumes_renumbers_the_kept_frames() {
    let confounds = Confounds {
        names: vec!["a".into(), "b".into()],
        frames: 4,
        columns: vec![vec![0.0, 2.0, 4.0, 6.0], vec![1.0, 3.0, 5.0, 7.0]],
        kept: Some(vec![0, 2, 3]),
    };
    let rest = confounds.without_first(1);
    assert_eq!((rest.frames, rest.columns), (3, vec![vec![2.0, 4.0, 6.0], vec![3.0, 5.0, 7.0]]));
    assert_eq!(rest.kept, Some(vec![1, 2]));
}
