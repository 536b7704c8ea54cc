//! Cleaning equals that of nilearn.

use bdo_data::clean::{Band, Cleaning, clean};
use bdo_data::confound::{Confounds, Preset, load};

use super::confounds::generated_table;
use super::golden::{golden, indices, numbers};

/// Relative to the spread of the cleaned series: f32 keeps 6e-8 of values near 1000, that is 6e-6 of a spread near 10.
const TOLERANCE: f64 = 2e-5;

fn assert_close(found: &[f32], expected: &[f64], case: &str) {
    assert_eq!(found.len(), expected.len(), "{case}");
    let mean = expected.iter().sum::<f64>() / expected.len() as f64;
    let spread = (expected.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / expected.len() as f64).sqrt();
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((f64::from(*a) - b).abs() <= TOLERANCE * spread, "{case}: {a} is not {b} at {i} (spread {spread})");
    }
}

#[test]
fn every_combination_gives_the_values_of_nilearn() {
    let golden = golden("clean.json");
    let series: Vec<f32> = numbers(&golden["series"]).into_iter().map(|x| x as f32).collect();
    let regions = golden["regions"].as_u64().unwrap() as usize;
    let frames = series.len() / regions;
    let rows = numbers(&golden["confounds"]);
    let nuisance = Confounds {
        names: (0..5).map(|i| i.to_string()).collect(),
        frames,
        columns: (0..5).map(|c| rows.iter().skip(c).step_by(5).copied().collect()).collect(),
        kept: None,
    };
    let mut compared = 0;
    for (case, expected) in golden["cases"].as_object().unwrap() {
        let values = numbers(&expected["values"]);
        let cleaned = if let Some(preset) = expected["preset"].as_str() {
            let preset = serde_json::from_value::<Preset>(preset.into()).unwrap();
            let confounds = load(&generated_table(), &preset.strategy()).unwrap().without_first(4);
            let cleaning = Cleaning { detrend: true, band_pass: None };
            clean(&series[4 * regions..60 * regions], regions, 2.0, Some(&confounds), &cleaning).unwrap()
        } else {
            let hz = |key: &str| expected[key].as_f64();
            let band = Band { high_pass_hz: hz("high_pass"), low_pass_hz: hz("low_pass") };
            let band_pass = (band.high_pass_hz.is_some() || band.low_pass_hz.is_some()).then_some(band);
            let cleaning = Cleaning { detrend: expected["detrend"].as_bool().unwrap(), band_pass };
            let columns = expected["confounds"].as_u64().unwrap() as usize;
            let mut confounds = Confounds {
                names: nuisance.names[..columns].to_vec(),
                columns: nuisance.columns[..columns].to_vec(),
                ..nuisance.clone()
            };
            if expected["censored"].as_bool().unwrap() {
                confounds.kept = indices(&golden["kept"]);
            }
            let used = (columns > 0).then_some(&confounds);
            clean(&series, regions, hz("t_r").unwrap(), used, &cleaning).unwrap()
        };
        assert_close(&cleaned.series, &values, case);
        compared += 1;
    }
    assert_eq!(compared, 14);
}

#[test]
fn a_missing_region_stays_missing_and_harms_no_other() {
    let series: Vec<f32> = (0..50).flat_map(|t| [(t * t % 17) as f32, f32::NAN]).collect();
    let alone: Vec<f32> = series.iter().step_by(2).copied().collect();
    let cleaning = Cleaning { detrend: true, band_pass: Some(Band { high_pass_hz: Some(0.01), low_pass_hz: None }) };
    let both = clean(&series, 2, 2.0, None, &cleaning).unwrap();
    let one = clean(&alone, 1, 2.0, None, &cleaning).unwrap();
    assert!(both.series.iter().skip(1).step_by(2).all(|x| x.is_nan()));
    assert!(both.series.iter().step_by(2).eq(one.series.iter()));
}

#[test]
fn what_cannot_be_cleaned_is_said() {
    let series = vec![0.5f32; 20];
    let value = |i: usize| ((i * i * 7919 + i * 104_729) % 10_007) as f64;
    let confounds = |frames: usize, columns: usize, kept: Option<Vec<usize>>| Confounds {
        names: vec!["x".into(); columns],
        frames,
        columns: (0..columns).map(|c| (0..frames).map(|t| value(t * columns + c)).collect()).collect(),
        kept,
    };
    let error = |c: Confounds, cleaning: Cleaning| clean(&series, 1, 2.0, Some(&c), &cleaning).unwrap_err().to_string();
    let plain = Cleaning::default();
    assert_eq!(error(confounds(19, 1, None), plain), "confounds: expected 20 frames as in the series, found 19");
    assert_eq!(
        error(confounds(20, 1, Some(vec![3])), plain),
        "frames left after censoring: expected at least 2, found 1 of 20"
    );
    assert_eq!(
        error(confounds(20, 19, None), plain),
        "degrees of freedom: expected more kept frames than the 19 independent confounds, and a mean, found 20"
    );
    let band = |high, low| Cleaning { detrend: false, band_pass: Some(Band { high_pass_hz: high, low_pass_hz: low }) };
    assert_eq!(
        error(confounds(20, 1, None), band(Some(0.01), Some(0.1))),
        "length for the band-pass: expected more than 33 frames, found 20"
    );
    assert!(error(confounds(20, 1, None), band(Some(0.2), Some(0.1))).contains("lower limit below the upper"));
    assert!(error(confounds(20, 1, None), band(Some(0.0), None)).contains("limits above 0 Hz"));
}
