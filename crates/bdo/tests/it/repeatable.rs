//! Same seed, same bytes, whatever the threads; the demo does what it says.

use crate::program::{bytes, names, run, run_json};

#[test]
fn the_same_seed_gives_the_same_bytes_with_one_and_two_threads() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, more: &str| {
        run_json(
            dir.path(),
            &format!(
                "simulate {name} --subjects 30 --regions 40 --frames 80 --part-mib 1 --sessions 2 --censor {more}"
            ),
        );
        bytes(&dir.path().join(name))
    };
    let one = make("one", "--threads 1 --seed 5");
    assert_eq!(one, make("two", "--threads 2 --seed 5"));
    assert_ne!(one, make("other", "--threads 2 --seed 6"));
}

#[test]
fn merged_shards_hold_what_one_ingest_holds() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("s")).unwrap();
    for i in 0..7 {
        std::fs::write(dir.path().join(format!("s/p{i}.tsv")), format!("a\tb\n{i}\t2\n3\t{i}\n5\t9\n")).unwrap();
    }
    for shard in 1..=3 {
        run_json(dir.path(), &format!("ingest s part{shard} --tr 1 --shard {shard}/3"));
    }
    run_json(dir.path(), "merge part3 part1 part2 all");
    run_json(dir.path(), "ingest s whole --tr 1");
    let open = |name: &str| bdo_data::cohort::Cohort::open(&dir.path().join(name)).unwrap();
    let (all, whole) = (open("all"), open("whole"));
    assert_eq!(all.len(), 7);
    for i in 0..7 {
        assert_eq!(all.scan(i).unwrap(), whole.scan(i).unwrap());
    }
}

#[test]
fn the_demo_leaves_a_page_and_can_be_run_again() {
    let dir = tempfile::tempdir().unwrap();
    run_json(dir.path(), "demo --out d");
    assert_eq!(names(&dir.path().join("d")), ["cohort", "comparison", "report.html", "run"]);
    let page = std::fs::read_to_string(dir.path().join("d/report.html")).unwrap();
    assert!(page.contains("data:image/png;base64,") && !page.contains("http://") && !page.contains("https://"));
    let before = bytes(&dir.path().join("d"));
    assert!(run(dir.path(), "demo --out d").status.success());
    assert_eq!(bytes(&dir.path().join("d")), before);
}
