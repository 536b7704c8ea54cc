//! The pages of `docs/recipes`: their commands, word for word, on trees as the pages describe them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bdo_data::cohort::Cohort;

use crate::fixture::{FRAMES, REGIONS, confounds, gzip, image, noise, open, voxel};
use crate::grayordinates::{copy_atlas, series};

const ATLAS: &str = "atlas/Schaefer2018_400Parcels_7Networks_order_Tian_Subcortex_S3";

/// Runs the commands of a page in `folder`: those of ours and the chores that make tables of text. Downloads, unpacking and
/// other people's pipelines are what the generated tree stands for.
fn follow(page: &str, folder: &Path) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes").join(page);
    let text = fs::read_to_string(path).unwrap().replace("\\\n      ", "");
    let ours = Path::new(env!("CARGO_BIN_EXE_bdo")).parent().unwrap();
    let search = format!("{}:{}", ours.display(), std::env::var("PATH").unwrap());
    let commands: Vec<&str> = text
        .lines()
        .filter_map(|l| l.strip_prefix("    "))
        .filter(|l| ["bdo ", "tr ", "iconv ", "awk "].iter().any(|c| l.starts_with(c)))
        .collect();
    assert!(commands.iter().any(|c| c.starts_with("bdo ingest")), "{page} has no command");
    for command in commands {
        let output =
            Command::new("sh").args(["-c", command]).env("PATH", &search).current_dir(folder).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{page}: {command}: {said}");
    }
}

