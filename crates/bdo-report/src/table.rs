//! A table with sortable columns.

use std::fmt::Write;

use crate::escape;
use crate::scale::number;

#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Text(String),
    /// A number, shown rounded and sorted exactly.
    Number(f64),
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

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Shown(count as f64, count.to_string())
    }
}

/// Rows under headings; every row has one cell per heading.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    caption: String,
    headings: Vec<String>,
    rows: Vec<Vec<Cell>>,
    fits: bool,
}

impl Table {
    pub fn new(caption: impl Into<String>, headings: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let headings = headings.into_iter().map(Into::into).collect();
        Self { caption: caption.into(), headings, rows: vec![], fits: false }
    }

    /// Fits its page whatever the width: text is wrapped, and on a narrow screen every row is a card of its own.
    #[must_use]
    pub fn fitting(mut self) -> Self {
        self.fits = true;
        self
    }

    pub fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(cells.into());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn to_html(&self) -> String {
        let caption = escape::html(&self.caption);
        let class = if self.fits { "sortable fits" } else { "sortable" };
        let mut html = format!(
            r#"<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table class="{class}"><caption>{caption}</caption><thead><tr>"#
        );
        for heading in &self.headings {
            let _ = write!(html, r#"<th scope="col"><button type="button">{}</button></th>"#, escape::html(heading));
        }
        html += "</tr></thead><tbody>";
        for row in &self.rows {
            html += "<tr>";
            for (column, cell) in row.iter().enumerate() {
                let heading = self.headings.get(column).filter(|_| self.fits);
                let of = heading.map_or_else(String::new, |heading| format!(r#" data-h="{}""#, escape::html(heading)));
                let _ = match cell {
                    Cell::Text(text) => write!(html, "<td{of}>{}</td>", escape::html(text)),
                    Cell::Number(x) => write!(html, r#"<td{of} data-v="{x}">{}</td>"#, number(*x)),
                    Cell::Shown(x, text) => write!(html, r#"<td{of} data-v="{x}">{}</td>"#, escape::html(text)),
                    Cell::Empty => write!(html, r#"<td{of} data-v="">-</td>"#),
                };
            }
            html += "</tr>";
        }
        html + "</tbody></table></div>"
    }

    pub fn to_csv(&self) -> String {
        let cell = |cell: &Cell| match cell {
            Cell::Text(text) => text.clone(),
            Cell::Number(x) | Cell::Shown(x, _) => format!("{x}"),
            Cell::Empty => String::new(),
        };
        let rows = self.rows.iter().map(|row| escape::csv_line(row.iter().map(cell)));
        std::iter::once(escape::csv_line(&self.headings)).chain(rows).collect()
    }
}
