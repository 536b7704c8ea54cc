//! The repetition time of a scan, from up to three places that must agree.

use std::ops::RangeInclusive;

use crate::bids::Metadata;
use crate::problem::{Problem, ensure};

/// Repetition times that are believed: below or above, a unit is wrong or the field was never filled.
pub const PLAUSIBLE_TR_SECONDS: RangeInclusive<f64> = 0.05..=20.0;
/// How far two statements may be apart: headers keep single precision, sidecars a few digits.
const TOLERANCE: f64 = 1e-4;
/// What programs leave in a header that nobody filled.
const HEADER_DEFAULT: f64 = 1.0;

/// What is known about the repetition time before the scan is read.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RepetitionTime {
    /// From the sidecar or the people's table.
    pub stated: Option<f64>,
    /// From `--tr` or a manifest; it has the last word.
    pub given: Option<f64>,
    /// Taken where nobody says anything.
    pub assumed: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeaderTime {
    /// The number, in seconds where it has a unit.
    pub value: f64,
    pub has_unit: bool,
}

/// What a sidecar says. Something that is no number is wrong, unless the time is given: that has the last word.
pub(super) fn in_sidecar(sidecar: &Metadata, given: Option<f64>) -> Result<Option<f64>, Problem> {
    let Some(value) = sidecar.get("RepetitionTime") else {
        return Ok(sidecar.get("SamplingFrequency").and_then(as_number).map(|hz| 1.0 / hz));
    };
    let stated = as_number(value);
    let expected = "a number of seconds in the sidecar";
    ensure(stated.is_some() || given.is_some(), "repetition time", expected, value)?;
    Ok(stated)
}

pub(super) fn as_number(value: &serde_json::Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}

pub(super) fn agree(a: f64, b: f64) -> bool {
    (a - b).abs() <= TOLERANCE * a.abs()
}

/// Refuses a number that cannot be a repetition time in seconds, with the unit it was probably meant in.
pub(super) fn plausible(who: &str, seconds: f64) -> Result<f64, Problem> {
    if PLAUSIBLE_TR_SECONDS.contains(&seconds) {
        return Ok(seconds);
    }
    let (least, most) = (PLAUSIBLE_TR_SECONDS.start(), PLAUSIBLE_TR_SECONDS.end());
    let meant = in_another_unit(seconds).map_or_else(String::new, |(seconds, unit)| {
        format!(" ({seconds} s if {unit} are meant; --tr {seconds} says so)")
    });
    Err(Problem::new("repetition time", format!("{least} to {most} s in {who}"), format!("{seconds} s{meant}")))
}

/// A number that is plausible in milliseconds or microseconds; the two ranges do not meet.
fn in_another_unit(value: f64) -> Option<(f64, &'static str)> {
    let units = [(1e3, "milliseconds"), (1e6, "microseconds")];
    let read = units.into_iter().map(|(per_second, unit)| (value / per_second, unit));
    read.into_iter().find(|(seconds, _)| PLAUSIBLE_TR_SECONDS.contains(seconds))
}

impl HeaderTime {
    /// The time it means, with a remark where a unit had to be assumed; nothing for a default or a number without meaning.
    fn read(self) -> (Option<f64>, Option<String>) {
        if self.has_unit {
            return (Some(self.value), None);
        }
        if self.value == HEADER_DEFAULT {
            return (None, None);
        }
        let assumed = |seconds: f64, unit: &str| {
            let remark =
                format!("the header has no unit of time: {} is taken as {unit}, a TR of {seconds} s", self.value);
            (Some(seconds), Some(remark))
        };
        if PLAUSIBLE_TR_SECONDS.contains(&self.value) {
            return assumed(self.value, "seconds");
        }
        in_another_unit(self.value).map_or((None, None), |(seconds, unit)| assumed(seconds, unit))
    }
}

impl RepetitionTime {
    /// The time in seconds, with remarks on how it was found: `--tr`, else sidecar, else header; a problem where the last two disagree or none says it.
    pub fn resolve(&self, header: Option<HeaderTime>) -> Result<(f64, Vec<String>), Problem> {
        let problem = |expected: String, found: String| Problem::new("repetition time", expected, found);
        let (in_header, mut remark) = header.map_or((None, None), HeaderTime::read);
        if let Some(seconds) = self.given {
            let said = [("the sidecar", self.stated), ("the header", in_header)];
            let overruled = said.into_iter().find_map(|(who, s)| Some((who, s.filter(|s| !agree(seconds, *s))?)));
            let remarks = overruled.map(|(who, s)| format!("--tr {seconds} is taken instead of {s} s in {who}"));
            return Ok((plausible("--tr", seconds)?, remarks.into_iter().collect()));
        }
        let (who, seconds) = match (self.stated, in_header) {
            (Some(stated), Some(in_header)) if !agree(stated, in_header) => {
                // The sidecar must be sound before the header can contradict it.
                plausible("the sidecar", stated)?;
                let expected = format!("{stated} s as in the sidecar");
                return Err(problem(expected, format!("{in_header} s in the header (--tr decides)")));
            }
            (Some(stated), _) => {
                remark = None;
                ("the sidecar", stated)
            }
            (None, Some(in_header)) => ("the header", in_header),
            (None, None) => return self.nobody_says(header),
        };
        Ok((plausible(who, seconds)?, remark.into_iter().collect()))
    }

