//! No person and no family is ever in two parts of a split.

use std::collections::{BTreeMap, BTreeSet};

use bdo_data::division::{Division, Scheme, Split, SplitError, SplitManifest};
use bdo_data::participants::Participants;
use bdo_data::random::{below, stream};

/// A random table: families of one to four, possibly over several sites, labels of three kinds with missing values.
fn random_people(seed: u64) -> Participants {
    let mut rng = stream("people", &[seed]);
    let n = 5 + below(&mut rng, 80);
    let families = 1 + below(&mut rng, n);
    let sites = 1 + below(&mut rng, 7);
    let mut people = Participants::with_columns(["dx", "age", "family", "site"]);
    for i in 0..n {
        let mut pick = |missing_of_ten: u64, values: u64| {
            (below(&mut rng, 10) >= missing_of_ten).then(|| below(&mut rng, values).to_string())
        };
        let labels = vec![pick(1, 3), pick(1, 1000), pick(3, families), pick(1, sites)];
        people.insert(format!("p{i:03}"), labels);
    }
    people
}

fn parts(split: &Split) -> [&[String]; 3] {
    [split.train.subjects(), split.validation.subjects(), split.test.subjects()]
}

#[test]
fn ten_thousand_random_cohorts_have_nobody_in_two_parts() {
    let mut made = 0;
    for seed in 0..10_000u64 {
        let people = random_people(seed);
        let target = [None, Some("dx"), Some("age")][seed as usize % 3];
        let scheme = if seed % 4 == 0 { Scheme::LeaveSiteOut { fold: seed as usize % 5 } } else { Scheme::Random };
        let split = match Division::of_people(&people).with_sites(None).split(target, scheme, seed % 3) {
            Ok(split) => split,
            Err(SplitError::TooFew { .. } | SplitError::TooFewSites { .. } | SplitError::NoSuchFold { .. }) => continue,
            Err(other) => panic!("{other}"),
        };
        made += 1;
        let mut part_of_family: BTreeMap<&str, usize> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (part, subjects) in parts(&split).into_iter().enumerate() {
            for subject in subjects {
                assert!(seen.insert(subject.clone()), "cohort {seed}: {subject} is in two parts");
                if let Some(family) = people.get(people.row_of(subject).unwrap(), "family") {
                    let other = part_of_family.insert(family, part).unwrap_or(part);
                    assert_eq!(other, part, "cohort {seed}: family {family} is in two parts");
                }
            }
        }
        seen.extend(split.excluded.iter().cloned());
        assert_eq!(seen.len(), people.len(), "cohort {seed}: everybody is in a part or excluded");
        assert!(split.is_intact());
    }
    assert!(made > 8000, "only {made} of the cohorts could be split");
}

fn plain_people(n: usize, label: impl Fn(usize) -> String) -> Participants {
    let mut people = Participants::with_columns(["y"]);
    for i in 0..n {
        people.insert(format!("p{i:04}"), vec![Some(label(i))]);
    }
    people
}

fn plain_split(people: &Participants, seed: u64) -> Split {
    Division::of_people(people).split(Some("y"), Scheme::Random, seed).unwrap()
}

#[test]
fn sizes_are_those_of_the_protocol() {
    // Test sizes of the paper's data sets are floor(0.2 n).
    for (n, expected) in [(724, 144), (1102, 220), (669, 133), (176, 35)] {
        let people = plain_people(n, |i| ["a", "b"][i % 2].to_owned());
        let split = plain_split(&people, 0);
        assert_eq!(split.test.subjects().len(), expected);
        assert_eq!(split.validation.subjects().len(), expected);
        assert_eq!(split.train.subjects().len(), n - 2 * expected);
    }
}

#[test]
fn classes_and_quantiles_are_spread_evenly() {
    let people = plain_people(500, |i| if i % 5 == 0 { "rare" } else { "usual" }.to_owned());
    let split = plain_split(&people, 1);
    for subjects in [split.validation.subjects(), split.test.subjects()] {
        assert_eq!(subjects.iter().filter(|s| s[1..].parse::<usize>().unwrap() % 5 == 0).count(), 20);
    }
    let people = plain_people(500, |i| format!("{}", i as f64 * 1.5));
    let split = plain_split(&people, 2);
    for decile in 0..10 {
        let inside = |s: &&String| s[1..].parse::<usize>().unwrap() / 50 == decile;
        assert_eq!(split.test.subjects().iter().filter(inside).count(), 10, "decile {decile}");
    }
}

#[test]
fn seeds_differ_and_repeat_and_the_order_of_the_table_does_not_matter() {
    let people = plain_people(100, |i| ["a", "b"][i % 2].to_owned());
    let again = plain_split(&people, 0);
    assert_eq!(plain_split(&people, 0), again);
    assert_ne!(plain_split(&people, 1).test, again.test);
    let mut reversed = Participants::with_columns(["y"]);
    for i in (0..100).rev() {
        reversed.insert(format!("p{i:04}"), vec![people.get(i, "y").map(str::to_owned)]);
    }
    assert_eq!(plain_split(&reversed, 0), again);
}

#[test]
fn a_changed_manifest_is_noticed() {
    let people = plain_people(50, |i| ["a", "b"][i % 2].to_owned());
    let manifest = Division::of_people(&people).random("y", &[0, 1, 2]).unwrap();
    let json = serde_json::to_string(&manifest).unwrap();
    let read: SplitManifest = serde_json::from_str(&json).unwrap();
    assert_eq!(read, manifest);
    let moved = json.replacen("p0001", "p9999", 1);
    let read: SplitManifest = serde_json::from_str(&moved).unwrap();
    assert!(read.splits.iter().any(|s| !s.is_intact()));
}

#[test]
fn site_groups_cover_every_site_once() {
    let mut people = Participants::with_columns(["y", "site"]);
    for i in 0..200usize {
        people.insert(format!("p{i:04}"), vec![Some(["a", "b"][i % 2].to_owned()), Some(format!("s{}", i % 9))]);
    }
    let mut tested = BTreeSet::new();
    let splits = Division::of_people(&people).with_sites(None).leave_site_out("y", 0).unwrap();
    assert_eq!(splits.len(), 5);
    for split in splits {
        let site = |s: &String| people.get(people.row_of(s).unwrap(), "site").unwrap().to_owned();
        let sites: BTreeSet<_> = split.test.subjects().iter().map(site).collect();
        assert!(split.train.subjects().iter().chain(split.validation.subjects()).all(|s| !sites.contains(&site(s))));
        tested.extend(split.test.subjects().iter().cloned());
    }
    assert_eq!(tested.len(), 200);
}
