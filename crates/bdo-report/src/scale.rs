//! Positions of numbers along an axis, and its ticks.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Scale {
    #[default]
    Linear,
    Log,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Span {
    /// Ends around the values with some margin; given ends are kept.
    pub(crate) fn around(scale: Scale, values: impl Iterator<Item = f64>, given: Option<(f64, f64)>) -> Self {
        if let Some((low, high)) = given.filter(|(low, high)| low < high) {
            return Self { scale, low, high };
        }
        let usable = |x: &f64| x.is_finite() && (scale == Scale::Linear || *x > 0.0);
        let (mut low, mut high) = ends(values.filter(usable));
        if low > high {
            (low, high) = if scale == Scale::Log { (0.1, 1.0) } else { (0.0, 1.0) };
        }
        match scale {
            Scale::Linear => {
                // Some height even where all points are equal.
                let room = ((high - low) * 0.05).max(high.abs() * 1e-3).max(1e-9);
                Self { scale, low: low - room, high: high + room }
            }
            Scale::Log => {
                let factor = (high / low).powf(0.05).max(1.05);
                Self { scale, low: low / factor, high: high * factor }
            }
        }
    }

    /// From 0 at the low end to 1 at the high end; `None` for what has no position.
    pub(crate) fn place(&self, x: f64) -> Option<f64> {
        let at = match self.scale {
            Scale::Linear => (x - self.low) / (self.high - self.low),
            Scale::Log if x > 0.0 => (x / self.low).ln() / (self.high / self.low).ln(),
            Scale::Log => return None,
        };
        at.is_finite().then_some(at)
    }

    /// Round numbers between the ends, with their text.
    pub(crate) fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Log if self.high / self.low >= 10.0 => self.powers(),
            _ => self.steps(wanted),
        }
    }

    fn steps(&self, wanted: usize) -> Vec<(f64, String)> {
        let rough = (self.high - self.low) / wanted.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].iter().map(|m| m * power).find(|s| *s >= rough * 0.999).unwrap_or(power);
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        let text = |x: f64| {
            if x != 0.0 && (decimals > 4 || x.abs() >= 1e7) { scientific(x) } else { format!("{x:.decimals$}") }
        };
        (first..=last).map(|k| k as f64 * step).map(|x| (x, text(x))).collect()
    }

    fn powers(&self) -> Vec<(f64, String)> {
        let (first, last) = (self.low.log10().ceil() as i32, self.high.log10().floor() as i32);
        let apart = ((last - first) / 6 + 1) as usize;
        (first..=last)
            .step_by(apart)
            .map(|k| {
                (10f64.powi(k), if (-3..=4).contains(&k) { format!("{}", 10f64.powi(k)) } else { format!("1e{k}") })
            })
            .collect()
    }
}

fn scientific(x: f64) -> String {
    let text = format!("{x:.1e}");
    text.replace(".0e", "e")
}

/// The least and the greatest of the finite values; infinite and reversed where there is none.
pub(crate) fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.filter(|x| x.is_finite()).fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(x), h.max(x)))
}

/// A number with four significant digits and without trailing zeros.
pub(crate) fn number(x: f64) -> String {
    if !x.is_finite() {
        return "-".to_owned();
    }
    let size = x.abs();
    if size != 0.0 && !(1e-4..1e7).contains(&size) {
        return format!("{x:.2e}");
    }
    let digits = if size >= 1.0 { (3 - size.log10().floor() as i32).max(0) as usize } else { 4 };
    let text = format!("{x:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn texts(span: Span) -> Vec<String> {
        span.ticks(5).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let span = Span::around(Scale::Linear, [].into_iter(), Some((0.0, 1.0)));
        assert_eq!(texts(span), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        let span = Span::around(Scale::Linear, [-3.0, 1700.0].into_iter(), None);
        assert_eq!(texts(span), ["0", "500", "1000", "1500"]);
        let span = Span::around(Scale::Log, [0.002, 30.0].into_iter(), None);
        assert_eq!(texts(span), ["0.01", "0.1", "1", "10"]);
        let span = Span::around(Scale::Linear, [1e-6, 9e-6].into_iter(), None);
        assert!(texts(span).iter().all(|t| t.contains("e-6")), "{:?}", texts(span));
    }

    #[test]
    fn what_has_no_place_is_left_out() {
        let span = Span::around(Scale::Log, [1.0, 10.0].into_iter(), None);
        assert_eq!(span.place(0.0), None);
        assert_eq!(span.place(f64::NAN), None);
        let equal = Span::around(Scale::Linear, [2.0, 2.0].into_iter(), None);
        // Ends a thousandth away from 2: the place is a difference of numbers that agree in three digits.
        assert!((equal.place(2.0).unwrap() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn numbers_keep_what_matters() {
        assert_eq!(number(0.123_456), "0.1235");
        assert_eq!(number(1234.5), "1234");
        assert_eq!(number(12.3), "12.3");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(1e-5), "1.00e-5");
        assert_eq!(number(f64::NAN), "-");
    }
}
