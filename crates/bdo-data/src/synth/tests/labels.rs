//! Labels: plausible, partly missing, shared in families, and in the scans as strongly as stated.

use super::super::{CONSTANTS, Effects, Generator, LABEL_WEIGHTS};
use super::{connectivity, correlation, mean, small};

#[test]
fn labels_are_plausible_and_a_stated_share_is_missing() {
    let generator = small(|s| (s.subjects, s.missing_label_fraction) = (1000, 0.1));
    let people = generator.participants();
    let column = |name: &str| (0..1000).map(|row| people.get(row, name).map(str::to_owned)).collect::<Vec<_>>();
    let ages: Vec<f64> = column("age").iter().flatten().map(|age| age.parse().unwrap()).collect();
    assert!(ages.iter().all(|a| (18.0..=85.0).contains(a)));
    assert!((mean(&ages) - 51.5).abs() < 4.0, "{}", mean(&ages));
    let share = |count: usize| count as f64 / 1000.0;
    // Five standard errors of a share of a thousand: 0.047 at one tenth, 0.08 at one half (siblings included).
    for name in ["age", "sex", "diagnosis", "trait"] {
        let missing = column(name).iter().filter(|label| label.is_none()).count();
        assert!((share(missing) - 0.1).abs() < 0.047, "{name}: {missing}");
    }
    let truths: Vec<_> = (0..1000).map(|i| generator.person_truth(i)).collect();
    assert!((share(truths.iter().filter(|t| t.sex == "F").count()) - 0.5).abs() < 0.08);
    let patients = share(truths.iter().filter(|t| t.diagnosis == "patient").count());
    assert!((patients - CONSTANTS.patient_fraction).abs() < 0.08);
    for (row, truth) in truths.iter().enumerate() {
        assert!(people.get(row, "sex").is_none_or(|sex| sex == truth.sex));
        assert!(people.get(row, "age").is_none_or(|age| age.parse() == Ok(truth.age_years)));
    }
    let recorded = |missing: f64, name: &str| {
        let people = small(|s| s.missing_label_fraction = missing).participants();
        (0..6).filter(|row| people.get(*row, name).is_some()).count()
    };
    assert_eq!((recorded(0.0, "age"), recorded(0.0, "trait")), (6, 6));
    assert_eq!((recorded(1.0, "age"), recorded(1.0, "sex")), (0, 0));
}

#[test]
fn siblings_share_a_family_a_site_and_half_of_their_parameters() {
    let generator = small(|s| (s.subjects, s.sites, s.effects) = (1500, 4, Effects::none()));
    let truths: Vec<_> = (0..1500).map(|i| generator.person_truth(i)).collect();
    let (mut first, mut second, mut strangers) = (Vec::new(), Vec::new(), Vec::new());
    for pair in truths.windows(2) {
        if pair[0].family == pair[1].family {
            assert_eq!(pair[0].site, pair[1].site);
            assert!((pair[0].age_years - pair[1].age_years).abs() < 40.0);
            first.extend(pair[0].coupling_score);
            second.extend(pair[1].coupling_score);
        } else {
            strangers.push((pair[0].trait_score, pair[1].trait_score));
        }
    }
    assert!(first.len() / 8 > 150, "{} pairs", first.len() / 8);
    // More than 150 pairs x 8 networks: the standard error of a correlation of one half is below 0.03.
    assert!((correlation(&first, &second) - 0.5).abs() < 0.12, "{}", correlation(&first, &second));
    let (a, b): (Vec<f64>, Vec<f64>) = strangers.into_iter().unzip();
    assert!(correlation(&a, &b).abs() < 0.17);
}

/// Correlation of a weighted sum of the networks' connectivity with each label: age, sex, diagnosis, trait.
fn recovered(generator: &Generator) -> [f64; 4] {
    let subjects = generator.spec().subjects;
    let mut features: Vec<[f64; 8]> = Vec::new();
    let mut labels: [Vec<f64>; 4] = Default::default();
    for subject in 0..subjects {
        features.push(connectivity(generator, &generator.scan(subject)).2);
        let truth = generator.person_truth(subject);
        labels[0].push(truth.age_years);
        labels[1].push(f64::from(u8::from(truth.sex == "F")));
        labels[2].push(f64::from(u8::from(truth.diagnosis == "patient")));
        labels[3].push(truth.trait_score);
    }
    let weights = [LABEL_WEIGHTS.age, LABEL_WEIGHTS.sex, LABEL_WEIGHTS.diagnosis, LABEL_WEIGHTS.trait_score];
    std::array::from_fn(|label| {
        let score: Vec<f64> = features.iter().map(|f| f.iter().zip(weights[label]).map(|(x, w)| x * w).sum()).collect();
        correlation(&score, &labels[label])
    })
}

#[test]
fn labels_can_be_read_from_connectivity_when_they_have_an_effect() {
    let effects = Effects { trait_coupling: 0.6, ..Effects::default() };
    let generator = small(|s| (s.subjects, s.regions, s.frames, s.effects) = (150, 48, 200, effects));
    let [age, sex, diagnosis, trait_score] = recovered(&generator);
    // The standard error of a correlation of zero over 150 people is 0.082; three of them are 0.25.
    assert!(age > 0.4, "age {age}");
    assert!(sex > 0.25, "sex {sex}");
    assert!(diagnosis > 0.25, "diagnosis {diagnosis}");
    assert!(trait_score > 0.25, "trait {trait_score}");
}

#[test]
fn labels_cannot_be_read_from_connectivity_when_they_have_none() {
    let generator = small(|s| (s.subjects, s.regions, s.frames, s.effects) = (150, 48, 200, Effects::none()));
    for (label, r) in ["age", "sex", "diagnosis", "trait"].iter().zip(recovered(&generator)) {
        // Three standard errors over 150 people, a little wider for the siblings among them.
        assert!(r.abs() < 0.28, "{label}: {r}");
    }
}

#[test]
fn an_effect_of_zero_leaves_the_scan_untouched_by_the_label() {
    // The same people with and without effects differ only through the labels: the mean person stays the same.
    let without = small(|s| (s.subjects, s.effects) = (2, Effects::none()));
    let with = small(|s| s.subjects = 2);
    let (a, b) = (without.person_truth(0), with.person_truth(0));
    assert_eq!((a.age_years, a.sex, a.diagnosis, a.trait_score), (b.age_years, b.sex, b.diagnosis, b.trait_score));
    assert_eq!(a.hrf_scale, b.hrf_scale);
    assert_eq!(a.loading, b.loading);
    assert_ne!(a.coupling_score, b.coupling_score);
    let age_z = (a.age_years - 51.5) / (67.0 / 12_f64.sqrt());
    let expected = a.rate_scale * (-CONSTANTS.person_rate_log_sd * 0.8 * age_z).exp();
    assert!((b.rate_scale / expected - 1.0).abs() < 1e-12);
}
