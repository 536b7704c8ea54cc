//! What a comparison left out of the full protocol, and the command that leaves out nothing.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::render::escaped;

/// One thing that was made smaller than the protocol has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    pub what: String,
    pub option: String,
    /// How much of it there was.
    pub here: String,
    /// How much the protocol has.
    pub full: String,
}

/// All cuts of a comparison, beside the command that was typed and the one without them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protocol {
    /// What was cut; empty for the full protocol.
    pub cuts: Vec<Cut>,
    pub command: String,
    /// The same data, targets and methods without cuts.
    pub full_command: String,
}

impl Protocol {
    /// Cuts as a table and the command that runs the full protocol, or that nothing was cut.
    pub fn to_markdown(&self) -> String {
        let mut out = String::from("### What was cut of the full protocol\n\n");
        if self.cuts.is_empty() {
            let _ = writeln!(out, "Nothing. The command was:\n\n    {}", self.full_command);
            return out;
        }
        out += "| what | here | full protocol | option |\n|---|---|---|---|\n";
        for cut in &self.cuts {
            let cells = [&cut.what, &cut.here, &cut.full].map(|text| escaped(text)).join(" | ");
            let _ = writeln!(out, "| {cells} | `{}` |", escaped(&cut.option));
        }
        let _ =
            writeln!(out, "\nThe full protocol on the same data, targets and methods:\n\n    {}", self.full_command);
        out
    }

    /// The same as comments of LaTeX.
    pub fn to_latex(&self) -> String {
        let mut out = String::new();
        for cut in &self.cuts {
            let _ = writeln!(out, "% cut: {}: {} instead of {} ({})", cut.what, cut.here, cut.full, cut.option);
        }
        if self.cuts.is_empty() {
            out += "% nothing was cut of the full protocol\n";
        }
        // A line break inside would end the comment.
        let _ = writeln!(out, "% full protocol: {}\n", self.full_command.replace(['\n', '\r'], " "));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_listed_with_the_full_command() {
        let cut = Cut { what: "seeds".into(), option: "--seeds".into(), here: "0 | 1".into(), full: "0, 1, 2".into() };
        let full_command = "bdo compare --data 'a b' --out o".to_owned();
        let mut protocol = Protocol { cuts: vec![cut], command: "x".into(), full_command };
        let text = protocol.to_markdown();
        assert!(text.contains("| seeds | 0 \\| 1 | 0, 1, 2 | `--seeds` |"), "{text}");
        assert!(text.contains("\n    bdo compare --data 'a b' --out o\n"), "{text}");
        assert!(protocol.to_latex().lines().all(|line| line.is_empty() || line.starts_with('%')));
        protocol.cuts.clear();
        assert!(protocol.to_markdown().contains("Nothing."));
    }
}
