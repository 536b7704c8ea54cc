//! A figure: a drawing with what it shows in words, its numbers, and the command that makes it again.

use crate::chart::{Chart, grid};

/// Everything a page needs to show a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Name of the files to download, without extension.
    pub name: String,
    /// Heading.
    pub title: String,
    /// What is seen, with units.
    pub caption: String,
    /// The drawing.
    pub svg: String,
    /// The numbers in it.
    pub csv: String,
    /// What to type to have it again.
    pub command: String,
    /// Whether small letters would be lost if it were shrunk to a phone; it is scrolled within its frame instead.
    pub wide: bool,
}

impl Figure {
    /// Charts as one figure, `columns` side by side.
    pub fn of_charts(name: &str, title: &str, caption: &str, charts: &[Chart], columns: usize) -> Self {
        let mut csv = String::new();
        for (i, chart) in charts.iter().enumerate() {
            let table = chart.to_csv();
            // One header suffices where the axes agree; a chart of other axes says so with its own.
            let same = i > 0 && table.lines().next() == charts[i - 1].to_csv().lines().next();
            csv += table.split_once('\n').filter(|_| same).map_or(table.as_str(), |(_, rows)| rows);
        }
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            caption: caption.to_owned(),
            svg: grid(charts, columns),
            csv,
            command: String::new(),
            wide: columns > 1,
        }
    }

    /// Made by this command.
    pub fn made_by(mut self, command: &str) -> Self {
        command.clone_into(&mut self.command);
        self
    }

    /// The name as part of a file name on any system.
    pub fn file_stem(&self) -> String {
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '-' };
        self.name.chars().map(safe).take(60).collect()
    }
}
