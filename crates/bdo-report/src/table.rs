//! A table whose columns can be sorted.

use std::fmt::Write;

use crate::escape;
use crate::scale::number;

/// What stands in a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number, written short and sorted exactly.
    Number(f64),
    /// A number with its own way of writing.
    Shown(f64, String),
    /// Nothing; sorted last.
    Empty,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(x: f64) -> Self {
        if x.is_finite() { Self::Number(x) } else { Self::Empty }
    }
}

impl From<Option<f64>> for Cell {
    fn from(x: Option<f64>) -> Self {
        x.map_or(Self::Empty, Self::from)
    }
}

/// Rows under headings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// One a column.
    pub headings: Vec<String>,
    /// One cell a heading.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub fn new(caption: &str, headings: &[&str]) -> Self {
        Self { caption: caption.to_owned(), headings: headings.iter().map(|h| (*h).to_owned()).collect(), rows: vec![] }
    }

    /// As HTML.
    pub fn to_html(&self) -> String {
        let caption = escape::html(&self.caption);
        let mut html = format!(
            r#"<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table class="sortable"><caption>{caption}</caption><thead><tr>"#
        );
        for heading in &self.headings {
            let _ = write!(html, r#"<th scope="col"><button type="button">{}</button></th>"#, escape::html(heading));
        }
        html += "</tr></thead><tbody>";
        for row in &self.rows {
            html += "<tr>";
            for cell in row {
                let _ = match cell {
                    Cell::Text(text) => write!(html, "<td>{}</td>", escape::html(text)),
                    Cell::Number(x) => write!(html, r#"<td data-v="{x}">{}</td>"#, number(*x)),
                    Cell::Shown(x, text) => write!(html, r#"<td data-v="{x}">{}</td>"#, escape::html(text)),
                    Cell::Empty => write!(html, r#"<td data-v="">-</td>"#),
                };
            }
            html += "</tr>";
        }
        html + "</tbody></table></div>"
    }

    /// As CSV.
    pub fn to_csv(&self) -> String {
        let cell = |cell: &Cell| match cell {
            Cell::Text(text) => escape::csv(text),
            Cell::Number(x) | Cell::Shown(x, _) => format!("{x}"),
            Cell::Empty => String::new(),
        };
        let headings: Vec<String> = self.headings.iter().map(|h| escape::csv(h)).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(","));
        std::iter::once(headings.join(",")).chain(rows).fold(String::new(), |all, line| all + &line + "\n")
    }
}
