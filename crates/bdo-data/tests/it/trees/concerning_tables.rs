//! Tables of series: headers, columns, strays.

use std::fs;

use bdo_data::bids::Selection;
use bdo_data::ingest::IngestOptions;

use super::make::{NAMES, REGIONS, noise, table, value, write};
use super::makers::{FRAMES, every, giga_connectome};
use super::{ingest, only, refused, selecting, series};

#[test]
fn a_numeric_header_row_is_not_frame_0() {
    let headers: [&[&str]; 5] = [
        &["0", "1", "2", "3"],
        &["1", "2", "3", "4"],
        &["0.0", "1.0", "2.0", "3.0"],
        &["2001", "2002", "2101", "2102"],
        &[],
    ];
    for (i, header) in headers.iter().enumerate() {
        for (ending, delimiter) in [("tsv", "\t"), ("csv", ","), ("txt", " ")] {
            let dir = tempfile::tempdir().unwrap();
            let source = dir.path().join("s");
            write(&source.join(format!("101.{ending}")), table(header, delimiter, 0, &every()));
            let (cohort, _) = ingest(&source, &dir.path().join("c"), &series());
            let scan = cohort.scan(0).unwrap();
            assert_eq!((scan.frames(), scan.series[0]), (FRAMES, value(0, 0, 0)), "{i} {ending}");
        }
    }
}

#[test]
fn giga_connectome_trees_are_read_without_their_header_and_from_the_first_steady_frame() {
    let dir = tempfile::tempdir().unwrap();
    giga_connectome(&dir.path().join("g"), 2, 3);
    let (cohort, report) = ingest(&dir.path().join("g"), &dir.path().join("c"), &IngestOptions::default());
    assert_eq!(report.rejected, []);
    let scan = cohort.scan(1).unwrap();
    assert_eq!((scan.frames(), scan.tr_seconds, scan.series[1]), (FRAMES, 2.0, value(1, 0, 1)));
    assert_eq!(scan.frame_times_seconds[0], 6.0, "three unsteady frames were dropped by its maker");
    assert_eq!(cohort.regions()[0].name, "Schaefer20184-0");
}

#[test]
fn index_and_time_columns_and_arrays_in_fortran_order_are_no_extra_regions() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    let rows = |person: usize, lead: &dyn Fn(usize) -> String| {
        let row = |t: usize| (0..REGIONS).map(|r| value(person, t, r).to_string()).collect::<Vec<_>>().join(",");
        (0..FRAMES).fold(String::new(), |text, t| text + &lead(t) + "," + &row(t) + "\n")
    };
    write(&source.join("1.csv"), format!(",{}\n{}", NAMES.join(","), rows(1, &|t| t.to_string())));
    write(&source.join("2.csv"), format!("time,{}\n{}", NAMES.join(","), rows(2, &|t| (t as f64 * 2.0).to_string())));
    // Frames 10 and 11 are missing, and the column of times says so.
    let gap = |t: usize| (if t < 10 { t } else { t + 2 } as f64 * 2.0).to_string();
    write(&source.join("3.csv"), format!("time,{}\n{}", NAMES.join(","), rows(3, &gap)));
    let header = format!("{{'descr': '<f4', 'fortran_order': True, 'shape': ({FRAMES}, {REGIONS}), }}\n");
    let mut array = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()].concat();
    array.extend((0..REGIONS).flat_map(|r| (0..FRAMES).map(move |t| value(4, t, r))).flat_map(f32::to_le_bytes));
    write(&source.join("4.npy"), array);
    let options = IngestOptions { tr_seconds: None, ..series() };
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &options);
    assert_eq!(report.rejected, []);
    for (i, person) in (1..=4).enumerate() {
        let scan = cohort.scan(i).unwrap();
        assert_eq!(scan.series[REGIONS + 1], value(person, 1, 1), "{person}");
        assert_eq!((scan.frames(), scan.series.len()), (FRAMES, FRAMES * REGIONS));
    }
    assert_eq!(cohort.index()[1].tr_seconds, 2.0, "the column of times says it");
    assert_eq!(cohort.scan(2).unwrap().frame_times_seconds[10], 24.0);
}

