//! A figure: a drawing with its caption and its numbers.

use crate::chart::{Chart, grid};

#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Name of downloaded files, without extension.
    pub name: String,
    pub title: String,
    /// Description with units.
    pub caption: String,
    pub svg: String,
    pub csv: String,
    /// Whether it scrolls on a narrow screen instead of being shrunk, so that small letters stay readable.
    pub wide: bool,
}

impl Figure {
    pub fn of_charts(
        name: impl Into<String>,
        title: impl Into<String>,
        caption: impl Into<String>,
        charts: &[Chart],
        columns: usize,
    ) -> Self {
        let mut csv = String::new();
        for (i, chart) in charts.iter().enumerate() {
            let table = chart.to_csv();
            // One header is enough where the axes agree; a chart with other axes has its own.
            let same = i > 0 && table.lines().next() == charts[i - 1].to_csv().lines().next();
            csv += table.split_once('\n').filter(|_| same).map_or(table.as_str(), |(_, rows)| rows);
        }
        let (name, title, caption) = (name.into(), title.into(), caption.into());
        Self { name, title, caption, svg: grid(charts, columns), csv, wide: columns > 1 }
    }

    /// The charts that have a point with a place, if there are any.
    pub(crate) fn of_any(
        name: impl Into<String>,
        title: impl Into<String>,
        caption: impl Into<String>,
        charts: impl IntoIterator<Item = Chart>,
        columns: usize,
    ) -> Option<Self> {
        let charts: Vec<Chart> = charts.into_iter().filter(|chart| !chart.is_empty()).collect();
        (!charts.is_empty()).then(|| Self::of_charts(name, title, caption, &charts, columns))
    }

    /// The name as part of a file name on any system.
    pub fn file_stem(&self) -> String {
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '-' };
        self.name.chars().map(safe).take(60).collect()
    }
}
