"""Fill fuzz/corpus with small seeds taken from the generated goldens.

usage: python make_fuzz_seeds.py GOLDEN_IMAGE_DIR FUZZ_DIR
"""

import gzip
import json
import pathlib
import shutil
import sys


def main(golden, fuzz):
    golden, corpus = pathlib.Path(golden), pathlib.Path(fuzz) / "corpus"
    for target in ["nifti", "cifti_xml", "tables", "npy", "mat", "confounds", "bids_names"]:
        (corpus / target).mkdir(parents=True, exist_ok=True)
    for path in sorted(golden.glob("*.nii*")):
        if path.stat().st_size < 4000:
            shutil.copyfile(path, corpus / "nifti" / path.name)
        if ".d" in path.name or ".p" in path.name:
            raw = path.read_bytes()
            end = raw.index(b"</CIFTI>") + len(b"</CIFTI>")
            (corpus / "cifti_xml" / f"{path.name}.xml").write_bytes(raw[raw.index(b"<CIFTI") : end])
    shutil.copyfile(golden / "series.npy", corpus / "npy" / "series.npy")
    for name in ["series_v6.mat", "series_v7.mat", "series_v73.mat", "series.h5", "series_latest.h5", "two_matrices.h5"]:
        shutil.copyfile(golden / name, corpus / "mat" / name)
    seeds = {
        "tsv": b"\x00a\tb\n1\t2\nn/a\t4\n",
        "csv": b"\x01x,y\n1,2.5e3\n-3,nan\n",
        "afni": b"\x02#1\t#2\n0.5\t-1\n2e1\t3\n",
        "npz": b"\x03" + (golden / "series_deflated.npz").read_bytes(),
        "gzip": b"\x04" + gzip.compress(b"a\tb\n1\t2\n", mtime=0),
        "rows": b"\x00label_name\t0\t1\nleft\t1\t2\nright\t3\t4\n",
        "people": b"\x05participant_id\tage\tsex\nsub-01\t30\tF\nsub-02\tn/a\tM\n",
        "labels": b"\x061 Left-Thalamus 255 0 0 0\n2 Right-Thalamus 0 255 0 0\n",
        "names": b"\x06index\tname\n1\ta\n2\tb\n",
    }
    for name, seed in seeds.items():
        (corpus / "tables" / name).write_bytes(seed)
    generated = json.loads((golden.parent / "confounds.json").read_text())
    rows = generated["table"].splitlines(keepends=True)[:9]
    (corpus / "confounds" / "fmriprep").write_bytes("".join(rows).encode() + b"\0" + generated["json"].encode())
    (corpus / "confounds" / "small").write_bytes(b"csf\tcosine00\tstd_dvars\n1\t2\tn/a\n2\t1\t1.1\n4\t3\t1.9\n\0{}")
    (corpus / "bids_names" / "fmriprep").write_text(
        "sub-01/func/sub-01_task-rest_space-T1w_desc-preproc_bold.nii.gz\n"
        "sub-01/func/sub-01_task-rest_space-MNI152NLin6Asym_res-2_desc-preproc_bold.nii.gz\n"
        "sub-01/func/sub-01_task-rest_space-MNI152NLin6Asym_res-2_desc-brain_mask.nii.gz\n"
        "sub-01/func/sub-01_task-rest_desc-confounds_timeseries.tsv\ntask-rest_bold.json\nMNI152NLin6Asym:res-2\n"
    )
    (corpus / "bids_names" / "xcp_d").write_text(
        "sub-02/ses-1/func/sub-02_ses-1_task-rest_run-01_space-MNI_seg-4S156Parcels_stat-mean_timeseries.tsv\n"
        "sub-02/ses-1/func/sub-02_ses-1_task-rest_run-01_space-MNI_seg-4S156Parcels_stat-coverage_bold.tsv\n"
        "sub-02/ses-1/func/sub-02_ses-1_task-rest_run-01_outliers.tsv\n"
        "sub-02/ses-1/func/sub-02_ses-1_task-rest_run-01_motion.tsv\n"
        "sub-02/ses-1/func/sub-02_ses-1_task-rest_run-01_space-fsLR_den-91k_desc-denoised_bold.dtseries.nii\n"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
