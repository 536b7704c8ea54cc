//! Work cut into parts for job arrays.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Which part, from 1.
    pub part: usize,
    pub of: usize,
}

impl Shard {
    /// The stretch of a list that belongs to this part: stretches of all parts, one after another, are the list.
    pub fn range(self, items: usize) -> Range<usize> {
        let end = |part: usize| (items as u128 * part as u128 / self.of.max(1) as u128) as usize;
        end(self.part.saturating_sub(1))..end(self.part)
    }

    /// The part of a task of a Slurm array, whose numbers may start and step as they like.
    pub fn of_slurm(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let number = |name: &str| -> Result<usize, String> {
            let found = variable(name).unwrap_or_else(|| "nothing".to_owned());
            found.parse().map_err(|_| format!("expected {name}, which Slurm sets in a job array, found {found}"))
        };
        let (task, count) = (number("SLURM_ARRAY_TASK_ID")?, number("SLURM_ARRAY_TASK_COUNT")?);
        let first = number("SLURM_ARRAY_TASK_MIN").unwrap_or(1);
        let step = number("SLURM_ARRAY_TASK_STEP").unwrap_or(1).max(1);
        let last = number("SLURM_ARRAY_TASK_MAX").unwrap_or(first + count.saturating_sub(1) * step);
        let part = task.saturating_sub(first) / step + 1;
        // Some tasks of an array that are started again would otherwise take themselves for the whole of it.
        let gaps = first + count.saturating_sub(1) * step != last;
        if gaps || part > count || !task.saturating_sub(first).is_multiple_of(step) {
            return Err(format!(
                "expected an array without gaps, found task {task} of {count} from {first} to {last}; name the part instead, as in 3/100"
            ));
        }
        Ok(Self { part, of: count })
    }
}

/// At most so many items of a list, evenly spread over it.
pub fn spread(items: &[usize], most: usize) -> Vec<usize> {
    evenly(items.len(), most).map(|k| items[k]).collect()
}

/// Places of at most so many items of a list of this length, evenly spread over it.
pub fn evenly(items: usize, most: usize) -> impl Iterator<Item = usize> + Clone {
    let count = items.min(most);
    (0..count).map(move |k| k * items / count)
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match parsed {
            Some((part, of)) if (1..=of).contains(&part) => Ok(Self { part, of }),
            _ => Err("expected I/N with I from 1 to N, for example 2/8".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn parts_one_after_another_are_the_whole() {
        for items in [0, 1, 7, 8, 100] {
            for of in [1, 2, 3, 8, 200] {
                let parts: Vec<usize> = (1..=of).flat_map(|part| Shard { part, of }.range(items)).collect();
                assert_eq!(parts, (0..items).collect::<Vec<_>>(), "{items} items in {of} parts");
            }
        }
    }

    #[test]
    fn some_items_are_spread_over_all() {
        let items: Vec<usize> = (10..22).collect();
        assert_eq!(spread(&items, 12), items);
        assert_eq!(spread(&items, 500), items);
        assert_eq!(spread(&items, 4), [10, 13, 16, 19]);
        assert!(spread(&[], 4).is_empty() && spread(&items, 0).is_empty());
    }

    #[test]
    fn a_task_of_an_array_knows_its_part() {
        let slurm = |values: &'static [(&str, &str)]| {
            Shard::of_slurm(|name| values.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        let zero =
            slurm(&[("SLURM_ARRAY_TASK_ID", "3"), ("SLURM_ARRAY_TASK_COUNT", "4"), ("SLURM_ARRAY_TASK_MIN", "0")]);
        assert_eq!(zero, Ok(Shard { part: 4, of: 4 }));
        let stepped = slurm(&[
            ("SLURM_ARRAY_TASK_ID", "20"),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
            ("SLURM_ARRAY_TASK_MIN", "10"),
            ("SLURM_ARRAY_TASK_STEP", "5"),
        ]);
        assert_eq!(stepped, Ok(Shard { part: 3, of: 3 }));
        assert!(slurm(&[]).unwrap_err().contains("SLURM_ARRAY_TASK_ID"));
        let gaps =
            slurm(&[("SLURM_ARRAY_TASK_ID", "9"), ("SLURM_ARRAY_TASK_COUNT", "3"), ("SLURM_ARRAY_TASK_MIN", "1")]);
        assert!(gaps.unwrap_err().contains("without gaps"));
        let again = slurm(&[
            ("SLURM_ARRAY_TASK_ID", "3"),
            ("SLURM_ARRAY_TASK_COUNT", "2"),
            ("SLURM_ARRAY_TASK_MIN", "3"),
            ("SLURM_ARRAY_TASK_MAX", "7"),
        ]);
        assert!(again.unwrap_err().contains("task 3 of 2 from 3 to 7; name the part"));
    }

    #[test]
    fn parts_are_typed_as_numbers() {
        assert_eq!("2/8".parse(), Ok(Shard { part: 2, of: 8 }));
        for wrong in ["", "0/3", "4/3", "1", "a/b", "1/0"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
