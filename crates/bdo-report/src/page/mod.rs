//! A self-contained HTML page: opens offline, loads nothing, fits phones and printers, and has a dark mode.

mod methods;

pub use methods::Citation;
use methods::Methods;

use std::collections::BTreeSet;
use std::fmt::Write;

use base64::Engine;
use serde_json::Value;

use crate::escape;
use crate::figure::Figure;
use crate::table::Table;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page under construction; sections appear in the order they are added, methods and references at the end.
#[derive(Debug, Default)]
pub struct Page {
    title: String,
    command: String,
    /// What a reader came for, shown before the contents.
    verdicts: String,
    contents: String,
    titles: BTreeSet<String>,
    folder: String,
    body: String,
    sections: usize,
    figures: usize,
    in_figures: bool,
    live: Option<u64>,
    methods: Methods,
}

impl Page {
    pub fn new(title: &str, command: &str) -> Self {
        Self { title: title.to_owned(), command: command.to_owned(), ..Self::default() }
    }

    /// What a reader came for: one sentence, and what else must be known, in a box before everything else.
    pub fn verdict(&mut self, about: &str, headline: &str, said: &[String]) -> &mut Self {
        let list = said.iter().fold(String::new(), |list, text| list + "<li>" + &escape::html(text) + "</li>");
        let list = if list.is_empty() { list } else { format!("<ul>{list}</ul>") };
        let _ = write!(
            self.verdicts,
            "<section class=\"verdict\" aria-label=\"Result of {0}\"><p class=\"about\">{0}</p><p class=\"headline\">{1}</p>{list}</section>",
            escape::html(about),
            escape::html(headline)
        );
        self
    }

    /// Says which folder the sections to come are of.
    pub fn of_folder(&mut self, name: &str) -> &mut Self {
        name.clone_into(&mut self.folder);
        self
    }

    pub fn section(&mut self, title: &str) -> &mut Self {
        self.sections += 1;
        // A second folder of a kind has sections of the same names: its own name tells them apart.
        let again = self.titles.contains(title);
        self.titles.insert(title.to_owned());
        let title =
            if again && !self.folder.is_empty() { format!("{title}: {}", self.folder) } else { title.to_owned() };
        let (n, title) = (self.sections, escape::html(&title));
        let _ = write!(self.contents, "<li><a href=\"#s{n}\">{title}</a></li>");
        self.add(&format!("<h2 id=\"s{n}\">{title}</h2>"))
    }

    pub fn paragraph(&mut self, text: &str) -> &mut Self {
        self.add(&format!("<p>{}</p>", escape::html(text)))
    }

