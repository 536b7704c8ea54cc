//! Labels, recipes, merging.

use std::fs;

use bdo_data::cohort::{self, Cohort, Provenance};
use bdo_data::ingest::IngestOptions;
use bdo_data::participants::Participants;
use serde_json::json;

use super::make::{NAMES, table, write};
use super::makers::every;
use super::{ingest, refused, series, tables};

#[test]
fn a_corrected_participants_table_is_taken_on_a_second_run_and_history_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("s"), dir.path().join("c"));
    tables(&source, 1..4);
    let people = source.join("participants.tsv");
    write(&people, "participant_id\tage\tsite\nsub-1\t20\tA\nsub-2\t21\tA\nsub-3\t22\tA\n");
    ingest(&source, &out, &series());
    write(&people, "participant_id\tage\tsite\tsex\nsub-1\t20\tA\tF\nsub-2\t31\tB\tM\nsub-3\tn/a\tA\tM\n");
    let (cohort, report) = ingest(&source, &out, &series());
    assert_eq!((report.added, report.skipped, report.relabelled), (0, 3, 3));
    let people_now = cohort.participants();
    assert_eq!((people_now.get(1, "age"), people_now.get(2, "age")), (Some("31"), None));
    assert_eq!((cohort.index()[1].site.as_deref(), cohort.scan(1).unwrap().site.as_deref()), (Some("B"), Some("B")));
    let step = cohort.manifest().provenance.last().unwrap();
    assert_eq!((step.verb.as_str(), &step.settings["people_changed"]), ("label", &json!(3)));
    let before = cohort.extra(step.settings["before"].as_str().unwrap()).unwrap().unwrap();
    assert!(String::from_utf8(before).unwrap().contains("sub-2\t21\tA"));
    // A table that was taken already does not undo what was corrected by hand since.
    let corrected = Participants::parse("p", b"participant_id\tage\nsub-2\t32\n", &[]).unwrap();
    let report = cohort::label(&out, &corrected, "label").unwrap();
    assert_eq!((report.people, report.columns), (1, vec!["age".to_owned()]));
    let (cohort, report) = ingest(&source, &out, &series());
    assert_eq!((report.relabelled, cohort.participants().get(1, "age")), (0, Some("32")));
    assert_eq!(cohort.manifest().provenance.len(), 3);
    // New scans are added to a cohort whose labels were corrected.
    write(&source.join("sub-4.tsv"), table(&NAMES, "\t", 4, &every()));
    assert_eq!(ingest(&source, &out, &series()).1.added, 1);
    let nobody = Participants::parse("p", b"participant_id\tage\nx\t32\n", &[]).unwrap();
    let said = cohort::label(&out, &nobody, "label").unwrap_err().to_string();
    assert!(said.contains("expected rows of its people, such as \"sub-1\", found none of them"), "{said}");
}

#[test]
fn cohorts_of_different_recipes_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    for (name, person, drop) in [("a", 1, 0), ("b", 2, 0), ("c", 3, 5)] {
        let source = dir.path().join(format!("s{name}"));
        write(&source.join(format!("sub-{person}.tsv")), table(&NAMES, "\t", person, &every()));
        ingest(&source, &dir.path().join(name), &IngestOptions { drop_volumes: Some(drop), ..series() });
    }
    let cohorts = |names: [&str; 2]| names.map(|n| Cohort::open(&dir.path().join(n)).unwrap());
    cohort::differing_recipes(&cohorts(["a", "b"])).unwrap();
    let said = cohort::differing_recipes(&cohorts(["a", "c"])).unwrap_err().to_string();
    assert!(said.contains("expected drop_volumes 0 as in") && said.contains("found drop_volumes 5"), "{said}");
    assert!(cohort::recipe_of(&cohorts(["a", "c"])[1])[0].to_string().contains("drop_volumes 5"));
    // A merged cohort has the recipes of its sources.
    let both = cohorts(["a", "b"]);
    let merged: Vec<_> = both.iter().map(|c| json!({"provenance": c.manifest().provenance})).collect();
    let out = dir.path().join("ab");
    cohort::merge(&both, &out, vec![Provenance::of("merge", json!({"merged": merged}))], &[]).unwrap();
    cohort::differing_recipes(&cohorts(["ab", "b"])).unwrap();
    assert!(cohort::differing_recipes(&cohorts(["ab", "c"])).is_err());
}

#[test]
fn a_failed_merge_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    write(&source.join("sub-1.tsv"), table(&NAMES, "\t", 1, &every()));
    ingest(&source, &dir.path().join("a"), &series());
    fs::rename(source.join("sub-1.tsv"), source.join("sub-2.tsv")).unwrap();
    ingest(&source, &dir.path().join("b"), &series());
    let before = fs::read_dir(dir.path()).unwrap().count();
    let both = ["a", "b"].map(|n| Cohort::open(&dir.path().join(n)).unwrap());
    let said = cohort::merge(&both, &dir.path().join("ab"), vec![], &[]).unwrap_err().to_string();
    assert!(said.contains("a copy of sub-2 in both"), "{said}");
    // A part that vanishes while the merge works.
    fs::remove_dir_all(dir.path().join("b")).unwrap();
    write(&source.join("sub-2.tsv"), table(&NAMES, "\t", 2, &every()));
    ingest(&source, &dir.path().join("b"), &series());
    let both = ["a", "b"].map(|n| Cohort::open(&dir.path().join(n)).unwrap());
    fs::remove_dir_all(dir.path().join("b/scans")).unwrap();
    assert!(cohort::merge(&both, &dir.path().join("ab"), vec![], &[]).is_err());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before);
}

#[test]
fn a_participants_table_that_knows_nobody_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    write(&source.join("sub-1.tsv"), table(&NAMES, "\t", 1, &every()));
    let people = dir.path().join("p.tsv");
    write(&people, "participant_id\tage\n0001\t20\n");
    let options = IngestOptions { participants: Some(people.clone()), ..series() };
    let said = refused(&source, &dir.path().join("c"), &options);
    assert!(said.contains("such as \"sub-1\", in the participants table, found none of them, but \"0001\""), "{said}");
    assert!(!dir.path().join("c").exists());
    write(&people, "participant_id\tage\n");
    let said = refused(&source, &dir.path().join("c"), &options);
    assert!(said.ends_with("expected rows of people in the participants table, found none"), "{said}");
}

#[test]
fn people_without_a_row_and_labels_that_differ_in_zeros_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    for (person, label) in ["1", "01", "02"].iter().enumerate() {
        write(&source.join(format!("sub-{label}.tsv")), table(&NAMES, "\t", person, &every()));
    }
    write(&source.join("participants.tsv"), "participant_id\tage\nsub-1\t20\nsub-02\t30\n");
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &series());
    assert_eq!(cohort.len(), 3);
    for note in [
        "1 of 3 people, such as \"sub-01\", have no row in the participants table",
        "sub-01 and sub-1 differ only in zeros in front: they count as two people",
    ] {
        assert!(report.notes.iter().any(|n| n == note), "{:?}", report.notes);
    }
}
