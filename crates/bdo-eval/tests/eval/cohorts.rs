//! Small cohorts for the tests, made in scratch folders.

use std::path::Path;

use bdo_data::cohort::{self, Cohort, Observer, Plan, Provenance, Tables};
use bdo_data::region::Region;
use bdo_data::scan::Scan;
use bdo_data::synth::{Effects, Generator, SynthSpec};

struct Nobody;

impl Observer for Nobody {}

/// What a simulated cohort should be like.
pub(crate) fn spec(subjects: usize, effects: Effects) -> SynthSpec {
    SynthSpec {
        subjects,
        regions: 32,
        frames: 160,
        sites: 2,
        effects,
        missing_label_fraction: 0.0,
        ..SynthSpec::default()
    }
}

/// Simulates a cohort; `change` may replace the scan that is stored at a position, after the person was named.
pub(crate) fn simulate(spec: SynthSpec, folder: &Path, change: impl Fn(usize, Scan) -> Scan + Sync) -> Cohort {
    let generator = Generator::new(spec).unwrap();
    let plan = Plan {
        provenance: Provenance::of("test", serde_json::json!({})),
        atlas_name: "test".into(),
        regions: generator.regions().iter().map(Region::from).collect(),
        items: generator.scan_count(),
        part_bytes: 1 << 24,
    };
    let produce = |i: usize| Ok(change(i, generator.scan(i)));
    let tables = |_: &cohort::BuildReport| Tables { participants: generator.participants(), ..Tables::default() };
    cohort::build(folder, &plan, produce, tables, &Nobody).unwrap();
    Cohort::open(folder).unwrap()
}