fn write(path: PathBuf, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn ids(cohort: &Cohort) -> Vec<String> {
    cohort.index().iter().map(|e| e.id.to_string()).collect()
}

/// The label of a person.
fn label(cohort: &Cohort, subject: &str, column: &str) -> Option<String> {
    let people = cohort.participants();
    people.get(people.row_of(subject).unwrap(), column).map(str::to_owned)
}

/// A label image and its names where the pages expect Schaefer-400 with Tian-S3.
fn volume_atlas(folder: &Path) {
    image(&folder.join(format!("{ATLAS}_MNI152NLin6Asym_2mm.nii.gz")), 1, 0.0, |[x, _, _], _| (x + 1) as f32);
    let names = (1..=REGIONS).fold(String::new(), |t, i| t + &format!("plane-{i}\n{i} 10 20 30 255\n"));
    write(folder.join(format!("{ATLAS}_label.txt")), &names);
}

/// One run of fMRIPrep derivatives in MNI space: image, mask, sidecar, confounds.
fn fmriprep_run(func: &Path, scan: &str, person: usize, tr_seconds: f32) {
    let space = format!("{scan}_space-MNI152NLin6Asym_res-2");
    image(&func.join(format!("{space}_desc-preproc_bold.nii.gz")), FRAMES, tr_seconds, |v, t| voxel(person, v, t));
    image(&func.join(format!("{space}_desc-brain_mask.nii.gz")), 1, 0.0, |_, _| 1.0);
    let sidecar = format!(r#"{{"RepetitionTime": {tr_seconds}}}"#);
    write(func.join(format!("{space}_desc-preproc_bold.json")), &sidecar);
    write(func.join(format!("{scan}_desc-confounds_timeseries.tsv")), &confounds(person));
}

const DESCRIPTION: &str = r#"{"Name": "fMRIPrep", "BIDSVersion": "1.9.0", "GeneratedBy": [{"Name": "fMRIPrep"}]}"#;

#[test]
fn uk_biobank() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    for (person, eid) in ["1000011", "1000028"].into_iter().enumerate() {
        let times = (0..30).map(|t| format!("timestamp_{t}")).collect::<Vec<_>>().join(",");
        let row = |name: &str, r: usize| {
            let cells: Vec<String> = (0..30).map(|t| format!("{:.5}", noise(&[person, r, t]))).collect();
            format!("{name},{}\n", cells.join(","))
        };
        let table = format!("label_name,{times}\n{}{}", row("7Networks_LH_Vis_1", 0), row("7Networks_RH_Vis_1", 1));
        let path = folder.join(format!("ukb/{eid}_31016_2_0/fMRI.Schaefer7n400p.csv.gz"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, gzip(table.as_bytes())).unwrap();
        let path = folder.join(format!("ukb-images/{eid}_20227_2_0.nii.gz"));
        image(&path, FRAMES, 0.735, |v, t| voxel(person, v, t));
    }
    write(folder.join("ukb-people.csv"), "eid,31-0.0,21003-2.0\n1000011,0,61\n1000028,1,72\n");
    volume_atlas(folder);
    follow("uk-biobank.md", folder);
    let tables = open(&folder.join("ukb-cohort"));
    assert_eq!(ids(&tables), ["1000011_ses-2", "1000028_ses-2"]);
    assert_eq!((tables.scan(0).unwrap().tr_seconds, tables.scan(0).unwrap().frames()), (0.735, 30));
    assert_eq!(tables.regions()[1].name, "7Networks_RH_Vis_1");
    assert_eq!(label(&tables, "1000028", "21003-2.0").as_deref(), Some("72"));
    let images = open(&folder.join("ukb-image-cohort"));
    assert_eq!(ids(&images), ["1000011_ses-2", "1000028_ses-2"]);
    let scan = images.scan(1).unwrap();
    assert_eq!((scan.frames(), images.regions()[3].name.as_str()), (FRAMES - 10, "plane-4"));
    assert!((scan.tr_seconds - 0.735).abs() < 1e-6);
}

#[test]
fn hcp_young_adult() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    for (person, name) in ["100206", "100307"].into_iter().enumerate() {
        for (run, scan) in ["REST1_LR", "REST1_RL", "REST2_LR", "REST2_RL"].into_iter().enumerate() {
            let results = folder.join(format!("hcp/{name}/MNINonLinear/Results/rfMRI_{scan}"));
            let file = results.join(format!("rfMRI_{scan}_Atlas_MSMAll_hp2000_clean.dtseries.nii"));
            series(&file, 40, &[person, run]);
        }
    }
    write(folder.join("hcp-people.csv"), "Subject,Gender,Age,Family_ID\n100206,M,26-30,56037\n100307,F,26-30,51488\n");
    copy_atlas(&folder.join(format!("{ATLAS}.dlabel.nii")));
    follow("hcp-ya.md", folder);
    let cohort = open(&folder.join("hcp-cohort"));
    assert_eq!((cohort.len(), cohort.regions().len()), (8, 5));
    assert_eq!(ids(&cohort)[..2], ["100206_task-REST1_run-LR", "100206_task-REST1_run-RL"]);
    let scan = cohort.scan(0).unwrap();
    assert_eq!((scan.tr_seconds, scan.frames(), scan.frame_times_seconds[0]), (0.72, 30, 10.0 * 0.72));
    assert_eq!(label(&cohort, "100307", "Family_ID").as_deref(), Some("51488"));
}

/// The table of people of an NDA package: quoted cells, a second line of descriptions.
fn nda_table(people: &[(&str, &str)]) -> String {
    let head = "\"subjectkey\"\t\"src_subject_id\"\t\"interview_age\"\t\"sex\"\t\"phenotype\"\n\"The key\"\t\"Subject ID how it's defined in \
                lab/project\"\t\"Age in months\"\t\"Sex\"\t\"Phenotype\"\n";
    people.iter().fold(head.to_owned(), |text, (id, rest)| text + &format!("\"NDAR_{id}\"\t\"{id}\"\t{rest}\n"))
}

#[test]
fn hcp_aging() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    for (person, name) in ["HCA6002236_V1_MR", "HCA6010538_V1_MR"].into_iter().enumerate() {
        for (run, scan) in ["REST1_AP", "REST1_PA", "REST2_AP", "REST2_PA", "REST"].into_iter().enumerate() {
            let results = folder.join(format!("hcp-aging/{name}/MNINonLinear/Results/rfMRI_{scan}"));
            series(&results.join(format!("rfMRI_{scan}_Atlas_MSMAll_hp0_clean.dtseries.nii")), 40, &[person, run]);
        }
    }
    let people = [("HCA6002236", "\"732\"\t\"F\"\t\"Healthy\""), ("HCA6010538", "\"480\"\t\"M\"\t\"Healthy\"")];
    write(folder.join("ndar_subject01.txt"), &nda_table(&people));
    copy_atlas(&folder.join(format!("{ATLAS}.dlabel.nii")));
    follow("hcp-aging.md", folder);
    let cohort = open(&folder.join("hcp-aging-cohort"));
    assert_eq!(cohort.len(), 8, "the file of all runs is left out: {:?}", ids(&cohort));
    assert_eq!(ids(&cohort)[0], "HCA6002236_ses-V1_task-REST1_run-AP");
    assert_eq!(label(&cohort, "HCA6010538", "interview_age").as_deref(), Some("480"));
}