    /// A table with one name and value per row.
    pub fn facts(&mut self, rows: &[(&str, String)]) -> &mut Self {
        let row = |(name, value): &(&str, String)| {
            format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escape::html(name), escape::html(value))
        };
        self.add(&format!("<table class=\"facts\">{}</table>", rows.iter().map(row).collect::<String>()))
    }

    /// A table whose columns can be sorted, with its numbers to download.
    pub fn table(&mut self, table: &Table) -> &mut Self {
        self.add(&with_data(table, &format!("table-{}", self.sections)))
    }

    pub(crate) fn table_if_any(&mut self, table: &Table) -> &mut Self {
        if table.is_empty() { self } else { self.table(table) }
    }

    /// Figures, or what is missing and the command that would make it.
    pub fn figures(&mut self, figures: &[Figure], missing: &str, command: &str) -> &mut Self {
        if figures.is_empty() {
            self.missing(missing, command);
        }
        for figure in figures {
            self.figure(figure);
        }
        self
    }

    /// A figure; consecutive figures are placed side by side where there is room.
    pub fn figure(&mut self, figure: &Figure) -> &mut Self {
        self.figures += 1;
        if !self.in_figures {
            self.body += "<div class=\"figures\">";
            self.in_figures = true;
        }
        let (stem, title, caption) = (figure.file_stem(), escape::html(&figure.title), escape::html(&figure.caption));
        let command = escape::html(&self.command);
        let _ = write!(
            self.body,
            "<figure id=\"f{}\" data-name=\"{stem}\"{}><h3>Figure {0}. {title}</h3><div class=\"scroll\">{}</div>\
             <figcaption>{caption}</figcaption><div class=\"tools\"><button type=\"button\" data-do=\"png\">PNG</button>\
             <button type=\"button\" data-do=\"svg\">SVG</button>{}\
             <details><summary>How to make it again</summary><pre><code>{command}</code></pre></details></div></figure>",
            self.figures,
            if figure.wide { " class=\"wide\"" } else { "" },
            figure.svg,
            data_link(&stem, &figure.csv)
        );
        self
    }

    /// What is missing, and the command that would make it.
    pub fn missing(&mut self, what: &str, command: &str) -> &mut Self {
        let command =
            if command.is_empty() { String::new() } else { format!(" <code>{}</code>", escape::html(command)) };
        self.add(&format!("<p class=\"missing\">{}{command}</p>", escape::html(what)))
    }

    /// A command or other text that is shown unchanged.
    pub fn verbatim(&mut self, text: &str) -> &mut Self {
        self.add(&format!("<pre><code>{}</code></pre>", escape::html(text)))
    }

    /// Long text that is shown on a click.
    pub fn folded(&mut self, summary: &str, text: &str) -> &mut Self {
        let (summary, text) = (escape::html(summary), escape::html(text));
        self.add(&format!("<details><summary>{summary}</summary><pre><code>{text}</code></pre></details>"))
    }

    /// A table that is shown on a click.
    pub fn folded_table(&mut self, summary: &str, table: &Table) -> &mut Self {
        let table = with_data(table, &format!("table-{}-all", self.sections));
        self.add(&format!("<details><summary>{}</summary>{table}</details>", escape::html(summary)))
    }

    /// Adds a paragraph to the methods, with the works it cites.
    pub fn say(&mut self, text: impl Into<String>, cited: &[Citation]) -> &mut Self {
        self.methods.say(text.into(), cited);
        self
    }

    /// The page asks its server for news after this many lines of the journal.
    pub fn live(&mut self, lines: u64) -> &mut Self {
        self.live = Some(lines);
        self
    }

    pub fn figure_count(&self) -> usize {
        self.figures
    }

    fn add(&mut self, html: &str) -> &mut Self {
        if self.in_figures {
            self.body += "</div>";
            self.in_figures = false;
        }
        self.body += html;
        self
    }

    /// The complete page, with methods, references and the command that makes it again.
    pub fn finish(mut self, version: &str) -> String {
        self.say("Colours of categories are from the palette of Okabe and Ito.", &[Citation::Colours]);
        self.section("Methods");
        let Methods { sentences, citations } = std::mem::take(&mut self.methods);
        for text in sentences {
            self.paragraph(&text);
        }
        self.section("References");
        let list: String =
            citations.iter().fold(String::new(), |all, c| all + "<li>" + &escape::html(c.text()) + "</li>");
        self.add(&format!("<ol>{list}</ol>"));
        let (command, figures) = (self.command.clone(), self.figures.to_string());
        self.section("How to make it again")
            .verbatim(&command)
            .facts(&[("Software", format!("bdo {version}")), ("Figures", figures)]);
        self.to_html()
    }

    fn to_html(&self) -> String {
        let title = escape::html(&self.title);
        let close = if self.in_figures { "</div>" } else { "" };
        let live =
            self.live.map_or_else(String::new, |after| json_script("live", &serde_json::json!({ "after": after })));
        // Browsers run only scripts and styles that carry the nonce, and nothing can be loaded, whatever the text says.
        let nonce = blake3::hash(format!("{title}{}", self.body).as_bytes()).to_hex();
        let connect = if self.live.is_some() { "connect-src 'self';" } else { "" };
        // Without it, browsers would ask the server for an icon.
        let icon = if self.live.is_some() { "<link rel=\"icon\" href=\"data:,\">" } else { "" };
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';img-src data:;style-src 'nonce-{nonce}';script-src 'nonce-{nonce}';{connect}base-uri 'none';form-action 'none'\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">{icon}\
             <title>{title}</title>\n<style nonce=\"{nonce}\">{STYLE}</style></head>\n<body><a class=\"skip\" href=\"#body\">Skip to content</a>\
             <main><header><h1>{title}</h1><button type=\"button\" data-do=\"theme\">Light or dark</button></header>\n<div id=\"body\">{}\
             <nav aria-label=\"Contents\"><ol>{}</ol></nav>\n{}{close}</div></main>\n<div id=\"tip\" role=\"status\" hidden></div>{live}\
             <script nonce=\"{nonce}\">{SCRIPT}</script></body></html>\n",
            self.verdicts, self.contents, self.body
        )
    }
}

/// A table with its numbers to download.
fn with_data(table: &Table, stem: &str) -> String {
    format!("{}<p class=\"tools\">{}</p>", table.to_html(), data_link(stem, &table.to_csv()))
}

fn data_link(stem: &str, csv: &str) -> String {
    let data = base64::engine::general_purpose::STANDARD.encode(csv);
    format!("<a download=\"{stem}.csv\" href=\"data:text/csv;charset=utf-8;base64,{data}\">CSV</a>")
}

/// Data for the script, escaped so that it cannot end the element.
fn json_script(id: &str, value: &Value) -> String {
    let json = value.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    format!("<script type=\"application/json\" id=\"{id}\">{json}</script>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_only_text_and_nothing_is_loaded() {
        let mut page = Page::new("<b>t</b>", "<em>");
        page.section("a\"<i>").paragraph("<script>alert(1)</script>").facts(&[("<x>", "'y'".into())]).verbatim("a & b");
        page.missing("<u>", "<s>");
        let html = page.finish("1");
        for bad in ["<script>", "<b>t", "<em>", "<i>", "<x>", "'y'", "<u>", "<s>"] {
            assert!(!html.contains(bad), "{bad}");
        }
        assert!(!html.contains("http:") && !html.contains("https:"), "a page loads nothing");
    }

    #[test]
    fn json_cannot_end_its_element() {
        let script = json_script("x", &serde_json::json!({"a": "</script><script>"}));
        assert_eq!(script.matches("</script>").count(), 1);
    }
}
