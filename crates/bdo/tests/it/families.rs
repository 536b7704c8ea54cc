//! Relatives are never on two sides of a split, whatever the column of families is called and whatever the verb.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bdo_data::cohort::{self, Cohort, Plan, Provenance, Tables};
use bdo_data::participants::Participants;
use bdo_model::weights::TrainingPeople;
use serde_json::{Value, json};

use crate::program::{run, run_json};

const SMALL: &str = "--set model.width=16 --set model.blocks=1 --set train.epochs=1 --set train.batch_size=16";
const SPELLINGS: [&str; 4] = ["family_id", "Family_ID", "FamilyID", "family"];

struct Quiet;

impl cohort::Observer for Quiet {}

/// The same scans and people with another name of the column.
fn respelled(original: &Cohort, out: &Path, column: &str) {
    let plan = Plan {
        provenance: Provenance::of("test", json!({})),
        atlas_name: "test".into(),
        regions: original.regions().to_vec(),
        items: original.len(),
        part_bytes: 1 << 20,
    };
    let text = original.participants().to_tsv().replacen("family_id", column, 1);
    let participants = Participants::parse("participants.tsv", text.as_bytes(), &[]).unwrap();
    let tables = |_: &cohort::BuildReport| Tables { participants, ..Tables::default() };
    cohort::build(out, &plan, |i| Ok(original.scan(i).unwrap()), tables, &Quiet).unwrap();
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).unwrap()
}

/// Every family of at least two is wholly inside one of the sets of people.
fn together(families: &BTreeMap<String, Vec<String>>, sides: &[BTreeSet<String>], what: &str) {
    for (family, members) in families.iter().filter(|(_, members)| members.len() > 1) {
        let on = |person: &String| sides.iter().position(|side| side.contains(person));
        let places: BTreeSet<usize> = members.iter().filter_map(on).collect();
        assert!(places.len() < 2, "{what}: family {family} ({}) is on {} sides", members.join(", "), places.len());
    }
}

#[test]
fn siblings_stay_together_under_every_spelling_in_every_verb() {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    run_json(dir.path(), "simulate c --subjects 60 --regions 8 --frames 170 --sites 2 --missing-labels 0");
    let original = Cohort::open(&at("c")).unwrap();
    let mut families: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (row, subject) in original.participants().subjects().enumerate() {
        let family = original.participants().get(row, "family_id").unwrap();
        families.entry(family.to_owned()).or_default().push(subject.to_owned());
    }
    assert!(families.values().filter(|members| members.len() > 1).count() >= 8, "{families:?}");
    let hash = TrainingPeople::subject_hash;
    let hashed: BTreeMap<String, Vec<String>> =
        families.iter().map(|(f, members)| (f.clone(), members.iter().map(|m| hash(m)).collect())).collect();
    let everybody: BTreeSet<String> = hashed.values().flatten().cloned().collect();

    let mut found: Vec<(&str, Value)> = vec![];
    // Under a name that says nothing of families they cannot be known: what the verbs say must change with it.
    for column in SPELLINGS.into_iter().chain(["household"]) {
        let data = format!("c-{column}");
        respelled(&original, &at(&data), column);
        let out = |verb: &str| format!("{column}-{verb}");
        let known = column != "household";

        for (verb, kind) in [("pretrain", ""), ("tokens", "--set model.kind=brainlm")] {
            run_json(dir.path(), &format!("pretrain --data {data} --out {} {SMALL} {kind} --quiet", out(verb)));
            let people = read(&at(&out(verb)).join("model/training_people.json"));
            let trained: BTreeSet<String> =
                people["subjects"].as_array().unwrap().iter().map(|s| s.as_str().unwrap().to_owned()).collect();
            let others: BTreeSet<String> = everybody.difference(&trained).cloned().collect();
            assert!(trained.len() > 30 && others.len() > 4, "{} of {}", trained.len(), everybody.len());
            if known {
                together(&hashed, &[trained, others], &format!("{verb} with {column}"));
            }
        }
        let model = format!("--model {}/model", out("pretrain"));
        run_json(dir.path(), &format!("probe {model} --data {data} --target age --out {} --epochs 1", out("probe")));
        let tune = "--target sex --epochs 1 --budget 1 --seeds 0,1";
        run_json(dir.path(), &format!("finetune {model} --data {data} --out {} {tune}", out("finetune")));
        let baseline = "baseline braingnn --target sex --epochs 1 --seeds 0,1";
        run_json(dir.path(), &format!("{baseline} --data {data} --out {}", out("baseline")));
        let compare = "compare --targets sex,age --site-groups --bootstraps 20 --permutations 19 --quiet";
        let compared = run_json(dir.path(), &format!("{compare} --data {data} --out {}", out("compare")));
        let sweep = format!("sweep --vary mask.ratio=0.75 --targets age {SMALL} --quiet");
        let swept = run_json(dir.path(), &format!("{sweep} --data {data} --out {}", out("sweep")));
        let page = out("report.html");
        assert!(run(dir.path(), &format!("report {data} --out {page}")).status.success());
        let page = std::fs::read_to_string(at(&page)).unwrap();
        let divided: Vec<&str> = page.split("seed ").skip(1).map(|text| text.split('<').next().unwrap()).collect();

        for verb in ["probe", "finetune", "baseline", "compare"] {
            let manifest = read(&at(&out(verb)).join("splits.json"));
            let splits = manifest["splits"].as_array().unwrap();
            assert!(splits.len() > 1, "{verb}");
            for split in splits.iter().filter(|_| known) {
                let side = |part: &str| -> BTreeSet<String> {
                    split[part].as_array().unwrap().iter().map(|s| s.as_str().unwrap().to_owned()).collect()
                };
                let sides = ["train", "validation", "test"].map(side);
                together(&families, &sides, &format!("{verb} with {column}, seed {}", split["spec"]["seed"]));
            }
        }
        // What these verbs say depends on who was divided how, and must not depend on the spelling.
        found.push((column, json!({"sweep": swept["rows"], "audit": compared["audit"], "report": divided})));
    }
    let (_, first) = &found[0];
    for (column, said) in &found[1..SPELLINGS.len()] {
        assert_eq!(said, first, "{column}");
    }
    let (_, unknown) = &found[SPELLINGS.len()];
    assert!(unknown["sweep"] != first["sweep"] && unknown["audit"] != first["audit"]);
}
