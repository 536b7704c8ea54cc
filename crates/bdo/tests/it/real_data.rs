//! Real people, where the folder with them is at hand.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{run, run_json};

/// The archive, if the data folder is there; a loud line if not.
fn archive(name: &str) -> Option<PathBuf> {
    let folder = std::env::var("BDO_SHARED_DATA")
        .map_or_else(|_| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let path = folder.join(name);
    if path.is_file() {
        return Some(path);
    }
    println!("SKIPPED: {name} is not at hand (set BDO_SHARED_DATA), nothing was tried on real people");
    None
}

fn unpack(archive: &Path, folder: &Path) -> bool {
    Command::new("tar").arg("xf").arg(archive).arg("-C").arg(folder).status().is_ok_and(|s| s.success())
}

#[test]
fn abide_people() {
    let Some(path) = archive("abide_cc200.tar.xz") else { return };
    let dir = tempfile::tempdir().unwrap();
    assert!(unpack(&path, dir.path()));
    let output = run(dir.path(), "ingest . out --format abide-pcp --json");
    // One series is there under two names, and one scan has a signal in 82 of 200 regions.
    assert_eq!(output.status.code(), Some(1), "some inputs are rejected");
    let made: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (made["scans"].as_u64(), made["subjects"].as_u64(), made["regions"].as_u64()),
        (Some(880), Some(880), Some(200))
    );
    let poor: Vec<&str> =
        made["badly_covered"].as_array().unwrap().iter().map(|e| e["source"].as_str().unwrap()).collect();
    assert_eq!(poor, ["rois_cc200/SDSU_0050209_rois_cc200.1D"]);
    let seen = run_json(dir.path(), "inspect out --verify");
    assert_eq!(seen["verified"], true);
    assert_eq!(seen["tr_seconds"]["1.656"], 51);
    let label = |name: &str| seen["labels"].as_array().unwrap().iter().find(|l| l["name"] == name).unwrap().clone();
    assert_eq!(label("diagnosis")["levels"]["autism"], 423);
    assert_eq!(label("sex")["levels"]["F"], 136);
    assert_eq!(label("FIQ")["missing"], 59, "-9999 and empty are missing");
    // The first kept frame is the eleventh volume: true time, first value as in the file.
    let cohort = bdo_data::cohort::Cohort::open(&dir.path().join("out")).unwrap();
    let i = cohort.index().iter().position(|e| e.source.ends_with("Pitt_0050003_rois_cc200.1D")).unwrap();
    let scan = cohort.scan(i).unwrap();
    assert_eq!(
        (scan.id.subject.as_str(), scan.site.as_deref(), scan.frame_times_seconds[0]),
        ("50003", Some("PITT"), 15.0)
    );
    let text = std::fs::read_to_string(dir.path().join("rois_cc200/Pitt_0050003_rois_cc200.1D")).unwrap();
    let eleventh: Vec<f32> = text.lines().nth(11).unwrap().split('\t').map(|x| x.trim().parse().unwrap()).collect();
    assert_eq!(scan.series[..200], eleventh);
}

#[test]
fn hcp_people() {
    let Some(path) = archive("hcp_dk68.tar.xz") else { return };
    let dir = tempfile::tempdir().unwrap();
    assert!(unpack(&path, dir.path()));
    let made = run_json(dir.path(), "ingest timeseries out --format series --tr 0.72");
    assert_eq!((made["scans"].as_u64(), made["regions"].as_u64()), (Some(60), Some(68)));
    let cohort = bdo_data::cohort::Cohort::open(&dir.path().join("out")).unwrap();
    assert_eq!(cohort.regions()[0].name, "ctx-lh-bankssts");
    assert_eq!(cohort.participants().get(cohort.participants().row_of("100307").unwrap(), "gender"), Some("F"));
    assert_eq!(cohort.scan(0).unwrap().frames(), 1200);
}
