//! Foreign text made safe for where it stands: names of people and files are only ever text.

/// For HTML and SVG, in text and in quoted attributes. Characters no page may hold become a replacement mark.
pub(crate) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '`' => out += "&#96;",
            '\n' | '\t' => out.push(c),
            // Control characters are errors in a page; marks that turn the direction of text would rewrite what follows.
            c if c.is_control()
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}') =>
            {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

/// A cell of a CSV file. A spreadsheet must not take a name for a formula, so such text is quoted with a mark before it.
fn csv(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// A line of a CSV file.
pub(crate) fn csv_line<S: AsRef<str>>(cells: impl IntoIterator<Item = S>) -> String {
    cells.into_iter().map(|cell| csv(cell.as_ref())).collect::<Vec<_>>().join(",") + "\n"
}

/// Text that is at most `most` characters long; what is cut off is marked.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).collect::<String>() + "\u{2026}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_controls_and_formulas_are_only_text() {
        assert_eq!(html("<a href=\"x\">&'`"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;&#96;");
        assert_eq!(html("a\u{202e}b\0c\u{7}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        assert_eq!(csv("=1+1"), "'=1+1");
        assert_eq!(csv("-1.5"), "-1.5");
        assert_eq!(csv("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(shortened("abcdef", 4), "abc\u{2026}");
    }
}
