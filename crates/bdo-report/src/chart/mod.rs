//! A chart as data: axes, series and lines to compare with. `draw` makes it a picture, `to_csv` a table of what is in it.

mod draw;
mod frame;
mod marks;

pub(crate) use draw::wrap;
pub use draw::{drawing, grid, standing_alone};

use crate::escape;
use crate::palette::Colour;
use crate::scale::Scale;

/// What an axis measures.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    /// Name and units.
    pub label: String,
    /// Equal steps or equal factors.
    pub scale: Scale,
    /// Ends, where they are not taken from what is drawn.
    pub range: Option<(f64, f64)>,
    /// Names instead of numbers: the places 0, 1, 2, ...
    pub categories: Vec<String>,
}

impl Axis {
    /// Numbers in equal steps.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// Numbers in equal factors.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log, ..Self::default() }
    }

    /// Names.
    pub fn of_names(label: impl Into<String>, names: Vec<String>) -> Self {
        Self { label: label.into(), categories: names, ..Self::default() }
    }

    /// With these ends.
    pub fn between(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }
}

/// One thing that is drawn, at one place.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Point {
    /// Along.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// Ends of an interval or a band.
    pub between: Option<(f64, f64)>,
    /// What is said when one points at it.
    pub note: Option<String>,
    /// What is written above it, where it is one of side by side bars.
    pub text: Option<String>,
}

impl Point {
    /// Without anything else.
    pub fn at(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// A line; a point that is no number interrupts it.
    Line,
    /// A broken line.
    Dashed,
    /// A thin, pale line behind others.
    Faint,
    /// A marker a point.
    Dots,
    /// Both.
    LineAndDots,
    /// An area between the ends of each point.
    Band,
    /// A bar from zero, one bin wide.
    Bars,
    /// Side by side bars of several series over names.
    GroupedBars,
    /// A marker with a line along the horizontal axis between its ends.
    Across,
    /// A marker with a line along the vertical axis between its ends.
    UpAndDown,
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Colour.
    pub colour: Colour,
    /// How it is drawn.
    pub marks: Marks,
    /// What is drawn.
    pub points: Vec<Point>,
}

/// A line to compare with.
#[derive(Debug, Clone, PartialEq)]
pub enum Reference {
    /// At a height.
    Level(String, f64),
    /// At a place along.
    Upright(String, f64),
    /// Where both axes have the same number.
    Identity(String),
}

/// Axes with what is drawn between them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, first behind last.
    pub series: Vec<Series>,
    /// Lines to compare with.
    pub references: Vec<Reference>,
    /// Width and height, where the usual ones do not do.
    pub size: Option<(f64, f64)>,
}

impl Chart {
    /// An empty chart.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, ..Self::default() }
    }

    /// With a further series.
    pub fn with(mut self, name: impl Into<String>, colour: Colour, marks: Marks, points: Vec<Point>) -> Self {
        self.series.push(Series { name: name.into(), colour, marks, points });
        self
    }

    /// With a line to compare with.
    pub fn against(mut self, reference: Reference) -> Self {
        self.references.push(reference);
        self
    }

    /// Whether anything would be seen.
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|s| s.points.iter().all(|p| !p.x.is_finite() || !p.y.is_finite()))
    }

    /// Everything that is drawn, one point a row.
    pub fn to_csv(&self) -> String {
        let name =
            |axis: &Axis, otherwise: &str| if axis.label.is_empty() { otherwise.into() } else { axis.label.clone() };
        let mut out = format!(
            "chart,series,{},{},low,high,note\n",
            escape::csv(&name(&self.x, "x")),
            escape::csv(&name(&self.y, "y"))
        );
        let cell = |axis: &Axis, value: f64| match axis.categories.get(value.round().max(0.0) as usize) {
            Some(name) => escape::csv(name),
            None if value.is_finite() => format!("{value}"),
            None => String::new(),
        };
        for series in &self.series {
            for point in &series.points {
                let (low, high) =
                    point.between.map_or_else(Default::default, |(l, h)| (format!("{l}"), format!("{h}")));
                out += &format!(
                    "{},{},{},{},{low},{high},{}\n",
                    escape::csv(&self.title),
                    escape::csv(&series.name),
                    cell(&self.x, point.x),
                    cell(&self.y, point.y),
                    escape::csv(point.note.as_deref().unwrap_or(""))
                );
            }
        }
        out
    }
}
