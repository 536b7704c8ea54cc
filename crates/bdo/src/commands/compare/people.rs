//! Who is divided how, and what can be asked of them: everything that is looked at before work begins.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use bdo_data::division::{Division, Scheme, Split, SplitError, SplitManifest};
use bdo_data::participants::Participants;
use bdo_data::target::Target;
use bdo_eval::leak::LeakReport;
use bdo_eval::part::Parts;
use bdo_model::weights::TrainingPeople;

use super::CompareArgs;
use super::asked::Asked;
use super::request::People;
use crate::cli::Common;

/// A row that has no result for a label under a split, and why.
pub(super) struct Impossible {
    pub(super) row: String,
    pub(super) target: String,
    pub(super) split_blake3: String,
    pub(super) reason: String,
}

/// Every row with every label under every split, before anything is trained: what cannot be done is said now and is a dash in
/// the table.
pub(super) fn impossible(
    rows: &[Asked],
    targets: &[Target],
    splits: &[Split],
    args: &CompareArgs,
    common: &Common,
) -> anyhow::Result<Vec<Impossible>> {
    // Without people to fit on or to test no row has a result; where that is so everywhere there is nothing to do.
    if splits.iter().all(|split| split.refuse_empty().is_err()) {
        splits.iter().try_for_each(Split::refuse_empty)?;
    }
    let mut found = vec![];
    for row in rows {
        let is_chosen = row.members().iter().any(|row| row.is_chosen_by_validation());
        for (target, split) in targets.iter().flat_map(|target| splits.iter().map(move |split| (target, split))) {
            let empty = split.refuse_empty().map_err(|error| error.to_string());
            let check = || Parts::check_people(target, split).map_err(|error| error.to_string());
            let checked = empty.and_then(|()| if is_chosen { check() } else { Ok(()) });
            if let (true, Err(reason)) = (is_of(args, split, target), checked) {
                let (row, target, split_blake3) = (row.name(), target.name.clone(), split.blake3.clone());
                found.push(Impossible { row, target, split_blake3, reason });
            }
        }
    }
    if let Some(Impossible { row, target, reason, .. }) = found.first() {
        let more = if found.len() > 1 { format!(" (and {} more)", found.len() - 1) } else { String::new() };
        common.note(format!("{row} cannot predict {target} under every split: {reason}{more}"));
    }
    Ok(found)
}

/// Scans that are there under two names.
pub(super) fn copied(division: &Division<'_>) -> Option<String> {
    let pairs: Vec<String> = division.copies().iter().map(|(a, b)| format!("{a} = {b}")).collect();
    (!pairs.is_empty()).then(|| pairs.join(", "))
}

/// Every split of the comparison: random ones for each seed, and groups of sites where they are asked for.
pub(super) fn splits(args: &CompareArgs, division: &Division<'_>) -> Result<SplitManifest, SplitError> {
    let People { stratify_by, site_groups, .. } = &args.people;
    let seeds = args.people.seeds();
    let mut splits = vec![];
    for target in stratify_by.as_ref().map_or(args.targets.as_slice(), std::slice::from_ref) {
        splits.extend(division.random(target, &seeds)?.splits);
        if *site_groups {
            splits.extend(division.leave_site_out(target, seeds.first().copied().unwrap_or(0))?);
        }
    }
    Ok(division.manifest(splits))
}

/// Whether a row is scored on a label under a split. Groups of sites ask what a feature is worth elsewhere; methods that train
/// for long are not trained five times more for it.
pub(super) fn is_asked(args: &CompareArgs, asked: &Asked, split: &Split, target: &Target) -> bool {
    let long = asked.members().iter().any(|row| row.trains_for_long());
    let left_out = long && matches!(split.scheme(), Scheme::LeaveSiteOut { .. });
    !left_out && is_of(args, split, target)
}

/// Whether people were divided for this label.
fn is_of(args: &CompareArgs, split: &Split, target: &Target) -> bool {
    args.people.stratify_by.is_some() || Some(target.name.as_str()) == split.target()
}

/// One division for all targets leaves nobody out, so nobody may lack a value.
pub(super) fn everybody_has_a_value(splits: &[Split], targets: &[String], people: &Participants) -> anyhow::Result<()> {
    for target in targets {
        let lacks = |subject: &&String| people.row_of(subject).is_none_or(|row| people.get(row, target).is_none());
        let parts =
            |s: &Split| [s.train.subjects().to_vec(), s.validation.subjects().to_vec(), s.test.subjects().to_vec()];
        let missing: BTreeSet<String> = splits.iter().flat_map(parts).flatten().filter(|s| lacks(&s)).collect();
        if let Some(first) = missing.first() {
            bail!(
                "--stratify-by: expected a value of {target:?} for everybody, found {} people without one ({first} ...); \
                 leave the option out to divide people by each target",
                missing.len()
            );
        }
    }
    Ok(())
}

/// Refuses splits with anybody on both sides; says what a table must say about pre-training, split by split.
pub(super) fn guarded(
    splits: &[Split],
    division: &Division<'_>,
    pretraining: Option<&TrainingPeople>,
) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let mut flags = BTreeMap::new();
    for split in splits {
        let mut report = LeakReport::of_split(split, division);
        report.refuse()?;
        if let Some(people) = pretraining {
            report = report.with_pretraining(split, division, people);
        }
        flags.insert(split.blake3.clone(), report.flags(split.test.subjects().len()));
    }
    Ok(flags)
}
