//! Curves as text in Braille characters of two by four dots.

use crate::scale::{ends, number};

/// Draws a curve in so many columns and rows, with its ends beside it. Points that are not finite are left out.
pub fn text_chart(title: &str, points: &[(f64, f64)], columns: usize, rows: usize) -> String {
    let known: Vec<(f64, f64)> = points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    if known.is_empty() || columns < 12 || rows == 0 {
        return format!("{title}\n  nothing yet\n");
    }
    let ((left, right), (low, high)) = (ends(known.iter().map(|p| p.0)), ends(known.iter().map(|p| p.1)));
    let label = [number(high), number(low)];
    let margin = label.iter().map(String::len).max().unwrap_or(0) + 2;
    let (wide, tall) = ((columns.saturating_sub(margin)).max(4) * 2, rows * 4);
    let mut dots = vec![false; wide * tall];
    let place = |x: f64, low: f64, high: f64, room: usize| {
        if high > low { ((x - low) / (high - low) * (room - 1) as f64).round() as usize } else { room / 2 }
    };
    let mut last: Option<(usize, usize)> = None;
    for (x, y) in known {
        let (x, y) = (place(x, left, right, wide), tall - 1 - place(y, low, high, tall));
        // A line down or up to the last point, so that steep pieces hold together.
        let from = last.filter(|(before, _)| x <= before + 1).map_or(y, |(_, before)| before);
        (from.min(y)..=from.max(y)).for_each(|row| dots[row * wide + x] = true);
        last = Some((x, y));
    }
    let mut out = format!("{title}\n");
    for row in 0..rows {
        let label = match row {
            0 => &label[0],
            row if row + 1 == rows => &label[1],
            _ => "",
        };
        let line: String = (0..wide / 2).map(|column| braille(&dots, wide, column * 2, row * 4)).collect();
        let room = margin - 2;
        out += &format!("{label:>room$} |{line}\n");
    }
    let ends = [number(left), number(right)];
    let between = (wide / 2).saturating_sub(ends[0].len() + ends[1].len()).max(1);
    out + &format!("{:margin$}{}{:between$}{}\n", "", ends[0], "", ends[1])
}

fn braille(dots: &[bool], wide: usize, x: usize, y: usize) -> char {
    const BITS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
    let mut bits = 0;
    for (dy, row) in BITS.iter().enumerate() {
        for (dx, bit) in row.iter().enumerate() {
            if dots[(y + dy) * wide + x + dx] {
                bits |= bit;
            }
        }
    }
    char::from_u32(0x2800 + bits).unwrap_or(' ')
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_rising_line_runs_from_the_lower_left_to_the_upper_right() {
        let points: Vec<(f64, f64)> = (0..100).map(|i| (f64::from(i), f64::from(i))).collect();
        let text = text_chart("t", &points, 40, 5);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 7);
        assert!(lines.iter().all(|l| l.chars().count() <= 40), "{text}");
        let dots = |line: &str| line.chars().filter(|c| ('\u{2801}'..='\u{28ff}').contains(c)).count();
        assert!(lines[1..6].iter().all(|l| dots(l) > 0), "{text}");
        let first = |line: &str| line.chars().position(|c| ('\u{2801}'..='\u{28ff}').contains(&c)).unwrap();
        assert!(first(lines[1]) > first(lines[5]));
        assert!(lines[1].starts_with("99 |") && lines[5].starts_with(" 0 |"), "{text}");
    }

    #[test]
    fn nothing_and_one_value_are_drawn_too() {
        assert!(text_chart("t", &[(0.0, f64::NAN)], 40, 5).contains("nothing yet"));
        assert!(text_chart("t", &[(1.0, 2.0)], 40, 3).contains('|'));
    }
}
