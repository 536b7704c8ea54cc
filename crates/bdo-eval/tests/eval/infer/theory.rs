//! What the method promises, whatever was learned.

use super::fixture::{REGIONS, answer, config, decoded, model, rows};
use bdo_model::dynamics::{HeldStep, exact_moments};
use bdo_model::intake::Windows;
use bdo_model::posterior::engine::Engine;
use bdo_model::posterior::rows::RowKind;
use bdo_model::posterior::spread::{Uncertainty, decoded_variance};

const SHORT: Windows = Windows { longest_whole: 20, frames: 20, own_clock: true };

#[test]
fn nothing_behind_a_mask_reaches_any_output() {
    let dir = tempfile::tempdir().unwrap();
    for windows in [Windows::WHOLE_SCANS, SHORT] {
        let frozen = model(dir.path(), windows, |_| {});
        let engine = Engine::new(&frozen);
        let visible = |i: usize| i % 3 != 1;
        let ask = |behind: f32| {
            let pieces = answer(&engine, &rows(53, visible, behind));
            let spreads: Vec<u32> = pieces
                .iter()
                .flat_map(|p| decoded_variance(&engine, p, Uncertainty::Sampled { draws: 4 }, &[3]))
                .map(f32::to_bits)
                .collect();
            let bits = |pick: fn(&bdo_model::posterior::engine::Piece) -> &Vec<f32>| -> Vec<u32> {
                pieces.iter().flat_map(pick).map(|x| x.to_bits()).collect()
            };
            (bits(|p| &p.decoded), bits(|p| &p.mean), bits(|p| &p.variance), bits(|p| &p.control), spreads)
        };
        // Bit for bit, for values no scan has and for none at all.
        let nothing = ask(0.0);
        assert!(ask(1e30) == nothing && ask(f32::NAN) == nothing && ask(f32::INFINITY) == nothing);
    }
}

#[test]
fn splitting_an_interval_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let frozen = model(dir.path(), Windows::WHOLE_SCANS, |_| {});
    let engine = Engine::new(&frozen);
    let plain = rows(30, |i| i % 2 == 0, 0.0);
    let mut split = plain.clone();
    // Five more times inside the gap between frames 10 and 11.
    for extra in 1..=5 {
        let at = 10 + extra;
        split.times_seconds.insert(at, 15.0 + 0.25 * extra as f64);
        split.kinds.insert(at, RowKind::Asked);
        split.values.splice(at * REGIONS..at * REGIONS, [0.0; REGIONS]);
    }
    let (before, after) = (decoded(&answer(&engine, &plain)), decoded(&answer(&engine, &split)));
    for row in 0..30 {
        let there = if row > 10 { row + 5 } else { row };
        for region in 0..REGIONS {
            let (a, b) = (before[row * REGIONS + region], after[there * REGIONS + region]);
            // Six products of exponentials instead of one: a few units in the last place of f32.
            assert!((a - b).abs() < 2e-5 * (1.0 + a.abs()), "row {row}: {a} {b}");
        }
    }
}

#[test]
fn without_control_the_answer_is_the_prior() {
    let dir = tempfile::tempdir().unwrap();
    // Nothing of the context gets through: no control, and mixture weights of the bias alone.
    let frozen = model(dir.path(), Windows::WHOLE_SCANS, |parameters| {
        for name in ["dynamics.control.weight", "dynamics.mixture.weight"] {
            parameters.0.get_mut(name).unwrap().values.fill(0.0);
        }
    });
    let engine = Engine::new(&frozen);
    let (one, other) = (rows(25, |i| i % 2 == 0, 0.0), rows(25, |i| i % 5 == 0, 0.0));
    let (first, second) = (answer(&engine, &one), answer(&engine, &other));
    assert_eq!(first[0].mean, second[0].mean);
    assert_eq!(first[0].variance, second[0].variance);
    // And the prior is the closed form with rates softmax(c) exp(G).
    let parameters = frozen.model.parameters();
    let values = |name: &str| parameters.0[name].values.clone();
    let config = config();
    let (d, count) = (config.width, config.basis_count);
    let logits = values("dynamics.mixture.bias");
    let sum: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
    let (log_rates, mean0, log_var) =
        (values("dynamics.log_rates"), values("dynamics.initial_mean"), values("dynamics.initial_log_var"));
    for k in 0..d {
        let rate: f64 = (0..count)
            .map(|l| {
                f64::from(logits[l]).exp() / sum * (f64::from(log_rates[l * d + k]).exp() + config.dynamics.rate_floor)
            })
            .sum();
        let steps: Vec<HeldStep> =
            (0..25).map(|i| HeldStep { rate, control: 0.0, delta: if i == 0 { 0.0 } else { 0.45 } }).collect();
        let variance0 = f64::from(log_var[k]).exp() + config.dynamics.variance_floor;
        let exact = exact_moments(&steps, f64::from(mean0[k]), variance0, config.dynamics.diffusion);
        for (row, (mean, variance)) in exact.iter().enumerate() {
            let (m, v) = (f64::from(first[0].mean[row * d + k]), f64::from(first[0].variance[row * d + k]));
            assert!(
                (m - mean).abs() < 1e-5 && (v - variance).abs() < 1e-5 * (1.0 + variance),
                "{row} {k}: {m} {mean}, {v} {variance}"
            );
        }
    }
}

#[test]
fn windows_answer_what_the_whole_scan_would_where_they_agree_on_the_clock() {
    let dir = tempfile::tempdir().unwrap();
    let frozen = model(dir.path(), SHORT, |_| {});
    let engine = Engine::new(&frozen);
    // A scan of one window is answered whole; a longer one in windows, every row once and finite.
    let short = answer(&engine, &rows(20, |i| i % 2 == 0, 0.0));
    assert_eq!((short.len(), short[0].rows.clone()), (1, 0..20));
    let long = answer(&engine, &rows(95, |i| i % 2 == 0, 0.0));
    assert!(long.len() > 5);
    assert_eq!(long.iter().map(|p| p.rows.len()).sum::<usize>(), 95);
    assert!(decoded(&long).iter().all(|x| x.is_finite()));
}