    fn nobody_says(&self, header: Option<HeaderTime>) -> Result<(f64, Vec<String>), Problem> {
        if let Some(seconds) = self.assumed {
            let remark = format!("nothing says the repetition time: {seconds} s is assumed");
            return Ok((seconds, vec![remark]));
        }
        let found = match header {
            Some(h) if h.value == HEADER_DEFAULT => {
                "a 1 without a unit in the header, which programs leave there unasked".to_owned()
            }
            Some(h) => format!("{} without a unit in the header", h.value),
            None => "none of them".to_owned(),
        };
        let expected = "RepetitionTime in the sidecar, a time in the header, or --tr";
        Err(Problem::new("repetition time", expected, found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(stated: Option<f64>, header: Option<(f64, bool)>, given: Option<f64>) -> Result<f64, String> {
        let header = header.map(|(value, has_unit)| HeaderTime { value, has_unit });
        let resolved = RepetitionTime { stated, given, assumed: None }.resolve(header);
        resolved.map(|(seconds, _)| seconds).map_err(|p| format!("{} | {}", p.expected, p.found))
    }

    #[test]
    fn sidecar_then_header_and_no_conflict() {
        assert_eq!(resolve(Some(0.735), Some((f64::from(0.735_f32), true)), None), Ok(0.735));
        assert_eq!(resolve(None, Some((2.0, true)), None), Ok(2.0));
        assert_eq!(
            resolve(Some(2.0), Some((1.0, true)), None),
            Err("2 s as in the sidecar | 1 s in the header (--tr decides)".into())
        );
        assert_eq!(
            resolve(None, None, None),
            Err("RepetitionTime in the sidecar, a time in the header, or --tr | none of them".into())
        );
        assert_eq!(resolve(Some(0.0), None, None), Err("0.05 to 20 s in the sidecar | 0 s".into()));
    }

    #[test]
    fn a_conflict_of_repetition_times_is_decided_by_the_flag() {
        assert_eq!(resolve(Some(2.0), Some((1.0, true)), Some(3.0)), Ok(3.0));
        let both = RepetitionTime { stated: Some(2.0), given: Some(3.0), assumed: None };
        assert_eq!(both.resolve(None).unwrap().1, ["--tr 3 is taken instead of 2 s in the sidecar"]);
    }

    #[test]
    fn milliseconds_without_a_unit_are_told_and_absurd_times_are_refused() {
        for (value, seconds) in [(2000.0, 2.0), (720.0, 0.72), (2e6, 2.0), (735_000.0, 0.735), (2.5, 2.5)] {
            let header = HeaderTime { value, has_unit: false };
            let (found, remarks) = RepetitionTime::default().resolve(Some(header)).unwrap();
            assert_eq!((found, remarks.len()), (seconds, 1));
            assert!(remarks[0].starts_with("the header has no unit of time"), "{remarks:?}");
        }
        for value in [2000.0, 720.0, 1e-30, 1e30, f64::INFINITY] {
            let message = resolve(None, Some((value, true)), None).unwrap_err();
            assert!(message.starts_with("0.05 to 20 s in the header"), "{message}");
            assert!(resolve(Some(value), None, None).unwrap_err().starts_with("0.05 to 20 s in the sidecar"));
            assert!(resolve(None, None, Some(value)).unwrap_err().starts_with("0.05 to 20 s in --tr"));
        }
        let message = resolve(Some(2000.0), None, None).unwrap_err();
        assert!(message.ends_with("2000 s (2 s if milliseconds are meant; --tr 2 says so)"), "{message}");
        assert!(resolve(None, Some((1e-30, false)), None).is_err());
    }

    #[test]
    fn a_header_that_nobody_filled_says_nothing() {
        let message = resolve(None, Some((1.0, false)), None).unwrap_err();
        assert!(message.contains("a 1 without a unit"), "{message}");
        assert_eq!(resolve(Some(2.0), Some((1.0, false)), None), Ok(2.0));
        assert_eq!(resolve(Some(2.0), Some((2000.0, false)), None), Ok(2.0));
        assert_eq!(resolve(Some(2.0), Some((1e-30, false)), None), Ok(2.0));
    }
}
