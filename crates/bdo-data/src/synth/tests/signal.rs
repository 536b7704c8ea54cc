//! What a scan looks like, against what real scans look like.

use super::{autocorrelation, connectivity, mean, small};

#[test]
fn neighbouring_volumes_resemble_each_other_as_in_real_scans() {
    // Real regional series without filtering: 0.5-0.7 at 0.72 s, 0.36 on average at 2 s, 0.21 at 3 s.
    for (tr_seconds, low, high) in [(0.72, 0.45, 0.80), (2.0, 0.25, 0.52), (3.0, 0.10, 0.35)] {
        let generator = small(|s| (s.regions, s.frames, s.tr_seconds) = (60, 300, Some(tr_seconds)));
        let found = mean(&(0..6).map(|i| autocorrelation(&generator.scan(i), 60)).collect::<Vec<_>>());
        assert!((low..high).contains(&found), "{found} at {tr_seconds} s");
    }
}

#[test]
fn connectivity_is_modular() {
    let generator = small(|s| (s.regions, s.frames) = (100, 300));
    for i in 0..6 {
        let (within, between, networks) = connectivity(&generator, &generator.scan(i));
        assert!(within > 0.2 && within < 0.75, "{within}");
        assert!(within > between + 0.12, "subject {i}: {within} within, {between} between");
        assert!(networks.iter().filter(|&&r| r > between).count() >= 7, "{networks:?} against {between}");
    }
}

#[test]
fn the_baseline_is_near_a_thousand_and_fluctuates_by_percents() {
    let generator = small(|s| s.frames = 200);
    let scan = generator.scan(0);
    for region in 0..40 {
        let values: Vec<f64> = (0..200).map(|t| f64::from(scan.series[t * 40 + region])).collect();
        let level = mean(&values);
        let deviation = mean(&values.iter().map(|v| (v - level) * (v - level)).collect::<Vec<_>>()).sqrt();
        assert!((400.0..2500.0).contains(&level), "{level}");
        assert!((0.3..4.0).contains(&(100.0 * deviation / level)), "{deviation} of {level}");
    }
}

#[test]
fn sudden_movements_show_in_the_series_and_can_be_censored() {
    let generator = small(|s| (s.subjects, s.frames) = (12, 300));
    let censoring = small(|s| (s.subjects, s.frames, s.censor_fd_mm) = (12, 300, Some(0.5)));
    let mut drops = Vec::new();
    let mut censored_frames = 0;
    for i in 0..12 {
        let scan = generator.scan(i);
        let frame_mean = |t: usize| {
            let row = &scan.series[t * 40..(t + 1) * 40];
            mean(&row.iter().map(|&v| f64::from(v)).collect::<Vec<_>>())
        };
        let fd = scan.framewise_displacement_mm.as_ref().unwrap();
        assert_eq!(fd[0], 0.0, "the first volume has no predecessor");
        for t in (1..300).filter(|&t| fd[t] > 1.0) {
            drops.push(100.0 * (frame_mean(t) - frame_mean(t - 1)) / frame_mean(t - 1) / f64::from(fd[t]));
        }
        let kept = censoring.scan(i);
        let expected: Vec<usize> = (0..300).filter(|&t| fd[t] <= 0.5).collect();
        censored_frames += 300 - expected.len();
        assert_eq!(kept.frame_times_seconds, expected.iter().map(|&t| t as f64 * 0.8).collect::<Vec<_>>());
        assert_eq!(kept.series.len(), expected.len() * 40);
        assert_eq!(kept.series[40 * (expected.len() - 1)..], scan.series[40 * expected[expected.len() - 1]..][..40]);
    }
    assert!(drops.len() >= 8, "{} large movements in an hour of scanning", drops.len());
    // A drop of 1.2 % per mm, less the share of the previous still volumes and the fluctuation of the mean.
    assert!((-1.6..-0.6).contains(&mean(&drops)), "{} % per mm", mean(&drops));
    assert!((8..200).contains(&censored_frames), "{censored_frames}");
}

#[test]
fn censoring_leaves_at_least_two_volumes() {
    let generator = small(|s| (s.frames, s.censor_fd_mm) = (3, Some(0.05)));
    for i in 0..6 {
        assert!(generator.scan(i).frame_times_seconds.len() >= 2);
    }
}

#[test]
fn sites_differ_and_the_requested_repetition_time_is_the_first_sites() {
    let generator = small(|s| (s.subjects, s.sites, s.frames, s.tr_seconds) = (40, 3, 2, Some(2.0)));
    assert_eq!(generator.sites.iter().map(|s| s.tr_seconds).collect::<Vec<_>>(), [2.0, 2.5, 1.6]);
    let mut levels = vec![Vec::new(); 3];
    for i in 0..40 {
        let scan = generator.scan(i);
        let site = generator.person_truth(i).site;
        assert_eq!(scan.site.as_ref(), Some(&generator.sites[site].name));
        assert_eq!(scan.tr_seconds, generator.sites[site].tr_seconds);
        levels[site].push(mean(&scan.series.iter().map(|&v| f64::from(v)).collect::<Vec<_>>()));
    }
    for (site, level) in generator.sites.iter().zip(&levels) {
        assert!(level.len() >= 5, "{} people at {}", level.len(), site.name);
        // The slope of the gain over the brain moves the mean by a few percent at most.
        assert!((mean(level) / mean(&levels[0]) / (site.gain / generator.sites[0].gain) - 1.0).abs() < 0.05);
    }
    let typical = small(|s| (s.sites, s.tr_seconds) = (3, None));
    assert_eq!(typical.sites.iter().map(|s| s.tr_seconds).collect::<Vec<_>>(), [0.735, 2.0, 0.8]);
}
