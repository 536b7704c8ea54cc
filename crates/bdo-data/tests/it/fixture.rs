//! Small cohorts to test with.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use bdo_data::cohort::{self, BuildReport, Cohort, CohortError, Item, Observer, Plan, Provenance, Tables};
use bdo_data::participants::Participants;
use bdo_data::random;
use bdo_data::region::Region;
use bdo_data::scan::{Scan, ScanId, Source};
use rand_chacha::rand_core::Rng;
use serde_json::json;

pub(crate) const REGIONS: usize = 7;

/// Full counts when asked for, a tenth otherwise.
pub(crate) fn torture(full: usize, least: usize) -> usize {
    if std::env::var("BDO_TORTURE").is_ok_and(|v| v == "full") { full } else { (full / 10).max(least) }
}

/// Stops after a number of stored items, as a signal would.
pub(crate) struct StopAfter(pub(crate) usize, AtomicUsize);

impl StopAfter {
    pub(crate) fn items(n: usize) -> Self {
        Self(n, AtomicUsize::new(0))
    }

    pub(crate) fn never() -> Self {
        Self::items(usize::MAX)
    }
}

impl Observer for StopAfter {
    fn advance(&self, done: usize, _: usize) {
        self.1.store(done, Ordering::SeqCst);
    }

    fn stop_requested(&self) -> bool {
        self.1.load(Ordering::SeqCst) >= self.0
    }
}

/// A scan with irregular times, one constant region and, for every third person, one missing region.
pub(crate) fn scan(number: usize) -> Scan {
    let mut rng = random::stream("fixture", &[number as u64]);
    let mut uniform = || (rng.next_u64() >> 40) as f32 / 16_777_216.0;
    let frames = 20 + number % 5;
    let mut series: Vec<f32> = (0..frames * REGIONS).map(|_| 100.0 + uniform()).collect();
    for row in series.chunks_exact_mut(REGIONS) {
        row[2] = 5.0;
        if number.is_multiple_of(3) {
            row[4] = f32::NAN;
        }
    }
    Scan {
        id: ScanId { session: Some(format!("{}", number % 2)), ..ScanId::of_subject(format!("sub-{:03}", number / 2)) },
        site: Some(format!("site-{}", number % 4)),
        tr_seconds: 0.8,
        frame_times_seconds: (0..frames).map(|i| 0.8 * (i + i / 7) as f64).collect(),
        series,
        framewise_displacement_mm: Some((0..frames).map(|_| 0.2 * uniform()).collect()),
        coverage: number.is_multiple_of(2).then(|| vec![0.9; REGIONS]),
        source: Source { name: format!("file-{number}"), blake3: String::new(), dropped_volumes: 10 },
    }
}

pub(crate) fn plan(items: usize) -> Plan {
    Plan {
        provenance: Provenance::of("test", json!({"items": items})),
        atlas_name: "seven".into(),
        regions: (0..REGIONS).map(|i| Region::named(format!("r{i}"))).collect(),
        items,
        part_bytes: 10_000,
    }
}

pub(crate) fn tables(report: &BuildReport) -> Tables {
    let mut participants = Participants::with_columns(["age", "sex"]);
    for (i, subject) in report.subjects().into_iter().enumerate() {
        participants.insert(subject, vec![Some(format!("{}", 20 + i)), (i % 3 > 0).then(|| "F".to_owned())]);
    }
    Tables { participants, extras: BTreeMap::from([("truth/note.txt".to_owned(), b"known".to_vec())]) }
}

pub(crate) fn build(out: &Path, items: usize, observer: &StopAfter) -> Result<BuildReport, CohortError> {
    build_with(out, items, &|i| Ok(scan(i)), observer)
}

pub(crate) fn build_with(
    out: &Path,
    items: usize,
    produce: &(dyn Fn(usize) -> Item + Sync),
    observer: &StopAfter,
) -> Result<BuildReport, CohortError> {
    cohort::build(out, &plan(items), produce, tables, observer)
}

pub(crate) fn cohort(out: &Path, items: usize) -> Cohort {
    build(out, items, &StopAfter::never()).unwrap();
    Cohort::open(out).unwrap()
}

/// Every file below a folder with its bytes.
pub(crate) fn bytes(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(bytes(&path).into_iter().map(|(k, v)| (format!("{name}/{k}"), v)));
        } else {
            found.insert(name, std::fs::read(&path).unwrap());
        }
    }
    found
}
