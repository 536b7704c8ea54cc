//! Colours that stay apart for colour-blind eyes (Okabe and Ito 2008), and ramps that also print in grey.

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Colour {
    /// One of a few kinds; kinds beyond the seventh repeat the colours with another marker.
    Kind(usize),
    /// A place on the ramp from low (0) to high (1).
    Ramp(f64),
    /// What is not known, or only for comparison.
    Grey,
}

/// Okabe and Ito without black, which vanishes on a dark page, and yellow, which vanishes on a light one.
const KINDS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#e69f00", "#56b4e9", "#cc79a7", "#8a6d3b"];

/// From dark blue to yellow with lightness that only rises.
const RAMP: [[f64; 3]; 5] =
    [[38.0, 42.0, 110.0], [49.0, 104.0, 142.0], [53.0, 158.0, 130.0], [140.0, 200.0, 90.0], [250.0, 225.0, 70.0]];

/// Blue through near white to red.
const DIVERGING: [[f64; 3]; 5] =
    [[33.0, 102.0, 172.0], [146.0, 197.0, 222.0], [247.0, 247.0, 247.0], [244.0, 165.0, 130.0], [178.0, 24.0, 43.0]];

/// What is not a number.
pub(crate) const MISSING: [u8; 3] = [160, 160, 160];

impl Colour {
    pub fn css(self) -> String {
        match self {
            Self::Kind(k) => KINDS[k % KINDS.len()].to_owned(),
            Self::Ramp(at) => hex(ramp(at)),
            Self::Grey => "#8c8c94".to_owned(),
        }
    }

    /// Which marker goes with it, so that repeated colours differ in shape.
    pub(crate) fn marker(self) -> usize {
        match self {
            Self::Kind(k) => k / KINDS.len(),
            _ => 0,
        }
    }
}

/// How numbers become colours in maps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ColourScale {
    /// Blue to red around zero; the number has full colour.
    Around(f64),
    /// Dark to bright from the first to the second number.
    Between(f64, f64),
}

impl ColourScale {
    pub fn rgb(self, value: f64) -> [u8; 3] {
        if !value.is_finite() {
            return MISSING;
        }
        match self {
            Self::Around(limit) => blend(&DIVERGING, f64::midpoint(value / limit.max(f64::MIN_POSITIVE), 1.0)),
            Self::Between(low, high) => ramp((value - low) / (high - low).max(f64::MIN_POSITIVE)),
        }
    }

    pub fn ends(self) -> (f64, f64) {
        match self {
            Self::Around(limit) => (-limit, limit),
            Self::Between(low, high) => (low, high),
        }
    }

    pub fn css(self, value: f64) -> String {
        hex(self.rgb(value))
    }
}

fn ramp(at: f64) -> [u8; 3] {
    blend(&RAMP, at)
}

fn blend(anchors: &[[f64; 3]; 5], at: f64) -> [u8; 3] {
    let position = at.clamp(0.0, 1.0) * 4.0;
    let low = (position as usize).min(3);
    let share = position - low as f64;
    std::array::from_fn(|c| (anchors[low][c] + (anchors[low + 1][c] - anchors[low][c]) * share).round() as u8)
}

fn hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diverging_colours_run_from_blue_through_white_to_red() {
        let scale = ColourScale::Around(1.0);
        assert_eq!(scale.rgb(-9.0), [33, 102, 172]);
        assert_eq!(scale.rgb(0.0), [247, 247, 247]);
        assert_eq!(scale.rgb(9.0), [178, 24, 43]);
        assert_eq!(scale.rgb(f64::NAN), MISSING);
    }

    #[test]
    fn the_ramp_only_gets_lighter() {
        let light = |at: f64| {
            let [r, g, b] = ramp(at);
            0.2126 * f64::from(r) + 0.7152 * f64::from(g) + 0.0722 * f64::from(b)
        };
        assert!((0..100).all(|i| light(f64::from(i) / 100.0) < light(f64::from(i + 1) / 100.0)));
    }
}
