//! Small trees of derivatives, and the program to run on them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bdo_data::cohort::Cohort;

pub(crate) const FRAMES: usize = 60;
pub(crate) const REGIONS: usize = 4;

/// A deterministic number in 0..1 for any coordinates.
pub(crate) fn noise(seed: &[usize]) -> f32 {
    let mut x = seed
        .iter()
        .fold(0x9e37_79b9_7f4a_7c15_u64, |h, s| (h ^ *s as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29));
    x ^= x >> 31;
    (x.wrapping_mul(0x94d0_49bb_1331_11eb) >> 40) as f32 / 16_777_216.0
}

/// Writes a NIfTI-1 image of 4 x 4 x 4 voxels of 2 mm around the origin; `value` is given voxel and frame.
pub(crate) fn image(path: &Path, frames: usize, tr_seconds: f32, value: impl Fn([usize; 3], usize) -> f32) {
    let mut header = vec![0_u8; 352];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &348_i32.to_le_bytes());
    let dims: [i16; 8] = [if frames == 1 { 3 } else { 4 }, 4, 4, 4, frames as i16, 1, 1, 1];
    for (i, d) in dims.iter().enumerate() {
        put(40 + 2 * i, &d.to_le_bytes());
    }
    put(70, &16_i16.to_le_bytes());
    put(72, &32_i16.to_le_bytes());
    for (i, x) in [1.0_f32, 2.0, 2.0, 2.0, tr_seconds].iter().enumerate() {
        put(76 + 4 * i, &x.to_le_bytes());
    }
    put(108, &352_f32.to_le_bytes());
    put(112, &1_f32.to_le_bytes());
    put(123, &[2 | 8]);
    put(254, &4_i16.to_le_bytes());
    for (i, row) in [[2.0_f32, 0.0, 0.0, -3.0], [0.0, 2.0, 0.0, -3.0], [0.0, 0.0, 2.0, -3.0]].iter().enumerate() {
        for (j, x) in row.iter().enumerate() {
            put(280 + 16 * i + 4 * j, &x.to_le_bytes());
        }
    }
    put(344, b"n+1\0");
    for t in 0..frames {
        for z in 0..4 {
            for y in 0..4 {
                for x in 0..4 {
                    header.extend(value([x, y, z], t).to_le_bytes());
                }
            }
        }
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, header).unwrap();
}

/// The atlas: region `x + 1` is the plane of that x.
pub(crate) fn atlas(folder: &Path) -> PathBuf {
    let path = folder.join("tpl-MNI152NLin6Asym_atlas-Planes_dseg.nii");
    image(&path, 1, 0.0, |[x, _, _], _| (x + 1) as f32);
    let rows = (1..=REGIONS).fold(String::new(), |rows, i| rows + &format!("{i}\tplane-{i}\n"));
    fs::write(folder.join("tpl-MNI152NLin6Asym_atlas-Planes_dseg.tsv"), format!("index\tname\n{rows}")).unwrap();
    path
}

/// What an image of a person holds at a voxel.
pub(crate) fn voxel(person: usize, [x, y, z]: [usize; 3], t: usize) -> f32 {
    1000.0 + 10.0 * noise(&[person, x, t]) + noise(&[person, x, y, z, t])
}

/// The mean of every region and frame, row-major.
pub(crate) fn means(person: usize, frames: usize) -> Vec<f32> {
    let mean = |t: usize, x: usize| {
        let plane = (0..16).map(|i| f64::from(voxel(person, [x, i % 4, i / 4], t)));
        (plane.sum::<f64>() / 16.0) as f32
    };
    (0..frames).flat_map(|t| (0..REGIONS).map(move |x| mean(t, x))).collect()
}

/// The text of a confound table with everything the presets `simple`, `scrubbing` and `36p` need.
pub(crate) fn confounds(person: usize) -> String {
    let mut names: Vec<String> = vec![];
    let motion = ["trans_x", "trans_y", "trans_z", "rot_x", "rot_y", "rot_z"];
    for basic in motion.into_iter().chain(["csf", "white_matter", "global_signal"]) {
        names.extend(["", "_derivative1", "_power2", "_derivative1_power2"].map(|s| format!("{basic}{s}")));
    }
    names.extend(["cosine00", "framewise_displacement", "std_dvars"].map(str::to_owned));
    let mut text = names.join("\t") + "\n";
    for t in 0..FRAMES {
        let cells: Vec<String> = names
            .iter()
            .enumerate()
            .map(|(c, name)| match name.as_str() {
                n if t == 0 && (n.contains("derivative1") || n.contains("fram") || n.contains("dvars")) => "n/a".into(),
                "framewise_displacement" if t == 30 => "0.9".into(),
                "framewise_displacement" => format!("{:.4}", 0.2 * noise(&[person, t])),
                "std_dvars" => "1.0".into(),
                _ => format!("{:.6}", noise(&[person, c, t, 7])),
            })
            .collect();
        writeln!(text, "{}", cells.join("\t")).unwrap();
    }
    text
}

/// An fMRIPrep tree of `people`, in two spaces, with masks, sidecars by inheritance, confounds and a table of the people.
pub(crate) fn fmriprep(root: &Path, people: usize) {
    fs::create_dir_all(root).unwrap();
    let description = r#"{"Name": "made up", "BIDSVersion": "1.8.0", "GeneratedBy": [{"Name": "fMRIPrep"}]}"#;
    fs::write(root.join("dataset_description.json"), description).unwrap();
    fs::write(root.join("task-rest_bold.json"), r#"{"RepetitionTime": 2.0}"#).unwrap();
    let mut table = "participant_id\tage\tsite\n".to_owned();
    for person in 0..people {
        let label = format!("{:02}", person + 1);
        writeln!(table, "sub-{label}\t{}\t{}", 20 + person, ["here", "there"][person % 2]).unwrap();
        let func = root.join(format!("sub-{label}/func"));
        for space in ["MNI152NLin6Asym", "T1w"] {
            let scan = format!("sub-{label}_task-rest_space-{space}");
            image(&func.join(format!("{scan}_desc-preproc_bold.nii")), FRAMES, 2.0, |v, t| voxel(person, v, t));
            image(&func.join(format!("{scan}_desc-brain_mask.nii")), 1, 0.0, |_, _| 1.0);
        }
        fs::write(func.join(format!("sub-{label}_task-rest_desc-confounds_timeseries.tsv")), confounds(person))
            .unwrap();
    }
    fs::write(root.join("participants.tsv"), table).unwrap();
}

/// The bytes, gzipped.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// Runs `bdo ingest` with these arguments.
pub(crate) fn ingest(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bdo"));
    command.arg("ingest").args(arguments);
    command
}

/// Runs it and wants an exit code; returns what it said.
pub(crate) fn expect(code: i32, arguments: &[&str]) -> String {
    let output = ingest(arguments);
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    said
}

pub(crate) fn open(path: &Path) -> Cohort {
    let cohort = Cohort::open(path).unwrap();
    assert!(bdo_data::cohort::verify(path).unwrap().is_empty(), "damage in {}", path.display());
    cohort
}

/// Every file below a folder and its bytes.
pub(crate) fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(f) = folders.pop() {
        for entry in fs::read_dir(&f).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub(crate) fn close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance, "{a} is not {b} at {i}");
    }
}
