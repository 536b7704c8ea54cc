//! The result of a verb, and notes on the way.

use std::fmt::Display;
use std::io::Write;

use serde_json::Value;

use crate::cli::Common;
use crate::host::Event;

/// The result of a verb: JSON for programs, text for people.
#[derive(Debug)]
pub(crate) struct Answer {
    json: Value,
    text: String,
    /// Done, but some inputs were rejected (and listed).
    pub(crate) some_rejected: bool,
}

impl Answer {
    pub(crate) fn new(json: Value, text: impl Into<String>) -> Self {
        Self { json, text: text.into(), some_rejected: false }
    }

    pub(crate) fn rejected(self, some_rejected: bool) -> Self {
        Self { some_rejected, ..self }
    }

    /// Of a verb that has printed while it ran.
    pub(crate) fn nothing() -> Self {
        Self::new(Value::Null, "")
    }

    pub(crate) fn into_json(self) -> Value {
        self.json
    }

    /// Prints to stdout, which is for data only; nothing where another program called.
    pub(crate) fn print(&self, common: &Common) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        if self.json.is_null() || common.host.is_some() {
            return Ok(());
        }
        if common.json {
            writeln!(out, "{}", self.json)?;
        } else {
            writeln!(out, "{}", self.text.trim_end())?;
        }
        out.flush()
    }
}

impl Common {
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet {
            self.complain(format!("note: {text}"));
        }
    }

    /// A line on stderr, or for the program that called; quiet or not. If nobody reads it, work goes on.
    pub(crate) fn complain(&self, line: impl Display) {
        match &self.host {
            Some(host) => host.tell(Event::Said(line.to_string())),
            None => {
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        }
    }
}

pub(crate) fn note(common: &Common, text: &str) {
    common.note(text);
}
