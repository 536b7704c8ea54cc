//! Labels without relation to features are predicted at chance, whatever the seed.

use bdo_data::random;
use bdo_eval::closed_form::{FittedProbe, Labels};
use bdo_eval::features::Features;
use bdo_eval::metric::auc;

/// Features with few directions and noise, more columns than rows, as connectivity has.
fn features(rows: usize, width: usize) -> Features {
    let mut rng = random::stream("chance features", &[]);
    let mut draw = || random::below(&mut rng, 2001) as f64 / 1000.0 - 1.0;
    let common: Vec<f64> = (0..rows * 3).map(|_| draw()).collect();
    let loadings: Vec<f64> = (0..width * 3).map(|_| draw()).collect();
    let value = |i: usize, j: usize| (0..3).map(|k| common[i * 3 + k] * loadings[j * 3 + k]).sum::<f64>();
    let values = (0..rows * width).map(|x| value(x / width, x % width) + draw()).collect();
    Features::new(rows, width, values).unwrap()
}

#[test]
fn shuffled_labels_score_one_half() {
    let (people, fitted) = (100, 70);
    let features = features(people, 120);
    let mut sum = 0.0;
    for seed in 0..100 {
        let mut codes: Vec<usize> = (0..people).map(|i| i % 2).collect();
        random::shuffle(&mut codes, &mut random::stream("chance labels", &[seed]));
        let rows: Vec<usize> = (0..fitted).collect();
        let labels = Labels::Class { codes: codes[..fitted].to_vec(), classes: 2 };
        let probe = FittedProbe::fit(&features, &rows, &labels, &rows, seed).unwrap();
        let tested: Vec<usize> = (fitted..people).collect();
        let p: Vec<f64> = probe.predict(&features, &tested).into_iter().skip(1).step_by(2).collect();
        let positive: Vec<bool> = tested.iter().map(|i| codes[*i] == 1).collect();
        sum += auc(&positive, &p).unwrap();
    }
    let mean = sum / 100.0;
    // The spread of one area with 15 and 15 people is 0.107, so of the mean of 100 it is 0.011.
    assert!((mean - 0.5).abs() < 0.03, "{mean}");
}
