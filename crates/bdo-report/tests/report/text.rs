//! The text of pages, whole.

use crate::fixture::{Names, compare_folder, everything, run_folder, token_run_folder};
use bdo_report::kind::Kind;
use bdo_report::report::{add_splits, page_of};
use bdo_train::settings::{Preset, Settings};
use bdo_train::words::Words;

/// A page without its style, script, coordinates and data, a line an element: what a reader would read.
fn readable(html: &str) -> String {
    let body = html.split_once("<body>").unwrap().1.split_once("<script").unwrap().0;
    let (mut out, mut rest) = (String::new(), body);
    while let Some((text, tail)) = rest.split_once('<') {
        let (tag, after) = tail.split_once('>').unwrap();
        if !text.trim().is_empty() {
            out += text.trim();
            out += "\n";
        }
        let name = tag.split([' ', '/']).next().unwrap_or("");
        if ["h1", "h2", "h3", "figure", "table", "svg", "nav"].contains(&name) {
            out += &format!("<{name}>\n");
        }
        rest = after;
    }
    out
}

fn page(name: &str, kind: Kind, make: impl Fn(&std::path::Path)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    make(&path);
    assert_eq!(Kind::of(&path), Some(kind));
    let paths = [(path, kind)];
    let page = page_of(&paths, &format!("bdo report {name} --out page.html")).unwrap();
    page.finish("0.1.0").replace(&*folder.path().to_string_lossy(), "[folder]")
}

#[test]
fn the_page_of_a_run_says_this() {
    insta::assert_snapshot!(readable(&page("run", Kind::Run, |p| run_folder(p, 40))));
}

#[test]
fn the_page_of_a_brainlm_run_says_this() {
    insta::assert_snapshot!(readable(&page("run", Kind::Run, token_run_folder)));
}

#[test]
fn the_configuration_of_every_preset_reads_like_this() {
    let mut text = String::new();
    for name in [Preset::Default, Preset::Paper, Preset::BrainLm, Preset::BrainJepa] {
        let Words { input, visits, objective, optimiser } = Words::of(&Settings::preset(name));
        text += &format!("# {name}\n{input}\n{visits}\n{objective}\n{optimiser}\n\n");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn the_page_of_a_comparison_says_this() {
    insta::assert_snapshot!(readable(&page("compare", Kind::Comparison, |p| compare_folder(p, &Names::plain()))));
}

#[test]
fn the_same_folders_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let make = || {
        let inside = folder.path().join("folders");
        std::fs::create_dir(&inside).unwrap();
        let html = everything(&inside, &Names::plain());
        std::fs::remove_dir_all(&inside).unwrap();
        html
    };
    assert!(make() == make());
}

#[test]
fn empty_and_damaged_folders_are_pages_that_say_so() {
    for kind in [Kind::Run, Kind::Model, Kind::Comparison, Kind::Sweep, Kind::Head, Kind::Inference] {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "run.json",
            "journal.jsonl",
            "table.json",
            "result.json",
            "predictions.tsv",
            "inference.json",
            "config.json",
        ] {
            std::fs::write(folder.path().join(file), b"{\"rows\": [1, null, {}], \"summary\": 3\xff").unwrap();
        }
        let mut page = page_of(&[(folder.path().to_path_buf(), kind)], "c").unwrap();
        add_splits(&mut page, folder.path(), None);
        assert!(page.finish("0").contains("class=\"missing\""), "{kind:?}");
    }
}

#[test]
fn a_long_journal_stays_a_small_page_made_quickly() {
    let folder = tempfile::tempdir().unwrap();
    run_folder(folder.path(), 60_000);
    let make = || {
        let started = std::time::Instant::now();
        let html = page_of(&[(folder.path().to_path_buf(), Kind::Run)], "c").unwrap().finish("0");
        assert!(html.len() < 5 << 20, "{} bytes", html.len());
        started.elapsed().as_secs_f64()
    };
    // One try of five is enough: what else the machine does is not asked about.
    let mut seconds = (0..5).map(|_| make());
    assert!(seconds.any(|s| s < 5.0), "five pages took longer than 5 s each");
}
