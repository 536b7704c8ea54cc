//! Harmonisation knows training people only.

use bdo_data::random;
use bdo_eval::combat::FittedCombat;
use bdo_eval::features::Features;
use proptest::prelude::*;

fn made(seed: u64, rows: usize, width: usize) -> (Features, Vec<&'static str>) {
    let mut rng = random::stream("harmonise", &[seed]);
    let mut draw = || random::below(&mut rng, 2001) as f64 / 1000.0 - 1.0;
    let sites: Vec<&str> = (0..rows).map(|i| ["a", "b", "c"][i % 3]).collect();
    let shift = |site: &str| if site == "a" { 0.0 } else { 4.0 };
    let values = (0..rows * width).map(|x| shift(sites[x / width]) + draw() * (1.0 + (x % width) as f64)).collect();
    (Features::new(rows, width, values).unwrap(), sites)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whoever is harmonised with others becomes what he becomes alone, and changing others changes nothing.
    #[test]
    fn others_do_not_matter(seed in 0u64..1000, person in 30usize..40) {
        let (features, sites) = made(seed, 40, 5);
        let train: Vec<usize> = (0..30).collect();
        let fitted = FittedCombat::fit(&features, &train, &sites[..30]);
        let mut values = features.values().to_vec();
        for i in (30..40).filter(|i| *i != person) {
            values[i * 5..(i + 1) * 5].iter_mut().for_each(|x| *x = *x * 7.0 - 3.0);
        }
        let changed = Features::new(40, 5, values).unwrap();
        let again = FittedCombat::fit(&changed, &train, &sites[..30]);
        prop_assert_eq!(&fitted, &again);
        let all: Vec<usize> = (0..40).collect();
        let together = again.apply(&changed, &all, &sites);
        let alone = fitted.apply(&features, &[person], &sites[person..=person]);
        prop_assert_eq!(&together[person * 5..(person + 1) * 5], alone.as_slice());
    }
}

#[test]
fn site_means_come_together() {
    let (features, sites) = made(1, 60, 4);
    let rows: Vec<usize> = (0..60).collect();
    let fitted = FittedCombat::fit(&features, &rows, &sites);
    let out = fitted.apply(&features, &rows, &sites);
    let gap = |values: &[f64]| {
        let mean = |site: &str| {
            let of: Vec<f64> = rows.iter().filter(|i| sites[**i] == site).map(|i| values[i * 4]).collect();
            of.iter().sum::<f64>() / of.len() as f64
        };
        (mean("a") - mean("b")).abs()
    };
    assert!(gap(features.values()) > 3.0 && gap(&out) < 0.3, "{} to {}", gap(features.values()), gap(&out));
}

#[test]
fn unseen_sites_are_left_as_they_are() {
    let (features, sites) = made(2, 30, 3);
    let train: Vec<usize> = (0..29).collect();
    let fitted = FittedCombat::fit(&features, &train, &sites[..29]);
    assert_eq!(fitted.apply(&features, &[29], &["moon"]), features.row(29));
}
