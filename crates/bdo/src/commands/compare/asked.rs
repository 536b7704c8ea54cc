//! What a table has a line for: one row, or several whose kernels are added (`bdo-mean+fc-tangent`).

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};
use serde::{Serialize, Serializer};

use super::row::{BdoRow, Row};
use crate::args::{Choice, one_of};

/// One row, or a stack of two or more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked(Vec<Row>);

impl Asked {
    /// As typed and printed.
    pub(crate) fn name(&self) -> String {
        self.0.iter().map(|row| row.typed()).collect::<Vec<_>>().join("+")
    }

    /// The row itself, or the members of the stack.
    pub(crate) fn members(&self) -> &[Row] {
        &self.0
    }

    /// The row, where it is no stack.
    pub(crate) fn single(&self) -> Option<Row> {
        if let [row] = self.0.as_slice() { Some(*row) } else { None }
    }

    /// The same with every model before its first step.
    pub(crate) fn untrained(&self) -> Option<Self> {
        let twin: Vec<Row> = self.0.iter().map(|row| row.untrained().unwrap_or(*row)).collect();
        (twin != self.0).then_some(Self(twin))
    }

    /// Whether some of its features come from a model before its first step.
    pub(crate) fn is_untrained(&self) -> bool {
        self.0.iter().filter_map(|row| row.bdo()).any(BdoRow::is_untrained)
    }

    /// The rows it is judged by: the same untrained, and the last member of a stack.
    pub(crate) fn references(&self) -> Vec<Self> {
        let last = self.0.last().filter(|_| self.0.len() > 1).map(|row| Self::from(*row));
        self.untrained().into_iter().chain(last).collect()
    }

    /// The lines of a table for what was asked for: a stack brings its members, a trained row its untrained twin.
    pub(crate) fn lines(asked: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut out: Vec<Self> = vec![];
        let mut add = |line: Self| {
            if !out.contains(&line) {
                out.push(line);
            }
        };
        for asked in asked {
            let members: Vec<Self> = asked.0.iter().map(|row| Self::from(*row)).collect();
            for line in members.into_iter().chain([asked]) {
                let twin = line.untrained();
                add(line);
                twin.into_iter().for_each(&mut add);
            }
        }
        out
    }
}

impl From<Row> for Asked {
    fn from(row: Row) -> Self {
        Self(vec![row])
    }
}

impl Serialize for Asked {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

/// Parses a row, or rows joined by `+`; help and completions list the rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AskedParser;

impl TypedValueParser for AskedParser {
    type Value = Asked;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Asked, Error> {
        let typed = value.to_string_lossy();
        let names: Vec<&str> = typed.split('+').collect();
        let rows = (names.iter())
            .map(|name| one_of::<Row>().parse_ref(command, arg, OsStr::new(name)))
            .collect::<Result<Vec<Row>, Error>>()?;
        let twice = rows.iter().enumerate().find(|(i, row)| rows[..*i].contains(row)).map(|(_, row)| row);
        let found = if rows.len() < 2 { None } else { rows.iter().find(|row| !row.has_kernel()).or(twice) };
        if let Some(found) = found {
            let message = format!(
                "{typed}: expected different rows of features joined by + (fc, fc-tangent, fc-power, bdo-mean and other \
                 poolings), found {}{}\n",
                found.typed(),
                if found.has_kernel() { " twice" } else { "" }
            );
            return Err(Error::raw(ErrorKind::ValueValidation, message).with_cmd(command));
        }
        Ok(Asked(rows))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Row::CHOICES.iter().map(|(_, name, help)| PossibleValue::new(*name).help(*help))))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn asked(text: &str) -> Result<Asked, Error> {
        AskedParser.parse_ref(&Command::new("bdo"), None, OsStr::new(text))
    }

    #[test]
    fn stacks_bring_members_and_untrained_twins() {
        let lines = Asked::lines([asked("bdo-mean+fc-tangent").unwrap()].into_iter());
        let names: Vec<String> = lines.iter().map(Asked::name).collect();
        assert_eq!(
            names,
            ["bdo-mean", "bdo-untrained-mean", "fc-tangent", "bdo-mean+fc-tangent", "bdo-untrained-mean+fc-tangent"]
        );
        let references = |k: usize| lines[k].references().iter().map(Asked::name).collect::<Vec<_>>();
        assert_eq!(references(0), ["bdo-untrained-mean"]);
        assert_eq!(references(3), ["bdo-untrained-mean+fc-tangent", "fc-tangent"]);
        assert_eq!(references(4), ["fc-tangent"]);
        assert!(references(2).is_empty());
    }

    #[test]
    fn rows_without_a_kernel_are_not_added() {
        for (text, found) in [("fc+motion", "found motion"), ("fc+fc", "found fc twice"), ("fc+magic", "'magic'")] {
            let said = asked(text).unwrap_err().to_string();
            assert!(said.contains(found), "{said}");
        }
    }
}
