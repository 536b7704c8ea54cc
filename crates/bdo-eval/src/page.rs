//! A page of its own: opens offline, loads nothing, fits a phone and a dark room.

use std::fmt::Write;

/// Text made safe to stand in a page.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

/// A page under construction; sections appear in the order they are added.
#[derive(Debug, Default)]
pub struct Page {
    title: String,
    contents: String,
    body: String,
    sections: usize,
}

impl Page {
    /// An empty page.
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    /// Starts a section and lists it in the contents.
    pub fn section(&mut self, title: &str) -> &mut Self {
        self.sections += 1;
        let (n, title) = (self.sections, escape(title));
        let _ = write!(self.contents, "<li><a href=\"#s{n}\">{title}</a></li>");
        let _ = write!(self.body, "<h2 id=\"s{n}\">{title}</h2>");
        self
    }

    /// A paragraph of plain text.
    pub fn paragraph(&mut self, text: &str) -> &mut Self {
        let _ = write!(self.body, "<p>{}</p>", escape(text));
        self
    }

    /// A table of a name and a value a row.
    pub fn facts(&mut self, rows: &[(&str, String)]) -> &mut Self {
        self.body += "<table>";
        for (name, value) in rows {
            let _ = write!(self.body, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escape(name), escape(value));
        }
        self.body += "</table>";
        self
    }

    /// A picture with a caption; `alternative` says in words what it shows.
    pub fn picture(&mut self, uri: &str, alternative: &str, caption: &str) -> &mut Self {
        let (alternative, caption) = (escape(alternative), escape(caption));
        let _ = write!(
            self.body,
            "<figure><img src=\"{uri}\" alt=\"{alternative}\"><figcaption>{caption}</figcaption></figure>"
        );
        self
    }

    /// A drawing (SVG made by this crate) with a caption.
    pub fn drawing(&mut self, svg: &str, caption: &str) -> &mut Self {
        let _ = write!(self.body, "<figure class=\"small\">{svg}<figcaption>{}</figcaption></figure>", escape(caption));
        self
    }

    /// A command to type.
    pub fn command(&mut self, text: &str) -> &mut Self {
        let _ = write!(self.body, "<pre><code>{}</code></pre>", escape(text));
        self
    }

    /// The whole page.
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>{title}</title><style>{STYLE}</style></head><body><main><h1>{title}</h1>\
             <nav aria-label=\"Contents\"><ol>{}</ol></nav>{}</main></body></html>\n",
            self.contents, self.body
        )
    }
}

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1b1f;--paper:#fff;--line:#d5d5dc;--bar:#4477aa}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e6ea;--paper:#16161a;--line:#3a3a44;--bar:#77aadd}}\
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}\
main{max-width:60rem;margin:auto;padding:1rem}\
table{border-collapse:collapse;max-width:100%}th,td{border-bottom:1px solid var(--line);padding:.25rem .75rem .25rem 0;\
text-align:left;vertical-align:top}td{overflow-wrap:anywhere}\
figure{margin:1rem 0;display:inline-block;max-width:100%}figure.small{width:20rem;margin-right:1rem}\
img{max-width:100%;image-rendering:pixelated;background:#fff}svg{width:100%;height:auto}\
.bars rect{fill:var(--bar)}.bars text{fill:var(--ink);font-size:12px;text-anchor:middle}\
figcaption{font-size:.9rem}pre{overflow-x:auto;border:1px solid var(--line);padding:.5rem}\
@media print{nav{display:none}}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_only_text() {
        let mut page = Page::new("<b>t</b>");
        page.section("a\"<i>").paragraph("<script>alert(1)</script>").facts(&[("<x>", "'y'".into())]).command("a & b");
        let html = page.to_html();
        for bad in ["<script>", "<b>t", "<i>", "<x>", "'y'"] {
            assert!(!html.contains(bad), "{bad}");
        }
        assert!(!html.contains("http"), "a page loads nothing");
    }
}
