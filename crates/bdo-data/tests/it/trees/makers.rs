//! Whole trees, named and written as their makers do.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::make::{Image, NAMES, REGIONS, dtseries, noise, ptseries, table, voxel, write};

/// Frames of a run before censoring.
pub(super) const FRAMES: usize = 40;
/// Frames XCP-D has censored.
pub(super) const CENSORED: [usize; 3] = [5, 6, 20];

pub(super) fn kept() -> Vec<usize> {
    (0..FRAMES).filter(|t| !CENSORED.contains(t)).collect()
}

pub(super) fn every() -> Vec<usize> {
    (0..FRAMES).collect()
}

fn describe(root: &Path, name: &str) {
    let description = json!({"Name": "made up", "BIDSVersion": "1.9.0", "DatasetType": "derivative", "GeneratedBy": [{"Name": name}]});
    write(&root.join("dataset_description.json"), description.to_string());
}

/// XCP-D: per run tables of series and coverage, parcellated and dense CIFTI series, outliers and motion; and the runs joined.
pub(super) struct XcpD {
    pub(super) people: usize,
    pub(super) runs: usize,
    /// `--output-type censored`, else interpolated.
    pub(super) censored: bool,
    /// Surfaces (`--file-format cifti`), else volumes.
    pub(super) cifti: bool,
    /// Tables beside the CIFTI files.
    pub(super) tables: bool,
}

impl Default for XcpD {
    fn default() -> Self {
        Self { people: 2, runs: 2, censored: true, cifti: true, tables: true }
    }
}

impl XcpD {
    pub(super) fn frames(&self) -> Vec<usize> {
        if self.censored { kept() } else { every() }
    }

    pub(super) fn write(&self, root: &Path) {
        describe(root, "xcp_d");
        for person in 0..self.people {
            let func = root.join(format!("sub-{:02}/func", person + 1));
            let scan = format!("sub-{:02}_task-rest", person + 1);
            for run in 0..self.runs {
                let named = if self.runs > 1 { format!("{scan}_run-{:02}", run + 1) } else { scan.clone() };
                self.run(&func, &named, 10 * person + run, &self.frames());
            }
            if self.runs > 1 {
                // The joined runs: as long as both, and standardised.
                let both: Vec<usize> = self.frames().into_iter().chain(self.frames()).collect();
                self.series(&func, &scan, 10 * person, &both);
                Self::of_run(&func, &scan, 2);
            }
        }
    }

    fn run(&self, func: &Path, scan: &str, person: usize, frames: &[usize]) {
        self.series(func, scan, person, frames);
        Self::of_run(func, scan, 1);
        let space = self.space();
        let coverage = NAMES.iter().enumerate().fold("Node\tcoverage\n".to_owned(), |s, (i, name)| {
            s + &format!("{name}\t{}\n", if i == 3 { 0.25 } else { 1.0 })
        });
        write(&func.join(format!("{scan}_space-{space}_atlas-Tiny_stat-coverage_bold.tsv")), coverage);
        write(&func.join(format!("{scan}_space-{space}_atlas-Tiny_stat-coverage_bold.json")), "{}");
        let correlations =
            NAMES.iter().fold(format!("Node\t{}\n", NAMES.join("\t")), |s, name| s + &format!("{name}\t1\t1\t1\t1\n"));
        write(&func.join(format!("{scan}_space-{space}_atlas-Tiny_stat-pearsoncorrelation_relmat.tsv")), correlations);
        write(&func.join(format!("{scan}_space-{space}_desc-linc_qc.tsv")), "sub\ttask\tmean_fd\n01\trest\t0.1\n");
        let denoised = if self.cifti { format!("{space}_den-91k") } else { format!("{space}_res-2") };
        for desc in ["denoised", "denoisedSmoothed"] {
            let stem = func.join(format!("{scan}_space-{denoised}_desc-{desc}_bold"));
            let with = |ending: &str| PathBuf::from(format!("{}{ending}", stem.display()));
            if self.cifti {
                dtseries(&with(".dtseries.nii"), person, frames, "0.8", |_, x| x);
            } else {
                Image { tr: 0.8, ..Image::of(frames.len()) }
                    .write(&with(".nii.gz"), |v, t| voxel(person, v, frames[t]));
            }
            let sidecar = json!({"RepetitionTime": 0.8, "SoftwareFilters": null, "TaskName": "rest"});
            write(&with(".json"), if desc == "denoised" { sidecar.to_string() } else { "{}".into() });
        }
    }