#[test]
fn hcp_early_psychosis() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let root = folder.join("hcp-ep/derivatives/fmriprep");
    write(root.join("dataset_description.json"), DESCRIPTION);
    for (person, name) in ["1001", "1002"].into_iter().enumerate() {
        for (k, encoding) in ["AP", "PA"].into_iter().enumerate() {
            let scan = format!("sub-{name}_ses-01_task-rest_dir-{encoding}_run-1");
            fmriprep_run(&root.join(format!("sub-{name}/ses-01/func")), &scan, 2 * person + k, 0.8);
        }
    }
    let people = [("1001", "\"260\"\t\"F\"\t\"Patient\""), ("1002", "\"281\"\t\"M\"\t\"Control\"")];
    write(folder.join("ndar_subject01.txt"), &nda_table(&people));
    volume_atlas(folder);
    follow("hcp-ep.md", folder);
    let cohort = open(&folder.join("hcp-ep-cohort"));
    assert_eq!(ids(&cohort)[..2], ["sub-1001_ses-01_task-rest_run-1+dir-AP", "sub-1001_ses-01_task-rest_run-1+dir-PA"]);
    assert_eq!((cohort.len(), label(&cohort, "sub-1001", "phenotype").as_deref()), (4, Some("Patient")));
}

#[test]
fn abide_one() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let mut table = "SUB_ID,SITE_ID,FILE_ID,DX_GROUP,AGE_AT_SCAN,SEX\n".to_owned();
    for (person, (file, site, number)) in
        [("Pitt_0050003", "PITT", 50003), ("CMU_a_0050642", "CMU", 50642)].into_iter().enumerate()
    {
        let rows = (0..40).fold("#1\t#2\t#3\n".to_owned(), |text, t| {
            text + &(0..3).map(|r| format!("{:.6}", noise(&[person, r, t]))).collect::<Vec<_>>().join("\t") + "\n"
        });
        write(folder.join(format!("abide/{file}_rois_cc200.1D")), &rows);
        table += &format!("{number},{site},{file},{},{},1\n", person + 1, 24.45 + person as f64);
    }
    write(folder.join("Phenotypic_V1_0b_preprocessed1.csv"), &table);
    follow("abide-1.md", folder);
    let cohort = open(&folder.join("abide-cohort"));
    assert_eq!((ids(&cohort), cohort.scan(0).unwrap().frames()), (vec!["50003".to_owned(), "50642".to_owned()], 30));
    assert_eq!(cohort.scan(1).unwrap().site.as_deref(), Some("CMU"));
    assert_eq!((cohort.scan(0).unwrap().tr_seconds, cohort.scan(1).unwrap().tr_seconds), (1.5, 2.0));
    assert_eq!(label(&cohort, "50003", "DX_GROUP").as_deref(), Some("1"));
}

