//! Images at full size in the atlas of the paper: Schaefer-400 with Tian-S3, 450 regions, from the image to features.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use bdo_data::cohort::Cohort;
use bdo_data::nifti::NiftiReader;

use crate::program::run_json;

const ATLAS: &str = "Schaefer2018_400Parcels_7Networks_order_Tian_Subcortex_S3";
const PEOPLE: usize = 6;
const FRAMES: usize = 24;
const DROPPED: usize = 2;

/// The atlas folder, if it is there; a loud line if not.
fn atlas_folder() -> Option<PathBuf> {
    let data = std::env::var("BDO_SHARED_DATA")
        .map_or_else(|_| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let folder = data.join("atlas");
    if folder.join(format!("{ATLAS}_label.txt")).is_file() {
        return Some(folder);
    }
    println!("SKIPPED: the atlas of 450 regions is not at hand (set BDO_SHARED_DATA)");
    None
}

/// What every voxel of a region holds in a frame: whole numbers, so that a mean of them is exact.
fn value(person: usize, region: usize, frame: usize) -> i16 {
    let mixed = (person * 7919 + region * 104_729 + 13) as f64;
    let wave = (mixed.sin() * 6.0 + frame as f64 * (0.2 + 0.6 * (mixed * 1.7).sin().abs())).sin();
    8000 + (300.0 * wave) as i16 + ((mixed * 31.0 + frame as f64 * 17.3).sin() * 80.0) as i16
}

/// A run of a person: the header of the atlas with another length and type, then one number per region and frame.
fn write_run(path: &Path, header: &[u8], labels: &[f32], person: usize) {
    let mut header = header[..352].to_vec();
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(40, &4_i16.to_le_bytes());
    put(48, &(FRAMES as i16).to_le_bytes());
    put(70, &4_i16.to_le_bytes());
    put(72, &16_i16.to_le_bytes());
    put(92, &0.8_f32.to_le_bytes());
    put(108, &352_f32.to_le_bytes());
    put(112, &1_f32.to_le_bytes());
    put(116, &0_f32.to_le_bytes());
    put(123, &[2 | 8]);
    put(348, &[0; 4]);
    let mut out = flate2::write::GzEncoder::new(File::create(path).unwrap(), flate2::Compression::fast());
    out.write_all(&header).unwrap();
    let mut volume = Vec::with_capacity(2 * labels.len());
    for t in 0..FRAMES {
        volume.clear();
        for label in labels {
            let voxel = if *label == 0.0 { 0 } else { value(person, *label as usize, t) };
            volume.extend(voxel.to_le_bytes());
        }
        out.write_all(&volume).unwrap();
    }
    out.finish().unwrap();
}

#[test]
fn images_to_features_in_450_regions() {
    let Some(folder) = atlas_folder() else { return };
    let atlas = folder.join(format!("{ATLAS}_MNI152NLin6Asym_2mm.nii.gz"));
    let labels = NiftiReader::read_single(&atlas).unwrap();
    assert_eq!(labels.grid.shape, [91, 109, 91]);
    let mut header = vec![];
    std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(File::open(&atlas).unwrap()), &mut header)
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let images = dir.path().join("images");
    fs::create_dir(&images).unwrap();
    for person in 0..PEOPLE {
        let name = format!("sub-{:02}_task-rest_space-MNI152NLin6Asym_bold.nii.gz", person + 1);
        write_run(&images.join(name), &header, &labels.values, person);
    }
    let names = folder.join(format!("{ATLAS}_label.txt"));
    let said = run_json(
        dir.path(),
        &format!(
            "ingest images cohort --format nifti --atlas {} --labels {} --drop-volumes {DROPPED}",
            atlas.display(),
            names.display()
        ),
    );
    assert_eq!((said["scans"].as_u64(), said["regions"].as_u64()), (Some(PEOPLE as u64), Some(450)));
    assert_eq!(said["badly_covered"].as_array().map(Vec::len), Some(0));
    let cohort = Cohort::open(&dir.path().join("cohort")).unwrap();
    assert_eq!((cohort.regions()[0].name.as_str(), cohort.regions().len()), ("HIP-head-m-rh", 450));
    for person in 0..PEOPLE {
        let scan = cohort.scan(person).unwrap();
        assert_eq!((scan.frames(), scan.frame_times_seconds[0]), (FRAMES - DROPPED, scan.tr_seconds * DROPPED as f64));
        // A mean of equal whole numbers is that number.
        let expected: Vec<f32> =
            (DROPPED..FRAMES).flat_map(|t| (1..=450).map(move |region| f32::from(value(person, region, t)))).collect();
        assert!(scan.series == expected, "person {person}");
    }
    let small = "--set model.width=16 --set model.blocks=1 --set model.heads=1 --set model.basis_count=4 --set mask.frames=16 \
                 --set train.epochs=2 --set train.batch_size=2 --quiet";
    run_json(dir.path(), &format!("pretrain --data cohort --out run {small}"));
    run_json(dir.path(), "embed --model run/model --data cohort --out features.tsv");
    let features = fs::read_to_string(dir.path().join("features.tsv")).unwrap();
    let rows: Vec<&str> = features.lines().collect();
    assert_eq!(rows.len(), PEOPLE + 1);
    assert!(rows[1..].iter().all(|r| !r.contains("NaN") && !r.contains("inf")), "{features}");
    assert!(rows[1].split('\t').skip(4).ne(rows[2].split('\t').skip(4)), "two people have the same features");
}
