//! Prints what is read from images as JSON, for comparison with other readers.
//!
//!     image_probe values FILE...
//!     image_probe parcellate IMAGE ATLAS [MASK]
//!     image_probe resample ATLAS IMAGE
//!     image_probe corpus FOLDER COUNT
#![allow(clippy::unwrap_used, missing_docs)]

#[allow(dead_code)]
#[path = "builder.rs"]
mod builder;
#[path = "mutation.rs"]
mod mutation;

use std::path::Path;

use bdo_data::atlas::image::AtlasImage;
use bdo_data::nifti::{NiftiReader, resample_nearest};
use bdo_data::parcellate::{LabelsMasker, MaskerOptions};
use bdo_data::problem::ReadError;
use serde_json::{Value, json};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["values", ref files @ ..] => {
            for file in files {
                println!("{}", values(Path::new(file)).unwrap_or_else(|e| json!({"error": e.to_string()})));
            }
        }
        ["parcellate", image, atlas, ref mask @ ..] => println!("{}", parcellate(image, atlas, mask.first().copied())),
        ["resample", atlas, image] => println!("{}", resample(atlas, image)),
        ["corpus", folder, count] => {
            for number in 0..count.parse().unwrap() {
                let bytes = mutation::variant(number);
                let ending = if bytes.starts_with(&[0x1f, 0x8b]) { "nii.gz" } else { "nii" };
                std::fs::write(Path::new(folder).join(format!("{number:05}.{ending}")), bytes).unwrap();
            }
        }
        _ => eprintln!("image_probe values|parcellate|resample|corpus ..."),
    }
}

/// JSON has no NaN, and 32-bit floats are exact in 64.
fn numbers(values: &[f32]) -> Vec<Value> {
    values.iter().map(|x| if x.is_finite() { json!(f64::from(*x)) } else { Value::Null }).collect()
}

fn values(path: &Path) -> Result<Value, ReadError> {
    let mut reader = NiftiReader::open(path)?;
    let mut volume = vec![0.0; reader.header.voxels()];
    let mut all = vec![];
    while reader.next_volume(&mut volume)? {
        all.extend_from_slice(&volume);
    }
    let affine = reader.grid.affine.0.concat();
    let (dims, tr, warnings) = (reader.header.dims.clone(), reader.header.tr_seconds(), reader.warnings.clone());
    reader.finish()?;
    Ok(json!({
        "shape": dims, "affine": affine, "tr_seconds": tr, "values": numbers(&all), "warnings": warnings,
    }))
}

fn parcellate(image: &str, atlas: &str, mask: Option<&str>) -> Value {
    let atlas = AtlasImage::read(Path::new(atlas), None).unwrap();
    let reader = NiftiReader::open(Path::new(image)).unwrap();
    let mask = mask.map(|m| NiftiReader::read_single(Path::new(m)).unwrap());
    let options =
        MaskerOptions { assume_affine: true, least_coverage: 0.0, least_mask_overlap: 0.0, ..MaskerOptions::default() };
    let masker = LabelsMasker::new(&atlas, &reader, mask.as_ref(), &options).unwrap();
    let series = masker.extract(reader).unwrap();
    json!({
        "ids": atlas.map.ids, "frames": series.frames, "series": numbers(&series.series), "warnings": series.warnings,
    })
}

fn resample(atlas: &str, image: &str) -> Value {
    let atlas = NiftiReader::read_single(Path::new(atlas)).unwrap();
    let image = NiftiReader::open(Path::new(image)).unwrap();
    json!(numbers(&resample_nearest(&atlas.values, &atlas.grid, &image.grid).unwrap()))
}
