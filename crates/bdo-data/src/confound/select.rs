//! The columns of a strategy.

use std::collections::BTreeSet;

use super::strategy::{AromaKind, CompCorKind, Expansion};
use super::{ConfoundTable, Strategy};
use crate::problem::ReadError;

const MOTION: [&str; 6] = ["trans_x", "trans_y", "trans_z", "rot_x", "rot_y", "rot_z"];

/// Names of the regressors, sorted and without repetition. Everything the strategy needs must be there.
pub(super) fn columns(table: &ConfoundTable, strategy: &Strategy) -> Result<Vec<String>, ReadError> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let families = [
        (&MOTION[..], strategy.motion),
        (&["csf", "white_matter"][..], strategy.wm_csf),
        (&["global_signal"][..], strategy.global_signal),
    ];
    for (basic, expansion) in families {
        names.extend(expansion.into_iter().flat_map(|e| expanded(basic, e)));
    }
    if strategy.high_pass {
        names.extend(containing(table, "cosine"));
    }
    if let Some(kind) = strategy.compcor {
        names.extend(components(table, kind, strategy.n_compcor)?);
    }
    if strategy.ica_aroma == Some(AromaKind::Basic) {
        let aroma: Vec<String> = containing(table, "aroma").collect();
        if aroma.is_empty() {
            return Err(table.lacks("aroma_motion_* (for ica_aroma)"));
        }
        names.extend(aroma);
    }
    for wish in &strategy.columns {
        names.extend(own(table, wish)?);
    }
    let missing: Vec<&str> = names.iter().map(String::as_str).filter(|n| table.column(n).is_none()).collect();
    if !missing.is_empty() {
        let more = if missing.len() > 5 { format!(" and {} more", missing.len() - 5) } else { String::new() };
        return Err(table.lacks(&format!("{}{more}", missing[..missing.len().min(5)].join(", "))));
    }
    // Frames that are censored are no regressors, whatever their column is called.
    names.retain(|n| !n.contains("motion_outlier") && !n.contains("non_steady_state"));
    Ok(names.into_iter().collect())
}

/// The columns a wish stands for: one, or all whose names begin with what comes before `*`.
fn own(table: &ConfoundTable, wish: &str) -> Result<Vec<String>, ReadError> {
    let Some(start) = wish.strip_suffix('*') else { return Ok(vec![wish.to_owned()]) };
    let found: Vec<String> = table.names().iter().filter(|n| n.starts_with(start)).cloned().collect();
    if found.is_empty() { Err(table.lacks(wish)) } else { Ok(found) }
}

fn expanded(basic: &[&str], expansion: Expansion) -> Vec<String> {
    basic.iter().flat_map(|b| expansion.suffixes().iter().map(move |s| format!("{b}{s}"))).collect()
}

fn containing<'a>(table: &'a ConfoundTable, keyword: &'a str) -> impl Iterator<Item = String> + 'a {
    table.names().iter().filter(move |n| n.contains(keyword)).cloned()
}

/// Components are numbered within their kind; the JSON says how many there are and which mask each one is of.
fn components(table: &ConfoundTable, kind: CompCorKind, most: Option<usize>) -> Result<Vec<String>, ReadError> {
    let (prefixes, masks): (&[char], &[&str]) = match kind {
        CompCorKind::AnatCombined => (&['a'], &["combined"]),
        CompCorKind::AnatSeparated => (&['a', 'w', 'c'], &["WM", "CSF"]),
        CompCorKind::Temporal => (&['t'], &[]),
        CompCorKind::TemporalAnatCombined => (&['t', 'a'], &["combined"]),
        CompCorKind::TemporalAnatSeparated => (&['t', 'a', 'w', 'c'], &["WM", "CSF"]),
    };
    if table.components.is_empty() {
        return Err(table.content("JSON beside the table", "descriptions of the CompCor components", "none"));
    }
    let most = most.unwrap_or(usize::MAX);
    let mut chosen = vec![];
    for prefix in prefixes {
        let described = table.components.iter().filter(|(n, _)| n.contains(&format!("{prefix}_comp_cor"))).count();
        let numbered = (0..described).map(|i| format!("{prefix}_comp_cor_{i:02}"));
        if *prefix == 'a' {
            let numbered: Vec<String> = numbered.collect();
            let mask_of = |name: &String| {
                let of = table.components.iter().find(|(n, _)| n == name).and_then(|(_, m)| m.as_deref());
                of.ok_or_else(|| table.content("JSON beside the table", format!("the mask of {name}"), "none"))
            };
            for mask in masks {
                let mut of_mask = vec![];
                for name in &numbered {
                    if mask_of(name)? == *mask {
                        of_mask.push(name.clone());
                    }
                }
                chosen.extend(of_mask.into_iter().take(most));
            }
        } else {
            chosen.extend(numbered.take(most));
        }
    }
    if chosen.is_empty() {
        return Err(table.lacks("CompCor components of the chosen kind"));
    }
    Ok(chosen)
}
