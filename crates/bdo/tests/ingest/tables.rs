//! Trees of tables: XCP-D and `giga_connectome`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::fixture::{close, expect, noise, open, text};

fn series(person: usize, frames: &[usize]) -> Vec<f32> {
    frames.iter().flat_map(|t| (0..3).map(move |r| noise(&[person, *t, r]))).collect()
}

fn table(person: usize, frames: &[usize]) -> String {
    let rows = series(person, frames);
    rows.chunks(3).fold("LH_a\tRH_a\tLH_b\n".to_owned(), |text, row| {
        text + &row.iter().map(|x| format!("{x:.8}")).collect::<Vec<_>>().join("\t") + "\n"
    })
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Frames 5, 6 and 20 of 30 are censored.
fn outliers() -> (String, Vec<usize>) {
    let mut text = "framewise_displacement\n".to_owned();
    for t in 0..30 {
        writeln!(text, "{}", u8::from([5, 6, 20].contains(&t))).unwrap();
    }
    (text, (0..30).filter(|t| ![5, 6, 20].contains(t)).collect())
}

#[test]
fn xcpd_tables_have_true_times_in_both_spellings_and_modes() {
    let dir = tempfile::tempdir().unwrap();
    let (root, out) = (dir.path().join("xcp_d"), dir.path().join("cohort"));
    let (outliers, kept) = outliers();
    let every: Vec<usize> = (0..30).collect();
    write(&root.join("dataset_description.json"), r#"{"Name": "XCP-D", "BIDSVersion": "1.8.0"}"#);
    write(&root.join("task-rest_timeseries.json"), r#"{"RepetitionTime": 0.8}"#);
    // Person 1: censored, new spelling. Person 2: interpolated, old spelling. Person 3: neither length fits.
    for (label, infix, frames) in [("1", "seg", &kept[..]), ("2", "atlas", &every), ("3", "seg", &every[..25])] {
        let scan = format!("sub-{label}_task-rest");
        let func = root.join(format!("sub-{label}/func"));
        let stat = if infix == "seg" { "_stat-mean" } else { "" };
        let name = format!("{scan}_space-MNI152NLin6Asym_{infix}-Tiny{stat}_timeseries.tsv");
        write(&func.join(name), &table(label.parse().unwrap(), frames));
        write(&func.join(format!("{scan}_outliers.tsv")), &outliers);
        let motion: String =
            (0..30).fold("framewise_displacement\n".to_owned(), |s, t| s + &format!("{}\n", t as f32 / 64.0));
        write(&func.join(format!("{scan}_motion.tsv")), &motion);
    }
    let func = root.join("sub-1/func");
    let coverage = "LH_a\tRH_a\tLH_b\n1.0\t0.9\t0.3\n";
    write(&func.join("sub-1_task-rest_space-MNI152NLin6Asym_seg-Tiny_stat-coverage_bold.tsv"), coverage);
    // What is not a table of means is passed over.
    write(&func.join("sub-1_task-rest_space-MNI152NLin6Asym_seg-Tiny_stat-pearsoncorrelation_relmat.tsv"), "x\n1\n");
    expect(1, &[text(&root), text(&out)]);
    let cohort = open(&out);
    assert_eq!(cohort.len(), 2);
    for person in 1..=2 {
        let scan = cohort.scan(person - 1).unwrap();
        let times: Vec<f64> = kept.iter().map(|t| *t as f64 * 0.8).collect();
        assert_eq!(scan.frame_times_seconds, times, "{person}");
        let mut expected = series(person, &kept);
        if person == 1 {
            // The badly covered region is missing.
            assert!(scan.series.iter().skip(2).step_by(3).all(|x| x.is_nan()));
            expected = expected.chunks(3).flat_map(|r| r[..2].to_vec()).collect();
            let found: Vec<f32> = scan.series.chunks(3).flat_map(|r| r[..2].to_vec()).collect();
            close(&found, &expected, 1e-7);
        } else {
            close(&scan.series, &expected, 1e-7);
        }
        assert_eq!(scan.framewise_displacement_mm.unwrap()[5], 7.0 / 64.0);
    }
    let rejected = fs::read_to_string(out.join("rejected.tsv")).unwrap();
    assert!(rejected.contains("length\t30 frames of the run or 27 that are not censored\t25"), "{rejected}");
}

#[test]
fn several_parcellations_need_a_choice_and_scrubbed_series_need_their_frames() {
    let dir = tempfile::tempdir().unwrap();
    let (root, out) = (dir.path().join("giga"), dir.path().join("cohort"));
    write(&root.join("dataset_description.json"), r#"{"Name": "giga_connectome", "BIDSVersion": "1.8.0"}"#);
    let every: Vec<usize> = (0..30).collect();
    for (person, label) in ["01", "02"].iter().enumerate() {
        for atlas in ["A", "B"] {
            let name = format!("sub-{label}_task-rest_seg-{atlas}_desc-denoiseSimple_timeseries");
            let func = root.join(format!("sub-{label}/func"));
            write(&func.join(format!("{name}.tsv")), &table(person, &every));
            let scrubbed = person * 3;
            let sidecar =
                format!(r#"{{"SamplingFrequency": 0.5, "NumberOfVolumesDiscardedByMotionScrubbing": {scrubbed}}}"#);
            write(&func.join(format!("{name}.json")), &sidecar);
        }
    }
    let said = expect(2, &[text(&root), text(&out)]);
    assert!(said.contains("expected one parcellation, or --atlas NAME, found A, B"), "{said}");
    let said = expect(2, &[text(&root), text(&out), "--atlas", "C"]);
    assert!(said.contains("tables of A, B"), "{said}");
    let said = expect(2, &[text(&root), text(&out), "--atlas", "A", "--denoise", "simple"]);
    assert!(said.contains("come without confounds"), "{said}");
    expect(1, &[text(&root), text(&out), "--atlas", "A"]);
    let cohort = open(&out);
    assert_eq!((cohort.len(), cohort.manifest().atlas.name.as_str(), cohort.index()[0].tr_seconds), (1, "A", 2.0));
    let rejected = fs::read_to_string(out.join("rejected.tsv")).unwrap();
    assert!(rejected.contains("frame times\tan outliers table beside a scrubbed series"), "{rejected}");
}
