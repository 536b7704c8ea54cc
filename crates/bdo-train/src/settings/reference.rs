//! All keys with their meaning, as text: a preset as commented TOML, and the table of docs/configuration.md.

use super::{FOLLOWING, Preset, Settings, keys};
use bdo_model::key::Key;
use std::fmt::Write;

/// Longest line of a comment.
const LINE: usize = 116;

/// A preset with every key, each under its meaning and, where the preset changes it, the reason.
pub fn commented(preset: Preset) -> String {
    let (settings, reasons) = (Settings::preset(preset), preset.reasons());
    let mut text = format!("# Preset {preset}.\n");
    let mut table = "";
    for key in keys().filter(|key| key.users.contains(&preset.kind().name())) {
        if key.table != table {
            table = key.table;
            let _ = writeln!(text, "\n[{table}]");
        }
        let path = key.path();
        wrapped(&mut text, key.about.trim());
        if let Some((_, reason)) = reasons.iter().find(|(changed, _)| *changed == path) {
            wrapped(&mut text, &format!("{preset}: {reason}"));
        }
        let (asked, effective) = (settings.value(key, true), settings.value(key, false));
        let follows = if asked == effective { String::new() } else { format!("  # {effective}") };
        let _ = writeln!(text, "{} = {asked}{follows}", key.name);
    }
    text
}

fn wrapped(text: &mut String, sentence: &str) {
    let mut line = String::from("#");
    for word in sentence.split_whitespace() {
        if line.len() + word.len() >= LINE {
            let _ = writeln!(text, "{line}");
            "#".clone_into(&mut line);
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}

/// docs/configuration.md.
pub fn document() -> String {
    let mut text = String::from(include_str!("configuration.md"));
    let presets = Preset::ALL.map(|preset| (preset, Settings::preset(preset)));
    let mut table = "";
    for key in keys() {
        if key.table != table {
            table = key.table;
            let _ = write!(text, "\n## [{table}]\n\n| key | accepted | ");
            let _ = writeln!(text, "{} | meaning |", Preset::ALL.map(Preset::name).join(" | "));
            let _ = writeln!(text, "|---|---|{}---|", "---|".repeat(presets.len()));
        }
        let _ = write!(text, "| `{}` | {} |", key.name, accepted(key));
        for (preset, settings) in &presets {
            let used = key.users.contains(&preset.kind().name());
            let value = settings.value(key, true).to_string();
            let _ = write!(text, " {} |", if used { value.trim_matches('"') } else { "-" });
        }
        let _ = writeln!(text, " {} |", key.about.trim());
    }
    text.push_str("\n## What presets change, and why\n");
    for preset in Preset::ALL {
        let _ = writeln!(text, "\n`{preset}`");
        let reasons = preset.reasons();
        if reasons.is_empty() {
            text.push_str("\n- nothing: its values are the defaults of the keys.\n");
        }
        for (i, (path, reason)) in reasons.iter().filter(|(path, _)| path != "model.kind").enumerate() {
            let _ = writeln!(text, "{}- `{path}`: {reason}", if i == 0 { "\n" } else { "" });
        }
    }
    text
}

fn accepted(key: &Key) -> String {
    let auto = FOLLOWING.contains(&(key.table, key.name));
    key.accepted() + if auto { ", or auto" } else { "" }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_document_lists_every_key_as_it_is() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        if std::env::var_os("BDO_WRITE_DOCS").is_some() {
            std::fs::write(path, document()).unwrap();
        }
        let stored = std::fs::read_to_string(path).unwrap();
        assert!(stored == document(), "docs/configuration.md is stale: run this test once with BDO_WRITE_DOCS=1");
    }

    #[test]
    fn a_preset_that_is_printed_reads_back_and_has_a_reason_for_every_change() {
        for preset in Preset::ALL {
            let again = Settings::resolve(Some(preset), &commented(preset), &[]).unwrap();
            assert_eq!((again.settings, again.unused), (Settings::preset(preset), vec![]));
            for (path, reason) in preset.reasons() {
                assert!(path == "model.kind" || reason.len() > 10, "{preset}: {path} has no reason");
            }
        }
    }

    #[test]
    fn every_word_of_a_key_is_accepted() {
        for key in keys() {
            for word in key.words {
                let set = format!("{}={word}", key.path());
                Settings::resolve(None, "", std::slice::from_ref(&set))
                    .unwrap_or_else(|error| panic!("{set}: {error}"));
            }
        }
    }
}
