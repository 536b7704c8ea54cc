//! A chart as data: axes, series and reference lines. [`grid`] makes pictures of charts, `to_csv` a table of its points.

mod frame;
mod marks;

pub use frame::grid;

use crate::escape;
use crate::palette::Colour;
use crate::scale::Scale;

/// An axis: name with units, linear or logarithmic, its ends where they do not follow from the points, or names of the
/// positions 0, 1, 2, ...
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    label: String,
    scale: Scale,
    range: Option<(f64, f64)>,
    categories: Vec<String>,
}

impl Axis {
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log, ..Self::default() }
    }

    pub fn of_names(label: impl Into<String>, names: Vec<String>) -> Self {
        Self { label: label.into(), categories: names, ..Self::default() }
    }

    pub fn between(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }
}

/// A point, with the ends of its interval, bin or band, the tooltip, and the text above a bar.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Point {
    x: f64,
    y: f64,
    between: Option<(f64, f64)>,
    note: Option<String>,
    text: Option<String>,
}

impl Point {
    pub fn at(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }

    pub(crate) fn is_finite(&self) -> bool {
        self.x.is_finite() && self.y.is_finite()
    }

    pub fn between(mut self, ends: impl Into<Option<(f64, f64)>>) -> Self {
        self.between = ends.into();
        self
    }

    pub fn noted(mut self, note: String) -> Self {
        self.note = Some(note);
        self
    }

    /// Sets the text above a bar.
    pub fn titled(mut self, text: String) -> Self {
        self.text = Some(text);
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// A line, interrupted by points that are not finite.
    Line,
    Dots,
    LineAndDots,
    /// The area between the ends of the points.
    Band,
    /// A histogram: bars from zero, as wide as their bins.
    Bars,
    /// Bars of several series side by side, over names.
    GroupedBars,
    /// Markers with horizontal intervals.
    Across,
    /// Markers with vertical intervals.
    UpAndDown,
}

#[derive(Debug, Clone, PartialEq)]
struct Series {
    name: String,
    colour: Colour,
    marks: Marks,
    points: Vec<Point>,
}

/// A named line to compare with.
#[derive(Debug, Clone, PartialEq)]
pub enum Reference {
    /// Horizontal, at a value.
    Level(String, f64),
    /// Vertical, at a value.
    Upright(String, f64),
    /// Where x and y are equal.
    Identity(String),
}

/// Axes with series (the first is drawn first, behind the others) and reference lines.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chart {
    title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
    references: Vec<Reference>,
    /// Width and height, where they are not the usual ones.
    size: Option<(f64, f64)>,
}

impl Chart {
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, ..Self::default() }
    }

    pub fn with(mut self, name: impl Into<String>, colour: Colour, marks: Marks, points: Vec<Point>) -> Self {
        self.series.push(Series { name: name.into(), colour, marks, points });
        self
    }

    pub fn against(mut self, reference: Reference) -> Self {
        self.references.push(reference);
        self
    }

    pub fn sized(mut self, width: f64, height: f64) -> Self {
        self.size = Some((width, height));
        self
    }

    pub fn is_empty(&self) -> bool {
        !self.series.iter().any(|s| s.points.iter().any(Point::is_finite))
    }

    /// All points, one per row.
    pub fn to_csv(&self) -> String {
        let name =
            |axis: &Axis, otherwise: &str| if axis.label.is_empty() { otherwise.into() } else { axis.label.clone() };
        let (x, y) = (name(&self.x, "x"), name(&self.y, "y"));
        let mut out = escape::csv_line(["chart", "series", &x, &y, "low", "high", "note"]);
        let cell = |axis: &Axis, value: f64| match axis.categories.get(value.round().max(0.0) as usize) {
            Some(name) => name.clone(),
            None if value.is_finite() => format!("{value}"),
            None => String::new(),
        };
        for series in &self.series {
            for point in &series.points {
                let (low, high) =
                    point.between.map_or_else(Default::default, |(l, h)| (format!("{l}"), format!("{h}")));
                let (x, y, note) = (cell(&self.x, point.x), cell(&self.y, point.y), point.note.as_deref());
                out += &escape::csv_line([self.title.as_str(), &series.name, &x, &y, &low, &high, note.unwrap_or("")]);
            }
        }
        out
    }
}
