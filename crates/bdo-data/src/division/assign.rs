//! Which person goes to which part, with people of a like label spread evenly over the parts.

use std::collections::{BTreeMap, BTreeSet};

use super::Division;
use super::split::{HELD_OUT_FRACTION, SITE_GROUPS, Scheme, SplitError, SplitSpec};
use crate::participants::{Label, Participants, Values};
use crate::random;

/// Fewest people of a class, or of everything, that a split makes sense for: one in each part.
const LEAST_PEOPLE: usize = 5;

/// People who stay together: a family, or a single person.
struct Unit {
    members: Vec<String>,
    stratum: usize,
}

/// Training, validation, test and excluded people of a table of labels, each sorted; families and sites are those of the division.
pub(super) fn assign(
    division: &Division<'_>,
    labels: &Participants,
    spec: &SplitSpec,
) -> Result<[Vec<String>; 4], SplitError> {
    let mut persons = eligible(division, labels, spec)?;
    persons.sort();
    let everybody: BTreeSet<String> = labels.subjects().map(str::to_owned).collect();
    let (mut train, mut validation, mut test);
    match spec.scheme {
        Scheme::Random | Scheme::HoldOut { .. } => {
            let units = units(&persons);
            let n = persons.len();
            let held_out = match spec.scheme {
                Scheme::HoldOut { percent } => n * percent as usize / 100,
                _ => (HELD_OUT_FRACTION * n as f64) as usize,
            };
            [train, validation, test] = distribute(units, spec.seed, [held_out, held_out]);
        }
        Scheme::LeaveSiteOut { fold } => {
            let tested_sites = site_group(&persons, fold)?;
            let tested = |p: &Person| p.site.as_ref().is_some_and(|s| tested_sites.contains(s));
            let tested_families: BTreeSet<&String> =
                persons.iter().filter(|p| tested(p)).filter_map(|p| p.family.as_ref()).collect();
            let rest: Vec<Person> = persons
                .iter()
                .filter(|p| !tested(p) && !p.family.as_ref().is_some_and(|f| tested_families.contains(f)))
                .cloned()
                .collect();
            let held_out = (HELD_OUT_FRACTION * rest.len() as f64) as usize;
            [train, validation, _] = distribute(units(&rest), spec.seed, [0, held_out]);
            test = persons.iter().filter(|p| tested(p)).map(|p| p.subject.clone()).collect();
        }
    }
    train.sort();
    validation.sort();
    test.sort();
    let used: BTreeSet<&String> = train.iter().chain(&validation).chain(&test).collect();
    let excluded = everybody.iter().filter(|s| !used.contains(s)).cloned().collect();
    Ok([train, validation, test, excluded])
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Person {
    subject: String,
    family: Option<String>,
    site: Option<String>,
    stratum: usize,
}

/// The people with a value of the target, each with stratum, family and site.
fn eligible(division: &Division<'_>, labels: &Participants, spec: &SplitSpec) -> Result<Vec<Person>, SplitError> {
    let missing = |column: &String, table: &Participants| SplitError::NoColumn {
        column: column.clone(),
        found: table.columns().to_vec(),
    };
    let strata = match &spec.target {
        Some(target) => strata(&labels.label(target).ok_or_else(|| missing(target, labels))?),
        None => vec![Some(0); labels.len()],
    };
    for column in [&spec.family_column, &spec.site_column].into_iter().flatten() {
        division.people().columns().contains(column).then_some(()).ok_or_else(|| missing(column, division.people()))?;
    }
    let person = |(row, subject): (usize, &str)| {
        let get = |column: &Option<String>| division.value(subject, column.as_deref()?).map(str::to_owned);
        let (family, site) = (get(&spec.family_column), get(&spec.site_column));
        Some(Person { subject: subject.to_owned(), family, site, stratum: strata[row]? })
    };
    let persons: Vec<Person> = labels.subjects().enumerate().filter_map(person).collect();
    if persons.len() < LEAST_PEOPLE {
        let target = spec.target.clone().unwrap_or_default();
        return Err(SplitError::TooFew { target, expected: LEAST_PEOPLE, found: persons.len() });
    }
    Ok(persons)
}

/// Families, and everybody without one alone. A family counts to the stratum of its first member.
fn units(persons: &[Person]) -> Vec<Unit> {
    let mut families: BTreeMap<(Option<&str>, &str), Unit> = BTreeMap::new();
    for person in persons {
        let key = match &person.family {
            Some(family) => (Some(family.as_str()), ""),
            None => (None, person.subject.as_str()),
        };
        let unit = families.entry(key).or_insert_with(|| Unit { members: vec![], stratum: person.stratum });
        unit.members.push(person.subject.clone());
    }
    families.into_values().collect()
}

/// Fills test and validation from every stratum in proportion, in random order; what does not fit trains.
fn distribute(units: Vec<Unit>, seed: u64, [test_size, validation_size]: [usize; 2]) -> [Vec<String>; 3] {
    let mut strata: BTreeMap<usize, Vec<Unit>> = BTreeMap::new();
    for unit in units {
        strata.entry(unit.stratum).or_default().push(unit);
    }
    let sizes: Vec<usize> = strata.values().map(|units| units.iter().map(|u| u.members.len()).sum()).collect();
    let test_quotas = proportional(&sizes, test_size);
    let validation_quotas = proportional(&sizes, validation_size);
    let mut parts = [vec![], vec![], vec![]];
    for ((stratum, mut units), (mut test_room, mut validation_room)) in
        strata.into_iter().zip(test_quotas.into_iter().zip(validation_quotas))
    {
        random::shuffle(&mut units, &mut random::stream("split", &[seed, stratum as u64]));
        for unit in units {
            let size = unit.members.len();
            let part = if size <= test_room {
                test_room -= size;
                2
            } else if size <= validation_room {
                validation_room -= size;
                1
            } else {
                0
            };
            parts[part].extend(unit.members);
        }
    }
    parts
}

/// Divides `total` over the strata in proportion to their sizes, by largest remainder, ties to the first.
fn proportional(sizes: &[usize], total: usize) -> Vec<usize> {
    let n: usize = sizes.iter().sum();
    if n == 0 {
        return vec![0; sizes.len()];
    }
    let mut quotas: Vec<usize> = sizes.iter().map(|s| s * total / n).collect();
    let mut by_remainder: Vec<usize> = (0..sizes.len()).collect();
    by_remainder.sort_by_key(|&i| std::cmp::Reverse(sizes[i] * total % n));
    let left = total - quotas.iter().sum::<usize>();
    for &i in by_remainder.iter().take(left) {
        quotas[i] += 1;
    }
    quotas
}

/// The sites of one fold: sites in order of size are given to the group with the fewest people so far.
fn site_group(persons: &[Person], fold: usize) -> Result<BTreeSet<String>, SplitError> {
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    for site in persons.iter().filter_map(|p| p.site.as_ref()) {
        *counts.entry(site).or_default() += 1;
    }
    let folds = counts.len().min(SITE_GROUPS);
    if folds < 2 {
        return Err(SplitError::TooFewSites { found: counts.len() });
    }
    if fold >= folds {
        return Err(SplitError::NoSuchFold { fold, folds });
    }
    let mut sites: Vec<(&String, usize)> = counts.into_iter().collect();
    sites.sort_by_key(|(name, n)| (std::cmp::Reverse(*n), *name));
    let mut groups = vec![(0, BTreeSet::new()); folds];
    for (site, n) in sites {
        let smallest = groups.iter_mut().min_by_key(|(people, _)| *people).expect("there are at least two groups");
        smallest.0 += n;
        smallest.1.insert(site.clone());
    }
    Ok(groups.swap_remove(fold).1)
}

/// Quantile bins of a quantity.
const BINS: usize = 10;
/// A bin with fewer people is merged with its neighbour.
const LEAST_IN_BIN: usize = 5;

/// The stratum of every person, a class or a quantile bin; `None` where the label is missing.
fn strata(label: &Label) -> Vec<Option<usize>> {
    match label.values() {
        Values::Classes { of, .. } => of,
        Values::Quantity(values) => {
            let mut present: Vec<f64> = values.iter().copied().flatten().collect();
            present.sort_by(f64::total_cmp);
            let edges = bin_edges(&present);
            values.iter().map(|v| v.map(|x| edges.partition_point(|e| *e <= x))).collect()
        }
    }
}

/// Inner edges of quantile bins over sorted values, without those that would leave a bin with too few people.
fn bin_edges(sorted: &[f64]) -> Vec<f64> {
    let mut edges: Vec<f64> = vec![];
    let mut counted = 0;
    for bin in 1..BINS {
        let edge = sorted[bin * sorted.len() / BINS];
        let below = sorted.partition_point(|x| *x < edge);
        if below - counted >= LEAST_IN_BIN && sorted.len() - below >= LEAST_IN_BIN {
            edges.push(edge);
            counted = below;
        }
    }
    edges
}

#[cfg(test)]
mod strata_tests {
    use super::*;

    #[test]
    fn bins_have_at_least_five_members() {
        for n in [11, 23, 50, 51, 97, 200] {
            let values: Vec<Option<f64>> =
                (0..n).map(|i| Some(f64::from((i * i) % 37) + f64::from(i) * 0.001)).collect();
            let strata = strata(&Label::Number(values));
            let bins = strata.iter().flatten().max().copied().unwrap_or(0) + 1;
            for bin in 0..bins {
                let members = strata.iter().flatten().filter(|s| **s == bin).count();
                assert!(members >= LEAST_IN_BIN || bins == 1, "{n} people: bin {bin} of {bins} has {members}");
            }
            assert!(bins <= BINS);
        }
    }

    #[test]
    fn codes_are_classes_and_missing_stays_missing() {
        let label = Label::Number(vec![Some(1.0), Some(2.0), None, Some(1.0)]);
        assert_eq!(strata(&label), [Some(0), Some(1), None, Some(0)]);
    }
}
