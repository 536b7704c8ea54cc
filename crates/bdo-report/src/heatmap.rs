//! A matrix as a picture, with its groups of rows, its axis and its colour bar.

use std::fmt::Write;

use base64::Engine;

use crate::escape;
use crate::figure::Figure;
use crate::palette::ColourScale;
use crate::scale::{Scale, Span, number};
use crate::svg;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeatMap<'a> {
    pub(crate) title: String,
    /// Row-major.
    pub(crate) values: Vec<f32>,
    pub(crate) columns: usize,
    pub(crate) scale: ColourScale,
    /// Groups of consecutive rows from the top: name and count.
    pub(crate) groups: &'a [(String, usize)],
    /// Name with units of the horizontal axis, and its ends.
    pub(crate) across: Option<(&'static str, f64, f64)>,
    /// What the colours mean, with units; empty for no colour bar.
    pub(crate) unit: &'static str,
}

/// Width of a digit of a colour bar, in the widest of the usual fonts.
const DIGIT: f64 = 7.4;
/// Room for the names of groups at the left of a map.
pub(crate) const NAMES: f64 = 120.0;

impl HeatMap<'_> {
    /// Draws the map with its upper left corner at a place; names of groups to the left if `named`. Gives its right end.
    pub(crate) fn draw(&self, out: &mut String, (x, y): (f64, f64), (width, height): (f64, f64), named: bool) -> f64 {
        let rows = self.values.len().checked_div(self.columns).unwrap_or(0);
        svg::text(out, (x, y - 7.0), r#"font-weight="bold""#, &self.title);
        if rows == 0 {
            return x + width;
        }
        let _ = write!(
            out,
            r#"<image x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" preserveAspectRatio="none" image-rendering="pixelated" href="{}"/>"#,
            self.data_uri()
        );
        let mut row = 0;
        for (i, (name, count)) in self.groups.iter().enumerate() {
            let place = |row: f64| y + height * row / rows as f64;
            let (top, middle) = (place(row as f64), place(row as f64 + *count as f64 / 2.0));
            row += count;
            if i > 0 {
                let from = if named { x - 6.0 } else { x };
                svg::axis(out, r#"stroke-width="0.8""#, &format!("M{from:.1} {top:.1}H{:.1}", x + width));
            }
            // Thin groups have no room for their name.
            if named && height * *count as f64 / rows as f64 > 8.5 {
                let more = r#"font-size="11.5" text-anchor="end""#;
                svg::text(out, (x - 8.0, middle + 4.0), more, &escape::shortened(name, 17));
            }
        }
        if let Some((label, low, high)) = self.across {
            let span = Span::around(Scale::Linear, [].into_iter(), Some((low, high)));
            for (value, text) in span.ticks((width / 60.0) as usize) {
                let at = (x + width * span.place(value).unwrap_or(0.0), y + height + 14.0);
                svg::text(out, at, r#"font-size="11.5" text-anchor="middle""#, &text);
            }
            let below = (x + width / 2.0, y + height + 29.0);
            svg::text(out, below, r#"font-size="12" text-anchor="middle""#, label);
        }
        if self.unit.is_empty() {
            return x + width;
        }
        let bar = x + width + 10.0;
        bar + colour_bar(out, self.scale, self.unit, (bar, y, height.min(160.0)))
    }

    fn data_uri(&self) -> String {
        let png = png(&self.values, self.columns, self.scale);
        format!("data:image/png;base64,{}", base64::engine::general_purpose::STANDARD.encode(png))
    }

    /// The map alone as a figure of this width and height.
    pub(crate) fn figure(&self, name: String, title: String, caption: String, size: (f64, f64)) -> Figure {
        let named = !self.groups.is_empty();
        let left = if named { NAMES + 8.0 } else { 16.0 };
        let mut inside = String::new();
        let end = self.draw(&mut inside, (left, 26.0), size, named);
        let svg = svg::wrap(&inside, end + 16.0, size.1 + 26.0 + 38.0, &self.title);
        Figure { name, title, caption, svg, csv: self.to_csv(), wide: size.0 > size.1 }
    }

    fn to_csv(&self) -> String {
        let cell = |x: &f32| if x.is_finite() { format!("{x:.4}") } else { String::new() };
        let line = |row: &[f32]| row.iter().map(cell).collect::<Vec<_>>().join(",") + "\n";
        self.values.chunks(self.columns.max(1)).map(line).collect()
    }
}

/// A colour bar with its ends, at (x, y) and this tall; gives its width.
pub(crate) fn colour_bar(out: &mut String, scale: ColourScale, unit: &str, (x, y, tall): (f64, f64, f64)) -> f64 {
    const STEPS: usize = 32;
    let (low, high) = scale.ends();
    let step = tall / STEPS as f64;
    for i in 0..STEPS {
        let share = (i as f64 + 0.5) / STEPS as f64;
        let colour = scale.css(high + (low - high) * share);
        let (top, height) = (y + step * i as f64, step + 0.3);
        let _ = write!(out, r#"<rect x="{x:.1}" y="{top:.2}" width="11" height="{height:.2}" fill="{colour}"/>"#);
    }
    let small = r#"font-size="11.5""#;
    let zero = (low < 0.0 && high > 0.0).then(|| (0.0, y + tall * high / (high - low) + 4.0));
    let mut longest = 0;
    for (value, y) in [(high, y + 9.0), (low, y + tall)].into_iter().chain(zero) {
        let text = number(value);
        svg::text(out, (x + 15.0, y), small, &text);
        longest = longest.max(text.len());
    }
    // Turned, the unit stands on its baseline: its letters reach 10 pixels to the left, beside the longest number.
    let baseline = 15.0 + DIGIT * longest as f64 + 13.0;
    let centred = format!(r#"{small} text-anchor="middle""#);
    svg::turned_text(out, (x + baseline, y + tall / 2.0), -90.0, &centred, unit);
    baseline + 6.0
}

/// Levels of colour of a picture. Level 0 of the palette is missing, the others run along the scale; one byte per pixel is
/// a third of the size of RGB.
const LEVELS: usize = 128;

/// One pixel per value.
fn png(values: &[f32], columns: usize, scale: ColourScale) -> Vec<u8> {
    let rows = values.len() / columns.max(1);
    let (low, high) = scale.ends();
    let colour = |level: usize| scale.rgb(low + (high - low) * level as f64 / (LEVELS - 1) as f64);
    let palette: Vec<u8> = scale.rgb(f64::NAN).into_iter().chain((0..LEVELS).flat_map(colour)).collect();
    let level = |x: &f32| {
        let at = (f64::from(*x) - low) / (high - low) * (LEVELS - 1) as f64;
        if at.is_finite() { 1 + at.round().clamp(0.0, (LEVELS - 1) as f64) as u8 } else { 0 }
    };
    let data: Vec<u8> = values[..rows * columns].iter().map(level).collect();
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, columns as u32, rows as u32);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(palette);
    let mut writer = encoder.write_header().expect("a picture in memory has room for its header");
    writer.write_image_data(&data).expect("the data has the size the header says");
    writer.finish().expect("a picture in memory has room for its end");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_a_colour_bar_stands_beside_its_longest_number() {
        let unit_at = |scale| {
            let mut out = String::new();
            let width = colour_bar(&mut out, scale, "ranges / s", (0.0, 0.0, 150.0));
            let place = out.split("translate(").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
            place.filter(|at| *at < width).expect("the unit is drawn within the width")
        };
        // Six characters of about seven pixels from 15 on; turned letters reach ten pixels to the left.
        assert!(unit_at(ColourScale::Between(0.0174, 0.0389)) > 15.0 + 6.0 * 7.0 + 10.0);
        assert!(unit_at(ColourScale::Between(0.0, 1.0)) < 45.0);
    }

    #[test]
    fn the_picture_has_the_size_of_the_matrix() {
        let bytes = png(&[0.0; 6], 3, ColourScale::Around(1.0));
        let reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().expect("a valid picture");
        assert_eq!((reader.info().width, reader.info().height), (3, 2));
    }

    #[test]
    fn pixels_have_the_colours_of_the_scale() {
        let scale = ColourScale::Around(1.0);
        let bytes = png(&[-1.0, 0.0, 1.0, f32::NAN], 4, scale);
        let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().expect("a valid picture");
        let mut pixels = vec![0; 12];
        reader.next_frame(&mut pixels).expect("a whole picture");
        assert_eq!(
            (&pixels[..3], &pixels[6..9], &pixels[9..]),
            (&scale.rgb(-1.0)[..], &scale.rgb(1.0)[..], &scale.rgb(f64::NAN)[..])
        );
        // Zero lies between two of the 128 levels; a level is 2 / 127 of the scale, in which a colour moves by less than 4.
        assert!(pixels[3..6].iter().zip(scale.rgb(0.0)).all(|(a, b)| a.abs_diff(b) < 4), "{:?}", &pixels[3..6]);
    }

    #[test]
    fn an_empty_matrix_is_no_picture_and_no_panic() {
        let map = HeatMap {
            title: "t".into(),
            values: vec![],
            columns: 0,
            scale: ColourScale::Around(1.0),
            groups: &[],
            across: None,
            unit: "u",
        };
        let figure = map.figure("n".into(), "t".into(), "c".into(), (100.0, 100.0));
        assert!(!figure.svg.contains("<image"));
        assert_eq!(figure.csv, "");
    }
}