#[test]
fn adhd_200() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    for (person, (site, name)) in [("KKI", "1018959"), ("Peking_1", "1050345")].into_iter().enumerate() {
        for (kind, prefix) in ["snwmrda", "sfnwmrda"].into_iter().enumerate() {
            let scan = format!("{prefix}{name}_session_1_rest_1");
            let head = "File\tSub-brick\tMean_1\tMean_2\tMean_3\t\n".to_owned();
            let rows = (0..40).fold(head, |text, t| {
                let cells: Vec<String> = (0..3).map(|r| format!("{:.6}", noise(&[person, kind, r, t]))).collect();
                text + &format!("{scan}.nii.gz\t{t}[?]\t{}\n", cells.join("\t"))
            });
            write(folder.join(format!("adhd200/{site}/{name}/{scan}_cc200_TCs.1D")), &rows);
        }
    }
    let table = "ScanDir ID\tSite\tGender\tAge\tDX\n1018959\t3\t0\t12.36\t0\n1050345\t1\t1\t9.5\tpending\n";
    write(folder.join("adhd200_preprocessed_phenotypics.tsv"), table);
    follow("adhd-200.md", folder);
    let cohort = open(&folder.join("adhd-cohort"));
    assert_eq!(ids(&cohort), ["1018959_ses-1_run-1", "1050345_ses-1_run-1"]);
    let scan = cohort.scan(0).unwrap();
    assert_eq!((scan.frames(), scan.tr_seconds, cohort.regions().len()), (40, 2.5, 3));
    assert!((scan.series[0] - noise(&[0, 0, 0, 0])).abs() < 1e-6, "the series before the band-pass are meant");
    assert_eq!((label(&cohort, "1018959", "DX").as_deref(), label(&cohort, "1050345", "DX")), (Some("0"), None));
}

#[test]
fn abide_two() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let root = folder.join("abide2/derivatives/fmriprep");
    write(root.join("dataset_description.json"), DESCRIPTION);
    for (person, name) in ["29006", "28675"].into_iter().enumerate() {
        let scan = format!("sub-{name}_ses-1_task-rest_run-1");
        fmriprep_run(&root.join(format!("sub-{name}/ses-1/func")), &scan, person, [2.0, 3.0][person]);
    }
    let table =
        b"SITE_ID,SUB_ID,DX_GROUP,AGE_AT_SCAN,NOTE\nABIDEII-BNI_1,29006,1,48,caf\xe9\nABIDEII-GU_1,28675,2,10.5,\n";
    fs::write(folder.join("ABIDEII_Composite_Phenotypic.csv"), table).unwrap();
    volume_atlas(folder);
    follow("abide-2.md", folder);
    let cohort = open(&folder.join("abide2-cohort"));
    assert_eq!(ids(&cohort), ["sub-28675_ses-1_task-rest_run-1", "sub-29006_ses-1_task-rest_run-1"]);
    let scan = cohort.scan(0).unwrap();
    assert_eq!((scan.tr_seconds, scan.site.as_deref()), (3.0, Some("ABIDEII-GU_1")));
    assert_eq!(label(&cohort, "sub-29006", "NOTE").as_deref(), Some("café"));
}

#[test]
fn transdiagnostic_connectome_project() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let root = folder.join("tcp/derivatives/fmriprep");
    write(root.join("dataset_description.json"), DESCRIPTION);
    for (person, name) in ["NDARINVAA1", "NDARINVBB2"].into_iter().enumerate() {
        for (k, task) in ["restAP", "restPA", "stroopAP"].into_iter().enumerate() {
            let func = root.join(format!("sub-{name}/func"));
            let scan = format!("sub-{name}_task-{task}_run-01");
            series(&func.join(format!("{scan}_space-fsLR_den-91k_bold.dtseries.nii")), FRAMES, &[person, k]);
            write(func.join(format!("{scan}_desc-confounds_timeseries.tsv")), &confounds(person));
        }
    }
    write(
        folder.join("tcp/participants.tsv"),
        "participant_id\tage\tGroup\nsub-NDARINVAA1\t33\tPatient\nsub-NDARINVBB2\t41\tGenPop\n",
    );
    copy_atlas(&folder.join(format!("{ATLAS}.dlabel.nii")));
    follow("tcp.md", folder);
    let cohort = open(&folder.join("tcp-cohort"));
    assert_eq!(ids(&cohort)[..2], ["sub-NDARINVAA1_task-restAP_run-01", "sub-NDARINVAA1_task-restPA_run-01"]);
    assert_eq!((cohort.len(), cohort.scan(0).unwrap().frames()), (4, FRAMES - 10));
    assert_eq!(label(&cohort, "sub-NDARINVBB2", "Group").as_deref(), Some("GenPop"));
}
