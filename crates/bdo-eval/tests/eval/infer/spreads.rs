//! The two ways through the decoder, and the simulation beside the closed form.

use super::fixture::{REGIONS, answer, model, rows};
use bdo_model::intake::Windows;
use bdo_model::posterior::engine::Engine;
use bdo_model::posterior::simulation::simulate;
use bdo_model::posterior::spread::{Uncertainty, decoded_variance};

#[test]
fn draws_and_slopes_agree_where_the_decoder_is_linear() {
    let dir = tempfile::tempdir().unwrap();
    // Large biases keep every unit of the decoder on, so that it is linear for any state there is.
    let frozen = model(dir.path(), Windows::WHOLE_SCANS, |parameters| {
        parameters.0.get_mut("decoder.linear1.bias").unwrap().values.fill(50.0);
    });
    let engine = Engine::new(&frozen);
    let pieces = answer(&engine, &rows(12, |i| i % 2 == 0, 0.0));
    let slopes = decoded_variance(&engine, &pieces[0], Uncertainty::Linearised, &[]);
    let draws = decoded_variance(&engine, &pieces[0], Uncertainty::Sampled { draws: 4000 }, &[1]);
    assert_eq!(slopes.len(), 12 * REGIONS);
    for (a, b) in slopes.iter().zip(&draws) {
        // A variance of 4,000 normal draws has a relative standard error of 2.2 %; the largest of 84 stays below five.
        assert!((a - b).abs() < 0.12 * a, "{a} {b}");
    }
    let again = decoded_variance(&engine, &pieces[0], Uncertainty::Sampled { draws: 4000 }, &[1]);
    assert_eq!(draws, again, "the same seed, the same draws");
    assert_ne!(draws, decoded_variance(&engine, &pieces[0], Uncertainty::Sampled { draws: 4000 }, &[2]));
}

#[test]
fn a_simulation_approaches_the_closed_form() {
    let dir = tempfile::tempdir().unwrap();
    let frozen = model(dir.path(), Windows::WHOLE_SCANS, |_| {});
    let engine = Engine::new(&frozen);
    let pieces = answer(&engine, &rows(20, |i| i % 2 == 0, 0.0));
    let (coarse, fine) = (simulate(&engine, &pieces[0], 1, 2000, 5), simulate(&engine, &pieces[0], 64, 2000, 5));
    // 2,000 paths: 2.2 % of a standard deviation by sampling, and 1/64 of the coarse error by the step.
    assert!(fine.mean_difference < 0.03 + coarse.mean_difference / 32.0, "{fine:?} {coarse:?}");
    assert!((fine.variance_ratio - 1.0).abs() < 0.03, "{fine:?}");
    assert!((coarse.variance_ratio - 1.0).abs() > (fine.variance_ratio - 1.0).abs());
}