    fn space(&self) -> &'static str {
        if self.cifti { "fsLR" } else { "MNI152NLin6Asym" }
    }

    fn series(&self, func: &Path, scan: &str, person: usize, frames: &[usize]) {
        let space = self.space();
        if self.tables {
            let stem = format!("{scan}_space-{space}_atlas-Tiny_stat-mean_timeseries");
            write(&func.join(format!("{stem}.tsv")), table(&NAMES, "\t", person, frames));
            write(&func.join(format!("{stem}.json")), r#"{"SamplingFrequency": "TR"}"#);
        }
        if self.cifti {
            let stem = format!("{scan}_space-{space}_atlas-Tiny_den-91k_stat-mean_timeseries");
            ptseries(&func.join(format!("{stem}.ptseries.nii")), person, frames, "0.8");
            write(&func.join(format!("{stem}.json")), "{}");
        }
    }

    /// Tables of every frame of a run, or of runs after each other.
    fn of_run(func: &Path, scan: &str, times: usize) {
        let flag = |t: usize| u8::from(CENSORED.contains(&t)).to_string();
        let rows =
            |row: &dyn Fn(usize) -> String| (0..times * FRAMES).map(|t| row(t % FRAMES) + "\n").collect::<String>();
        write(&func.join(format!("{scan}_outliers.tsv")), format!("framewise_displacement\n{}", rows(&flag)));
        write(&func.join(format!("{scan}_outliers.json")), r#"{"Threshold": 0.3}"#);
        let motion = rows(&|t| format!("{}\t0.1", t as f32 / 64.0));
        write(&func.join(format!("{scan}_motion.tsv")), format!("framewise_displacement\trmsd\n{motion}"));
    }
}

/// `giga_connectome`: numbered columns, one JSON for all atlases of a scan.
pub(super) fn giga_connectome(root: &Path, people: usize, dropped: usize) {
    describe(root, "giga_connectome");
    for person in 0..people {
        let func = root.join(format!("sub-{:02}/ses-a/func", person + 1));
        let scan = format!("sub-{:02}_ses-a_task-rest_run-1", person + 1);
        let sidecar = json!({
            "ConfoundRegressors": ["csf"], "ICAAROMANoiseComponents": [], "NumberOfVolumesDiscardedByMotionScrubbing": 0,
            "NumberOfVolumesDiscardedByNonsteadyStatesDetector": dropped, "MeanFramewiseDisplacement": 0.1, "SamplingFrequency": 0.5,
        });
        // As Python writes it.
        let sidecar = sidecar.to_string().replace("0.1", "NaN");
        write(&func.join(format!("{scan}_desc-denoiseSimple_timeseries.json")), sidecar);
        let numbers: Vec<String> = (0..REGIONS).map(|i| i.to_string()).collect();
        let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
        let stem = format!("{scan}_seg-Schaefer20184");
        write(&func.join(format!("{stem}_desc-denoiseSimple_timeseries.tsv")), table(&numbers, "\t", person, &every()));
        let relmat = format!("{stem}_meas-PearsonCorrelation_desc-denoiseSimple_relmat.tsv");
        write(&func.join(relmat), "0\t1\n1.0\t0.5\n0.5\t1.0\n");
    }
}

/// fMRIPrep: images in two spaces with masks and references, confounds, sidecars.
pub(super) fn fmriprep(root: &Path, people: usize) {
    describe(root, "fMRIPrep");
    for person in 0..people {
        let label = format!("{:02}", person + 1);
        let func = root.join(format!("sub-{label}/func"));
        for space in ["MNI152NLin6Asym", "T1w"] {
            let scan = format!("sub-{label}_task-rest_space-{space}");
            Image::of(FRAMES).write(&func.join(format!("{scan}_desc-preproc_bold.nii")), |v, t| voxel(person, v, t));
            write(
                &func.join(format!("{scan}_desc-preproc_bold.json")),
                r#"{"RepetitionTime": 2.0, "SkullStripped": false}"#,
            );
            Image { frames: 1, tr: 0.0, unit: 0 }.write(&func.join(format!("{scan}_desc-brain_mask.nii")), |_, _| 1.0);
            Image { frames: 1, tr: 0.0, unit: 0 }.write(&func.join(format!("{scan}_boldref.nii")), |_, _| 1.0);
        }
        let confounds = confounds(person, FRAMES, 6);
        write(&func.join(format!("sub-{label}_task-rest_desc-confounds_timeseries.tsv")), confounds);
        write(&func.join(format!("sub-{label}_task-rest_desc-confounds_timeseries.json")), "{}");
        Image { frames: 1, tr: 0.0, unit: 0 }.write(
            &root.join(format!("sub-{label}/anat/sub-{label}_space-MNI152NLin6Asym_desc-brain_mask.nii")),
            |_, _| 1.0,
        );
    }
}

/// A table of what the preset `simple` needs, with as many cosines as wanted.
pub(super) fn confounds(person: usize, frames: usize, cosines: usize) -> String {
    let mut names: Vec<String> = vec![];
    for basic in ["trans_x", "trans_y", "trans_z", "rot_x", "rot_y", "rot_z"] {
        names.extend(["", "_derivative1", "_power2", "_derivative1_power2"].map(|s| format!("{basic}{s}")));
    }
    names.extend(["csf", "white_matter", "framewise_displacement", "std_dvars"].map(str::to_owned));
    names.extend((0..cosines).map(|i| format!("cosine{i:02}")));
    let mut text = names.join("\t") + "\n";
    for t in 0..frames {
        let cell = |c: usize, name: &String| match name.as_str() {
            n if t == 0 && n.contains("derivative1") => "n/a".to_owned(),
            "framewise_displacement" | "std_dvars" if t == 0 => "n/a".to_owned(),
            "framewise_displacement" => format!("{:.4}", 0.2 * noise(&[person, t])),
            "std_dvars" => "1.0".to_owned(),
            _ => format!("{:.6}", noise(&[person, c, t, 7])),
        };
        text += &names.iter().enumerate().map(|(c, n)| cell(c, n)).collect::<Vec<_>>().join("\t");
        text.push('\n');
    }
    text
}

/// The Human Connectome Project: every stage of cleaning beside each other, and the runs joined.
pub(super) fn connectome_project(root: &Path, people: &[&str]) {
    for (person, name) in people.iter().enumerate() {
        let results = root.join(name).join("MNINonLinear/Results");
        for (run, folder) in ["rfMRI_REST1_LR", "rfMRI_REST1_RL"].iter().enumerate() {
            // Each stage holds other numbers, so that a test can tell which was taken.
            for (stage, ending) in
                ["_Atlas", "_Atlas_MSMAll", "_Atlas_MSMAll_hp2000_clean", "_Atlas_hp2000_clean"].iter().enumerate()
            {
                let path = results.join(folder).join(format!("{folder}{ending}.dtseries.nii"));
                dtseries(&path, 100 * person + 10 * run + stage, &every(), "0.72", |_, x| x);
            }
            write(&results.join(folder).join("Movement_RelativeRMS.txt"), "0.1\n0.2\n");
        }
        let joined = results.join("rfMRI_REST/rfMRI_REST_Atlas_MSMAll_hp0_clean.dtseries.nii");
        let both: Vec<usize> = every().into_iter().chain(every()).collect();
        dtseries(&joined, 100 * person + 50, &both, "0.72", |_, x| x);
    }
}
