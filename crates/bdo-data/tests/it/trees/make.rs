//! Single files: images, CIFTI files, tables.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::images::builder::Builder;

pub(super) const NAMES: [&str; 4] = ["LH_a", "RH_a", "LH_b", "RH_b"];
pub(super) const REGIONS: usize = NAMES.len();

/// A deterministic number in 0..1 for any coordinates.
pub(super) fn noise(seed: &[usize]) -> f32 {
    let mut x = seed
        .iter()
        .fold(0x9e37_79b9_7f4a_7c15_u64, |h, s| (h ^ *s as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29));
    x ^= x >> 31;
    (x.wrapping_mul(0x94d0_49bb_1331_11eb) >> 40) as f32 / 16_777_216.0
}

/// What a region of a person's run holds at a frame.
pub(super) fn value(person: usize, t: usize, region: usize) -> f32 {
    noise(&[person, t, region, 3])
}

pub(super) fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Rows of a person's values at these frames, under a header.
pub(super) fn table(header: &[&str], delimiter: &str, person: usize, frames: &[usize]) -> String {
    let mut text = if header.is_empty() { String::new() } else { header.join(delimiter) + "\n" };
    for t in frames {
        let row: Vec<String> = (0..REGIONS).map(|r| value(person, *t, r).to_string()).collect();
        writeln!(text, "{}", row.join(delimiter)).unwrap();
    }
    text
}

/// A NIfTI-1 image of 4 x 4 x 4 voxels of 2 mm around the origin.
pub(super) struct Image {
    pub(super) frames: usize,
    pub(super) tr: f32,
    /// As in the header; 8 is seconds, 16 milliseconds, 24 microseconds, 0 nothing.
    pub(super) unit: u8,
}

impl Image {
    pub(super) fn of(frames: usize) -> Self {
        Self { frames, tr: 2.0, unit: 8 }
    }

    pub(super) fn write(&self, path: &Path, value: impl Fn([usize; 3], usize) -> f32) {
        let mut values = Vec::with_capacity(64 * self.frames * 4);
        for t in 0..self.frames {
            for i in 0..64 {
                values.extend(value([i % 4, i / 4 % 4, i / 16], t).to_le_bytes());
            }
        }
        let mut builder = Builder::new([4, 4, 4, self.frames as i64]);
        builder.sform = [[2.0, 0.0, 0.0, -3.0], [0.0, 2.0, 0.0, -3.0], [0.0, 0.0, 2.0, -3.0]];
        (builder.datatype, builder.bitpix, builder.data) = (16, 32, values);
        if self.frames == 1 {
            builder.dims.truncate(3);
        }
        let mut bytes = builder.bytes();
        bytes[76 + 16..76 + 20].copy_from_slice(&self.tr.to_le_bytes());
        bytes[123] = 2 | self.unit;
        write(path, bytes);
    }
}

/// What the images of a person hold: region `x + 1` of the atlas is the plane of that x.
pub(super) fn voxel(person: usize, [x, y, z]: [usize; 3], t: usize) -> f32 {
    1000.0 + 10.0 * value(person, t, x) + noise(&[person, x, y, z, t])
}

/// The atlas of such images, with names.
pub(super) fn atlas(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("tpl-MNI152NLin6Asym_atlas-Planes_dseg.nii");
    Image { frames: 1, tr: 0.0, unit: 0 }.write(&path, |[x, _, _], _| (x + 1) as f32);
    let rows = NAMES.iter().enumerate().fold(String::new(), |s, (i, _)| s + &format!("{}\tplane-{i}\n", i + 1));
    write(&folder.join("tpl-MNI152NLin6Asym_atlas-Planes_dseg.tsv"), format!("index\tname\n{rows}"));
    path
}

fn cifti(path: &Path, xml: &str, lengths: [usize; 2], values: &[f32]) {
    let mut xml = xml.as_bytes().to_vec();
    xml.resize((xml.len() + 8).next_multiple_of(16) - 8, 0);
    let mut extension = ((xml.len() + 8) as i32).to_le_bytes().to_vec();
    extension.extend(32_i32.to_le_bytes());
    extension.extend(xml);
    let mut builder = Builder::new([1, 1, 1, 1]);
    builder.two = true;
    builder.dims = vec![1, 1, 1, 1, lengths[0] as i64, lengths[1] as i64];
    (builder.datatype, builder.bitpix) = (16, 32);
    builder.extension = extension;
    builder.data = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    write(path, builder.bytes());
}

