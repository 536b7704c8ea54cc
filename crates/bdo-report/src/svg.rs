//! Pieces of SVG. Colours are plain attributes, so that a drawing is complete outside its page; the classes let the page's
//! light and dark modes override those of text and lines.

use std::fmt::Write;

use crate::escape;

pub(crate) const LETTER: f64 = 13.0;

pub(crate) fn wrap(inside: &str, width: f64, height: f64, title: &str) -> String {
    format!(
        r##"<svg role="group" aria-label="{}" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" font-family="system-ui, sans-serif" font-size="{LETTER}"><rect class="paper" width="100%" height="100%" fill="#ffffff"/>{inside}</svg>"##,
        escape::html(title)
    )
}

/// A drawing as a file of its own; inside a page the name of the format is not needed.
pub(crate) fn standing_alone(svg: &str) -> String {
    svg.replacen("<svg ", r#"<svg xmlns="http://www.w3.org/2000/svg" "#, 1)
}

const INK: &str = r##"class="ink" fill="#1b1b1f""##;

/// Text in the main colour; `more` are further attributes.
pub(crate) fn text(svg: &mut String, (x, y): (f64, f64), more: &str, words: &str) {
    let _ = write!(svg, r#"<text {INK} x="{x:.1}" y="{y:.1}" {more}>{}</text>"#, escape::html(words));
}

pub(crate) fn soft_text(svg: &mut String, (x, y): (f64, f64), more: &str, words: &str) {
    let words = escape::html(words);
    let _ = write!(svg, r##"<text class="soft" fill="#55555c" x="{x:.1}" y="{y:.1}" {more}>{words}</text>"##);
}

/// Text turned by an angle in degrees around its anchor.
pub(crate) fn turned_text(svg: &mut String, (x, y): (f64, f64), angle: f64, more: &str, words: &str) {
    let place = format!(r#"transform="translate({x:.1} {y:.1}) rotate({angle})""#);
    let _ = write!(svg, "<text {INK} {more} {place}>{}</text>", escape::html(words));
}

pub(crate) fn axis(svg: &mut String, more: &str, path: &str) {
    let _ = write!(svg, r##"<path class="axis" fill="none" stroke="#77777f" {more} d="{path}"/>"##);
}