#[test]
fn athena_tables_of_adhd200_are_read_with_their_people() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    for (person, id) in ["0010001", "0010002"].iter().enumerate() {
        for (version, prefix) in ["sfnwmrda", "snwmrda"].iter().enumerate() {
            let stem = format!("{prefix}{id}_session_1_rest_1");
            let mut text = "File\tSub-brick".to_owned();
            (1..=REGIONS).for_each(|r| text += &format!("\tMean_{r} "));
            for t in 0..FRAMES {
                text += &format!("\n{stem}.nii.gz\t{t}[?]");
                (0..REGIONS).for_each(|r| text += &format!("\t{}", value(10 * version + person, t, r)));
            }
            write(&source.join(format!("KKI/{id}/{stem}_cc200_TCs.1D")), text + "\n");
        }
    }
    let people = "ScanDir ID,Site,Gender,Age,DX\n10001,3,1,9.5,0\n10002,3,0,10.5,3\n";
    write(&source.join("KKI_phenotypic.csv"), people);
    let options = IngestOptions { tr_seconds: Some(2.5), ..IngestOptions::default() };
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &options);
    assert_eq!(report.rejected, []);
    let versions = "2 scans are there in several versions: snwmrda* is taken, not sfnwmrda*; --pattern chooses another";
    assert!(report.notes.iter().any(|n| n == versions), "{:?}", report.notes);
    let scan = cohort.scan(1).unwrap();
    assert_eq!((scan.id.to_string().as_str(), scan.frames()), ("10002_ses-1_run-1", FRAMES));
    assert_eq!((scan.series[0], scan.site.as_deref()), (value(11, 0, 0), Some("3")), "unfiltered");
    assert_eq!(cohort.regions()[3].name, "cc200-4");
    let label = |column: &str| cohort.participants().get(1, column).map(str::to_owned);
    assert_eq!((label("sex").unwrap(), label("diagnosis").unwrap()), ("F".into(), "adhd".into()));
    let filtered = selecting(
        Selection { pattern: Some(bdo_data::pattern::Pattern::new("sfn*")), ..Selection::default() },
        options,
    );
    let (cohort, _) = ingest(&source, &dir.path().join("f"), &filtered);
    assert_eq!(cohort.scan(1).unwrap().series[0], value(1, 0, 0));
}

#[test]
fn a_stray_table_that_sorts_first_is_not_the_cohort() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    for person in 1..4 {
        write(&source.join(format!("10{person}.csv")), table(&NAMES, ",", person, &every()));
    }
    let stray = (0..20).fold("mean_fd,snr\n".to_owned(), |s, t| s + &format!("{},{}\n", noise(&[t]), noise(&[t, 1])));
    write(&source.join("000_quality.csv"), stray);
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &series());
    assert_eq!((cohort.len(), cohort.regions()[0].name.as_str()), (3, "LH_a"));
    let said = only(&report);
    assert!(said.starts_with("000_quality.csv: regions: expected the 4 regions of the cohort"), "{said}");
    // One against one: nobody can tell.
    fs::remove_file(source.join("102.csv")).unwrap();
    fs::remove_file(source.join("103.csv")).unwrap();
    let said = refused(&source, &dir.path().join("d"), &series());
    assert!(said.contains("expected files that agree in their columns"), "{said}");
}

#[test]
fn the_same_series_under_two_people_or_two_spellings_of_a_run_is_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    for (name, person) in [("sub-1_run-1", 1), ("sub-1_run-01", 1), ("sub-2", 2), ("sub-3", 2)] {
        write(&source.join(format!("{name}.tsv")), table(&NAMES, "\t", person, &every()));
    }
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &series());
    assert_eq!((cohort.len(), report.rejected.len()), (2, 2));
    assert_eq!(report.rejected[1].reason, "copy of another scan");
    assert_eq!(report.rejected[1].found, "the series of sub-2 (sub-2.tsv)");
    // Also one by one, and through a link.
    std::os::unix::fs::symlink(source.join("sub-2.tsv"), source.join("sub-9.tsv")).unwrap();
    let one = selecting(Selection { participants: vec!["9".into()], ..Selection::default() }, series());
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &one);
    assert_eq!(cohort.len(), 2);
    assert!(only(&report).contains("copy of another scan"), "{report:?}");
}
