//! A matrix as a picture, with what its rows, columns and colours are.

use std::fmt::Write;

use base64::Engine;

use crate::escape;
use crate::palette::ColourScale;
use crate::scale::{Scale, Span};

/// A matrix and what it means.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatMap {
    /// What it shows.
    pub title: String,
    /// Row-major.
    pub values: Vec<f32>,
    /// Columns of it.
    pub columns: usize,
    /// Colours.
    pub scale: ColourScale,
    /// Rows that belong together: a name and how many, from the top.
    pub groups: Vec<(String, usize)>,
    /// What runs across, with units, and its ends.
    pub across: Option<(String, f64, f64)>,
    /// What the colours mean, with units; empty for no colour bar.
    pub unit: String,
}

/// Where a map lies in a drawing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// From the left.
    pub x: f64,
    /// From the top.
    pub y: f64,
    /// Width of the map itself.
    pub width: f64,
    /// Height of the map itself.
    pub height: f64,
}

/// Room for the names of groups at the left of a map.
pub(crate) const NAMES: f64 = 120.0;

impl HeatMap {
    /// Draws the map at a place; names of groups to the left if `named`.
    pub fn draw(&self, svg: &mut String, at: Place, named: bool) {
        let rows = self.values.len().checked_div(self.columns).unwrap_or(0);
        let Place { x, y, width, height } = at;
        let title = escape::html(&self.title);
        let _ = write!(
            svg,
            r##"<text class="ink" fill="#1b1b1f" x="{x:.1}" y="{:.1}" font-weight="bold">{title}</text>"##,
            y - 7.0
        );
        if rows == 0 {
            return;
        }
        let _ = write!(
            svg,
            r#"<image x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" preserveAspectRatio="none" image-rendering="pixelated" href="{}"/>"#,
            self.data_uri()
        );
        let mut row = 0;
        for (i, (name, count)) in self.groups.iter().enumerate() {
            let (top, middle) =
                (y + height * row as f64 / rows as f64, y + height * (row as f64 + *count as f64 / 2.0) / rows as f64);
            row += count;
            if i > 0 {
                let from = if named { x - 6.0 } else { x };
                let _ = write!(
                    svg,
                    r##"<path class="axis" stroke="#77777f" stroke-width="0.8" d="M{from:.1} {top:.1}H{:.1}"/>"##,
                    x + width
                );
            }
            // Thin groups have no room for a name of their own size.
            if named && height * *count as f64 / rows as f64 > 8.5 {
                let name = escape::html(&escape::shortened(name, 17));
                let _ = write!(
                    svg,
                    r##"<text class="ink" fill="#1b1b1f" font-size="11.5" x="{:.1}" y="{:.1}" text-anchor="end">{name}</text>"##,
                    x - 8.0,
                    middle + 4.0
                );
            }
        }
        if let Some((label, low, high)) = &self.across {
            let span = Span::around(Scale::Linear, [].into_iter(), Some((*low, *high)));
            for (value, text) in span.ticks((width / 60.0) as usize) {
                let at = x + width * span.place(value).unwrap_or(0.0);
                let _ = write!(
                    svg,
                    r##"<text class="ink" fill="#1b1b1f" font-size="11.5" x="{at:.1}" y="{:.1}" text-anchor="middle">{text}</text>"##,
                    y + height + 14.0
                );
            }
            let _ = write!(
                svg,
                r##"<text class="ink" fill="#1b1b1f" font-size="12" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"##,
                x + width / 2.0,
                y + height + 29.0,
                escape::html(label)
            );
        }
        if !self.unit.is_empty() {
            colour_bar(svg, self.scale, &self.unit, (x + width + 10.0, y, height.min(160.0)));
        }
    }

    /// The picture as an address that needs no file.
    fn data_uri(&self) -> String {
        let png = png(&self.values, self.columns, self.scale);
        format!("data:image/png;base64,{}", base64::engine::general_purpose::STANDARD.encode(png))
    }

    /// The map alone as a drawing, with its numbers.
    pub fn drawing(&self, width: f64, height: f64) -> String {
        let named = !self.groups.is_empty();
        let left = if named { NAMES + 8.0 } else { 16.0 };
        let right = if self.unit.is_empty() { 16.0 } else { 70.0 };
        let mut svg = String::new();
        self.draw(&mut svg, Place { x: left, y: 26.0, width, height }, named);
        crate::chart::wrap(&svg, left + width + right, height + 26.0 + 38.0, &self.title)
    }

    /// The numbers, a row a line.
    pub fn to_csv(&self) -> String {
        let mut out = String::new();
        for row in self.values.chunks(self.columns.max(1)) {
            let cells: Vec<String> =
                row.iter().map(|x| if x.is_finite() { format!("{x:.4}") } else { String::new() }).collect();
            out += &cells.join(",");
            out.push('\n');
        }
        out
    }
}

/// A bar of colours with its ends, at (x, y) and this tall.
pub(crate) fn colour_bar(svg: &mut String, scale: ColourScale, unit: &str, (x, y, tall): (f64, f64, f64)) {
    const STEPS: usize = 32;
    let (low, high) = scale.ends();
    for i in 0..STEPS {
        let share = (i as f64 + 0.5) / STEPS as f64;
        let colour = scale.css(high + (low - high) * share);
        let step = tall / STEPS as f64;
        let _ = write!(
            svg,
            r#"<rect x="{x:.1}" y="{:.2}" width="11" height="{:.2}" fill="{colour}"/>"#,
            y + step * i as f64,
            step + 0.3
        );
    }
    let text = |svg: &mut String, value: f64, y: f64| {
        let _ = write!(
            svg,
            r##"<text class="ink" fill="#1b1b1f" font-size="11.5" x="{:.1}" y="{y:.1}">{}</text>"##,
            x + 15.0,
            crate::scale::number(value)
        );
    };
    text(svg, high, y + 9.0);
    text(svg, low, y + tall);
    if low < 0.0 && high > 0.0 {
        text(svg, 0.0, y + tall * high / (high - low) + 4.0);
    }
    let _ = write!(
        svg,
        r##"<text class="ink" fill="#1b1b1f" font-size="11.5" text-anchor="middle" transform="translate({:.1} {:.1}) rotate(-90)">{}</text>"##,
        x + 54.0,
        y + tall / 2.0,
        escape::html(unit)
    );
}

/// Colours of a picture: 0 is missing, the others run along the scale. A byte a pixel is a third of what colours would be.
const LEVELS: usize = 128;

/// A pixel a value.
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
            groups: vec![],
            across: None,
            unit: "u".into(),
        };
        assert!(!map.drawing(100.0, 100.0).contains("<image"));
        assert_eq!(map.to_csv(), "");
    }
}
