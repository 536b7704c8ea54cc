//! Headers, affines and values as nibabel reads them.

use bdo_data::nifti::NiftiReader;

use super::{floats, golden, golden_json};

#[test]
fn every_type_order_and_version_reads_as_in_nibabel() {
    let records = golden_json("readers.json");
    let records = records.as_array().unwrap();
    assert!(records.len() > 20);
    for record in records {
        let name = record["file"].as_str().unwrap();
        let mut reader = NiftiReader::open(&golden(name)).unwrap_or_else(|e| panic!("{e}"));
        let shape: Vec<u64> = record["shape"].as_array().unwrap().iter().map(|x| x.as_u64().unwrap()).collect();
        assert_eq!(reader.header.dims, shape, "{name}");
        let expected = floats(&record["affine"]);
        for (found, expected) in reader.grid.affine.0.iter().flatten().zip(&expected) {
            // nibabel computes quaternions in extended precision and stores the result in 64 bits.
            assert!((found - expected).abs() <= 1e-12 * (1.0 + expected.abs()), "{name}: {found} {expected}");
        }
        if shape.len() > 3 {
            let tr = record["pixdim4"].as_f64().unwrap();
            assert!((reader.header.tr_seconds().unwrap() - tr).abs() < 1e-12, "{name}");
        }
        let values = floats(&record["values"]);
        let voxels = reader.header.voxels();
        let mut volume = vec![0.0; voxels];
        for expected in values.chunks(voxels) {
            assert!(reader.next_volume(&mut volume).unwrap(), "{name}");
            for (found, expected) in volume.iter().zip(expected) {
                // Volumes are 32-bit floats: one rounding.
                let tolerance = f64::from(f32::EPSILON) * expected.abs();
                assert!((f64::from(*found) - expected).abs() <= tolerance, "{name}: {found} {expected}");
            }
        }
        assert!(!reader.next_volume(&mut volume).unwrap(), "{name}");
        let summary = reader.finish().unwrap();
        let bytes = std::fs::read(golden(name)).unwrap();
        assert_eq!(summary.blake3, blake3::hash(&bytes).to_hex().to_string(), "{name}");
    }
}

#[test]
fn odd_headers_are_read_with_a_warning() {
    for (name, warning) in [
        ("qfac_repaired.nii", "pixdim[0] (qfac) is 0: taken as 1"),
        ("negative_spacing.nii", "pixdim[2] is -3: taken as 3"),
        ("unknown_code.nii", "sform_code is 77, which is not a code: taken as 0"),
        ("slope_nan.nii", "scl_slope is NaN: the stored numbers are taken as they are"),
    ] {
        let reader = NiftiReader::open(&golden(name)).unwrap();
        assert_eq!(reader.warnings, [warning], "{name}");
    }
    let reader = NiftiReader::open(&golden("extension.nii")).unwrap();
    assert!(reader.extensions[0].bytes.starts_with(b"two words"));
    assert_eq!(reader.extensions[0].code, 6);
}
