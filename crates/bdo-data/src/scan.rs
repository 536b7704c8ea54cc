//! One scan: region time series with true frame times.

use crate::problem::{Problem, ensure};
use serde::{Deserialize, Serialize};

/// Who and which run a scan is of. Ordered as cohorts are: person, session, task, run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ScanId {
    /// The person, spelled as in the participants table.
    pub subject: String,
    pub session: Option<String>,
    /// Task label (`rest`), where the source names one.
    pub task: Option<String>,
    pub run: Option<String>,
}

impl ScanId {
    /// A scan of a person with a single one.
    pub fn of_subject(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), ..Self::default() }
    }

    pub fn validate(&self, site: Option<&str>) -> Result<(), Problem> {
        let labels = [("subject", Some(self.subject.as_str())), ("session", self.session.as_deref())];
        let more = [("task", self.task.as_deref()), ("run", self.run.as_deref()), ("site", site)];
        for (what, label) in labels.into_iter().chain(more) {
            let Some(label) = label else { continue };
            if label.is_empty() || label.len() > MAX_LABEL_BYTES || label.chars().any(char::is_control) {
                let expected = format!("1 to {MAX_LABEL_BYTES} bytes without control characters");
                return Err(Problem::new(what, expected, format!("{label:?}")));
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for ScanId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.subject)?;
        for (key, value) in [("ses", &self.session), ("task", &self.task), ("run", &self.run)] {
            if let Some(value) = value {
                write!(f, "_{key}-{value}")?;
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Source {
    /// File name relative to the ingested folder, or how it was made.
    pub name: String,
    /// BLAKE3 of the source file's bytes; empty for synthetic scans.
    pub blake3: String,
    /// Volumes removed from the start before storing.
    pub dropped_volumes: u32,
}

/// One scan in memory: cleaned, but neither centred nor scaled.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    pub id: ScanId,
    pub site: Option<String>,
    pub tr_seconds: f64,
    /// True time of every kept frame since the first volume of the run; strictly increasing, gaps where frames were censored.
    pub frame_times_seconds: Vec<f64>,
    /// Row-major `[frames, regions]`; NaN marks a region that has no signal (outside the field of view).
    pub series: Vec<f32>,
    /// Head motion per kept frame, where known.
    pub framewise_displacement_mm: Option<Vec<f32>>,
    /// Share of each region's voxels inside the image, where known.
    pub coverage: Option<Vec<f32>>,
    pub source: Source,
}

/// Longest label accepted for a person, session, run or site: long enough for any real one, short enough to keep tables readable.
const MAX_LABEL_BYTES: usize = 200;

/// Frames of a scan wherever they lie, so that what looks at values alone needs no copy of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesView<'a> {
    pub tr_seconds: f64,
    /// True time of every frame, as in [`Scan`].
    pub frame_times_seconds: &'a [f64],
    /// Row-major `[frames, regions]`, as in [`Scan`].
    pub series: &'a [f32],
}

impl<'a> From<&'a Scan> for SeriesView<'a> {
    fn from(scan: &'a Scan) -> Self {
        Self { tr_seconds: scan.tr_seconds, frame_times_seconds: &scan.frame_times_seconds, series: &scan.series }
    }
}

impl Scan {
    pub fn frames(&self) -> usize {
        self.frame_times_seconds.len()
    }

    /// Checks everything readers rely on; a scan that passes can be stored.
    pub fn validate(&self, regions: usize) -> Result<(), Problem> {
        self.id.validate(self.site.as_deref())?;
        SeriesView::from(self).validate(regions)?;
        for (what, vector, len) in [
            ("framewise displacement", self.framewise_displacement_mm.as_ref(), self.frames()),
            ("coverage", self.coverage.as_ref(), regions),
        ] {
            if let Some(v) = vector.filter(|v| v.len() != len) {
                return Err(Problem::new(what, format!("{len} values"), v.len()));
            }
        }
        Ok(())
    }

    /// BLAKE3 of the series alone: names and times are left out, so that a renamed copy is still a copy.
    pub fn series_blake3(&self) -> String {
        SeriesView::from(self).blake3()
    }

    /// Which regions carry a signal: neither missing (NaN) nor constant over the kept frames.
    pub fn valid_regions(&self) -> Vec<bool> {
        valid_regions(&self.series, self.frames())
    }
}

impl SeriesView<'_> {
    pub fn frames(&self) -> usize {
        self.frame_times_seconds.len()
    }

    /// Number of regions; 0 without frames.
    pub fn regions(&self) -> usize {
        self.series.len().checked_div(self.frames()).unwrap_or(0)
    }

    pub fn validate(&self, regions: usize) -> Result<(), Problem> {
        let frames = self.frames();
        ensure(frames >= 2, "number of frames", "at least 2", frames)?;
        ensure(
            self.series.len() == frames * regions,
            "size of the series",
            format_args!("{frames} x {regions}"),
            self.series.len(),
        )?;
        ensure(
            self.tr_seconds.is_finite() && self.tr_seconds > 0.0,
            "repetition time",
            "a positive number of seconds",
            self.tr_seconds,
        )?;
        ensure(
            self.frame_times_seconds.iter().all(|t| t.is_finite() && *t >= 0.0),
            "frame times",
            "finite and not negative",
            "others",
        )?;
        if let Some(i) = self.frame_times_seconds.windows(2).position(|w| w[0] >= w[1]) {
            let found =
                format!("{} then {} at frame {}", self.frame_times_seconds[i], self.frame_times_seconds[i + 1], i + 1);
            return Err(Problem::new("frame times", "strictly increasing", found));
        }
        if let Some(i) = self.series.iter().position(|x| x.is_infinite()) {
            return Err(Problem::new(
                "series",
                "finite values (NaN for a missing region)",
                format!("{} at frame {}, region {}", self.series[i], i / regions + 1, i % regions + 1),
            ));
        }
        let mut missing = vec![0; regions];
        for row in self.series.chunks_exact(regions.max(1)) {
            missing.iter_mut().zip(row).for_each(|(count, x)| *count += usize::from(x.is_nan()));
        }
        if let Some((r, missing)) = missing.into_iter().enumerate().find(|(_, n)| *n != 0 && *n != frames) {
            let found = format!("{missing} of {frames} frames of region {} are NaN", r + 1);
            return Err(Problem::new("series", "a region that is NaN in all frames or in none", found));
        }
        Ok(())
    }

    pub fn blake3(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for x in self.series {
            hasher.update(&x.to_le_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Which columns of a row-major `[frames, regions]` series are neither missing nor constant.
pub fn valid_regions(series: &[f32], frames: usize) -> Vec<bool> {
    let regions = series.len().checked_div(frames).unwrap_or(0);
    let mut valid = vec![false; regions];
    if let Some((first, rest)) = series.split_at_checked(regions) {
        for row in rest.chunks_exact(regions.max(1)) {
            for ((v, x), first) in valid.iter_mut().zip(row).zip(first) {
                // NaN differs from everything, yet a missing region must never become valid.
                *v |= x != first && !x.is_nan();
            }
        }
    }
    valid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan() -> Scan {
        Scan {
            id: ScanId::of_subject("a"),
            site: None,
            tr_seconds: 2.0,
            frame_times_seconds: vec![0.0, 2.0, 6.0],
            series: vec![1.0, 5.0, f32::NAN, 2.0, 5.0, f32::NAN, 1.5, 5.0, f32::NAN],
            framewise_displacement_mm: None,
            coverage: None,
            source: Source::default(),
        }
    }

    #[test]
    fn constant_and_missing_regions_are_not_valid() {
        assert_eq!(scan().valid_regions(), [true, false, false]);
        scan().validate(3).unwrap();
    }

    #[test]
    fn each_defect_is_named() {
        let check = |change: fn(&mut Scan)| {
            let mut s = scan();
            change(&mut s);
            s.validate(3).unwrap_err().to_string()
        };
        assert_eq!(
            check(|s| s.frame_times_seconds[2] = 2.0),
            "frame times: expected strictly increasing, found 2 then 2 at frame 2"
        );
        assert_eq!(check(|s| s.tr_seconds = 0.0), "repetition time: expected a positive number of seconds, found 0");
        assert_eq!(
            check(|s| s.series[0] = f32::INFINITY),
            "series: expected finite values (NaN for a missing region), found inf at frame 1, region 1"
        );
        assert_eq!(
            check(|s| s.series[3] = f32::NAN),
            "series: expected a region that is NaN in all frames or in none, found 1 of 3 frames of region 1 are NaN"
        );
        assert_eq!(
            check(|s| s.id.subject = String::new()),
            "subject: expected 1 to 200 bytes without control characters, found \"\""
        );
        assert_eq!(
            check(|s| {
                s.series.pop();
            }),
            "size of the series: expected 3 x 3, found 8"
        );
    }

    #[test]
    fn identifiers_read_as_in_bids() {
        let id = ScanId {
            subject: "sub-01".into(),
            session: Some("b".into()),
            task: Some("rest".into()),
            run: Some("2".into()),
        };
        assert_eq!(id.to_string(), "sub-01_ses-b_task-rest_run-2");
    }
}
