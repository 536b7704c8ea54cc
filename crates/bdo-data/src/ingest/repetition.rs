//! The repetition time of a scan, from up to three places that must agree.

use crate::problem::Problem;

/// How far two statements may be apart: headers keep single precision, sidecars a few digits.
const TOLERANCE: f64 = 1e-4;

/// What is known about the repetition time before the scan is read.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RepetitionTime {
    /// From the sidecar or the people's table.
    pub stated: Option<f64>,
    /// From `--tr`.
    pub given: Option<f64>,
    /// Taken where nobody says anything.
    pub assumed: Option<f64>,
}

impl RepetitionTime {
    /// A single statement.
    pub fn of(seconds: f64) -> Self {
        Self { stated: Some(seconds), ..Self::default() }
    }

    /// The time in seconds: sidecar, then header, then `--tr`; a problem where they disagree or none says it.
    pub fn resolve(&self, header: Option<f64>) -> Result<f64, Problem> {
        let problem = |expected: String, found: String| Problem::new("repetition time", expected, found);
        let sources = [("the sidecar", self.stated), ("the header", header), ("--tr", self.given)];
        let mut said = sources.into_iter().filter_map(|(who, seconds)| Some((who, seconds?)));
        let Some((who, seconds)) = said.next() else {
            let expected = "RepetitionTime in the sidecar, a time in the header, or --tr".to_owned();
            return self.assumed.ok_or(problem(expected, "none of them".into()));
        };
        if !(seconds.is_finite() && seconds > 0.0) {
            return Err(problem(format!("a positive number of seconds in {who}"), seconds.to_string()));
        }
        match said.find(|(_, other)| (other - seconds).abs() > TOLERANCE * seconds) {
            None => Ok(seconds),
            Some((other, found)) => Err(problem(format!("{seconds} s as in {who}"), format!("{found} s in {other}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecar_then_header_then_flag_and_no_conflict() {
        let tr = |stated, header, given| RepetitionTime { stated, given, assumed: None }.resolve(header);
        assert_eq!(tr(Some(0.735), Some(f64::from(0.735_f32)), None), Ok(0.735));
        assert_eq!(tr(None, Some(2.0), None), Ok(2.0));
        assert_eq!(tr(None, None, Some(1.5)), Ok(1.5));
        let error = |r: Result<f64, Problem>| r.map_err(|p| format!("{} | {}", p.expected, p.found));
        assert_eq!(error(tr(Some(2.0), Some(1.0), None)), Err("2 s as in the sidecar | 1 s in the header".into()));
        assert_eq!(error(tr(Some(2.0), Some(2.0), Some(3.0))), Err("2 s as in the sidecar | 3 s in --tr".into()));
        assert_eq!(
            error(tr(None, None, None)),
            Err("RepetitionTime in the sidecar, a time in the header, or --tr | none of them".into())
        );
        assert_eq!(error(tr(Some(0.0), None, None)), Err("a positive number of seconds in the sidecar | 0".into()));
    }
}