fn matrix(first: &str, second: &str) -> String {
    format!(r#"<?xml version="1.0" encoding="UTF-8"?><CIFTI Version="2"><Matrix>{first}{second}</Matrix></CIFTI>"#)
}

fn series_map(frames: usize, step: &str) -> String {
    format!(
        r#"<MatrixIndicesMap AppliesToMatrixDimension="0" IndicesMapToDataType="CIFTI_INDEX_TYPE_SERIES" NumberOfSeriesPoints="{frames}" SeriesExponent="0" SeriesStart="0" SeriesStep="{step}" SeriesUnit="SECOND"/>"#
    )
}

/// A parcellated series of these frames of a person.
pub(super) fn ptseries(path: &Path, person: usize, frames: &[usize], step: &str) {
    ptseries_of(path, &NAMES, person, frames, step);
}

/// The same of parcels of these names.
pub(super) fn ptseries_of(path: &Path, names: &[&str], person: usize, frames: &[usize], step: &str) {
    let parcels = names.iter().fold(String::new(), |s, n| s + &format!(r#"<Parcel Name="{n}"/>"#));
    let across = format!(
        r#"<MatrixIndicesMap AppliesToMatrixDimension="1" IndicesMapToDataType="CIFTI_INDEX_TYPE_PARCELS">{parcels}</MatrixIndicesMap>"#
    );
    let values: Vec<f32> = (0..names.len()).flat_map(|r| frames.iter().map(move |t| value(person, *t, r))).collect();
    cifti(path, &matrix(&series_map(frames.len(), step), &across), [frames.len(), names.len()], &values);
}

/// Points of a region in dense files.
const POINTS: usize = 3;

fn brain_models(dimension: usize) -> String {
    let model = |side: &str, offset: usize| {
        let count = REGIONS * POINTS / 2;
        let vertices: Vec<String> = (0..count).map(|v| v.to_string()).collect();
        format!(
            r#"<BrainModel IndexOffset="{offset}" IndexCount="{count}" ModelType="CIFTI_MODEL_TYPE_SURFACE" BrainStructure="CIFTI_STRUCTURE_CORTEX_{side}" SurfaceNumberOfVertices="100"><VertexIndices>{}</VertexIndices></BrainModel>"#,
            vertices.join(" ")
        )
    };
    let models = model("LEFT", 0) + &model("RIGHT", REGIONS * POINTS / 2);
    format!(
        r#"<MatrixIndicesMap AppliesToMatrixDimension="{dimension}" IndicesMapToDataType="CIFTI_INDEX_TYPE_BRAIN_MODELS">{models}</MatrixIndicesMap>"#
    )
}

/// Which region a point is in: the first half of the points is on the left.
fn region_of_point(point: usize) -> usize {
    let half = REGIONS * POINTS / 2;
    2 * (point % half / POINTS) + point / half
}

/// A dense series of these frames of a person; `at` changes the value of a point.
pub(super) fn dtseries(path: &Path, person: usize, frames: &[usize], step: &str, at: impl Fn(usize, f32) -> f32) {
    let values: Vec<f32> = (0..REGIONS * POINTS)
        .flat_map(|p| frames.iter().map(move |t| (p, value(person, *t, region_of_point(p)))))
        .map(|(p, x)| at(p, x))
        .collect();
    cifti(path, &matrix(&series_map(frames.len(), step), &brain_models(1)), [frames.len(), REGIONS * POINTS], &values);
}

/// The labels of dense files.
pub(super) fn dlabel(path: &Path) {
    dlabel_of_keys(path, |key| key);
}

/// The same with other keys in the map than in the table.
pub(super) fn dlabel_of_keys(path: &Path, at: impl Fn(usize) -> usize) {
    let labels = NAMES.iter().enumerate().fold(String::new(), |s, (i, n)| {
        s + &format!(r#"<Label Key="{}" Red="0" Green="0" Blue="0" Alpha="1">{n}</Label>"#, i + 1)
    });
    let map = format!(
        r#"<MatrixIndicesMap AppliesToMatrixDimension="0" IndicesMapToDataType="CIFTI_INDEX_TYPE_LABELS"><NamedMap><MapName>m</MapName><LabelTable>{labels}</LabelTable></NamedMap></MatrixIndicesMap>"#
    );
    let keys: Vec<f32> = (0..REGIONS * POINTS).map(|p| at(region_of_point(p) + 1) as f32).collect();
    cifti(path, &matrix(&map, &brain_models(1)), [1, REGIONS * POINTS], &keys);
}
