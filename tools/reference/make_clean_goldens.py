"""Goldens of confound loading and cleaning, by nilearn 0.14.1.

    python tools/reference/make_clean_goldens.py [FOLDER WITH REAL CONFOUND TABLES]

Writes testdata/golden/confounds.json (a generated fMRIPrep table and what nilearn makes of it) and testdata/golden/clean.json
(a generated series, and the same after nilearn.signal.clean). With the folder of real tables it also writes
testdata/golden/confounds_real.json, which holds names, kept frames and sums, not the tables.

nilearn 0.14.1 bridges a censored frame c before the band-pass only if frame n-1-c is kept (it indexes with `~sample_mask`, a
bitwise not of numbers); the masks below are chosen so that this holds for every censored frame, where it does what it documents.
"""

import json
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from nilearn.interfaces.fmriprep import load_confounds, load_confounds_strategy
from nilearn.signal import clean

warnings.filterwarnings("ignore")
HERE = Path(__file__).resolve().parents[2] / "testdata" / "golden"
MOTION = ["trans_x", "trans_y", "trans_z", "rot_x", "rot_y", "rot_z"]

STRATEGIES = {
    "motion_basic": dict(strategy=("motion",), motion="basic"),
    "motion_power2": dict(strategy=("motion",), motion="power2"),
    "motion_derivatives_raw": dict(strategy=("motion",), motion="derivatives", demean=False),
    "wm_csf_derivatives_global_full": dict(
        strategy=("wm_csf", "global_signal"), wm_csf="derivatives", global_signal="full"
    ),
    "anat_separated_two": dict(strategy=("high_pass", "compcor"), compcor="anat_separated", n_compcor=2),
    "temporal": dict(strategy=("high_pass", "compcor"), compcor="temporal", n_compcor="all"),
    "temporal_anat_combined_three": dict(strategy=("high_pass", "compcor"), compcor="temporal_anat_combined", n_compcor=3),
    "aroma_basic": dict(strategy=("ica_aroma", "high_pass"), ica_aroma="basic"),
    "scrub_without_segments": dict(
        strategy=("scrub", "global_signal"), scrub=0, fd_threshold=0.3, std_dvars_threshold=2.0, global_signal="basic"
    ),
}
PRESETS = ["simple", "scrubbing", "compcor"]
# What nilearn has no preset for, or a preset with something added.
SPELLED_OUT = {
    "36p": dict(
        strategy=("motion", "wm_csf", "global_signal"), motion="full", wm_csf="full", global_signal="full"
    ),
    "compcor_two": dict(
        strategy=("high_pass", "motion", "compcor"), motion="full", compcor="anat_combined", n_compcor=2
    ),
    "simple_with_global_signal": dict(
        strategy=("high_pass", "motion", "wm_csf", "global_signal"), motion="full", wm_csf="basic", global_signal="basic"
    ),
    "own_columns": dict(
        strategy=("high_pass", "motion", "wm_csf", "global_signal"), motion="full", wm_csf="full", global_signal="full"
    ),
}
OWN_COLUMNS = ["cosine00", "cosine01", "cosine02", "csf_power2", "global_signal_derivative1", "rot_y"]


def table(rng, frames):
    """A table with every family of columns, the quirks of real ones included."""
    columns = {}

    def family(name, scale):
        x = np.cumsum(rng.normal(size=frames)) * scale
        d = np.concatenate([[np.nan], np.diff(x)])
        columns.update({name: x, f"{name}_derivative1": d, f"{name}_power2": x**2, f"{name}_derivative1_power2": d**2})

    for name in MOTION:
        family(name, 0.02 if name.startswith("trans") else 0.0005)
    family("csf", 8.0)
    family("white_matter", 5.0)
    family("global_signal", 6.0)
    fd = np.abs(rng.normal(size=frames)) * 0.2
    fd[[9, 14, 40]] = [0.9, 0.7, 1.4]
    dvars = 1 + 0.2 * rng.normal(size=frames)
    dvars[[10, 30]] = [2.5, 1.7]
    fd[0] = dvars[0] = np.nan
    columns["framewise_displacement"], columns["std_dvars"] = fd, dvars
    for k in range(3):
        columns[f"cosine{k:02}"] = np.cos(np.pi * (k + 1) * (np.arange(frames) + 0.5) / frames)
    meta = {}
    masks = ["combined", "combined", "combined", "CSF", "CSF", "CSF", "WM", "WM", "WM"]
    kinds = [("a", m) for m in masks] + [("t", None)] * 4 + [("w", "WM")] * 2 + [("c", "CSF")] * 2
    counts = {}
    for prefix, mask in kinds:
        number = counts.get(prefix, 0)
        counts[prefix] = number + 1
        name = f"{prefix}_comp_cor_{number:02}"
        columns[name] = rng.normal(size=frames)
        meta[name] = {"Method": "tCompCor" if mask is None else "aCompCor", "Retained": True}
        if mask is not None:
            meta[name]["Mask"] = mask
    columns["aroma_motion_01"], columns["aroma_motion_04"] = rng.normal(size=(2, frames))
    for k in range(2):
        columns[f"non_steady_state_outlier{k:02}"] = np.eye(frames)[k].astype(int)
    columns["motion_outlier00"] = np.eye(frames)[9].astype(int)
    return pd.DataFrame(columns), meta


def loaded(folder, stem, load, **kwargs):
    image = str(folder / f"{stem}_desc-preproc_bold.nii.gz")
    confounds, kept = load(image, **kwargs)
    names = list(confounds.columns)
    values = confounds.to_numpy(dtype=float)
    return names, values, None if kept is None else [int(k) for k in kept]


def rounded(values, digits=12):
    return [None if not np.isfinite(v) else float(f"{v:.{digits}g}") for v in np.asarray(values, float).ravel()]


def confound_goldens(rng):
    frame, meta = table(rng, 60)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        tsv = folder / "sub-a_desc-confounds_timeseries.tsv"
        frame.to_csv(tsv, sep="\t", index=False, na_rep="n/a", float_format="%.6g")
        tsv.with_suffix(".json").write_text(json.dumps(meta))
        out = {"table": tsv.read_text(), "json": json.dumps(meta), "cases": {}}
        cases = {name: (load_confounds, kwargs) for name, kwargs in STRATEGIES.items()}
        cases |= {name: (load_confounds_strategy, dict(denoise_strategy=name)) for name in PRESETS}
        cases |= {name: (load_confounds, kwargs) for name, kwargs in SPELLED_OUT.items()}
        for name, (load, kwargs) in cases.items():
            names, values, kept = loaded(folder, "sub-a", load, **kwargs)
            if name == "own_columns":
                values = values[:, [names.index(column) for column in OWN_COLUMNS]]
                names = OWN_COLUMNS
            out["cases"][name] = {"names": names, "kept": kept, "values": rounded(values)}
    (HERE / "confounds.json").write_text(json.dumps(out))
    return out


def real_goldens(source):
    out = {}
    for tsv in sorted(source.glob("*confounds*.tsv")):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            shutil.copy(tsv, folder / "sub-a_desc-confounds_timeseries.tsv")
            sidecar = tsv.with_suffix(".json")
            if sidecar.exists():
                shutil.copy(sidecar, folder / "sub-a_desc-confounds_timeseries.json")
            cases = {}
            for preset in PRESETS:
                try:
                    names, values, kept = loaded(folder, "sub-a", load_confounds_strategy, denoise_strategy=preset)
                except ValueError as error:
                    cases[preset] = {"error": str(error)[:60]}
                    continue
                cases[preset] = {
                    "names": names,
                    "kept": kept,
                    "last_row": rounded(values[-1]),
                    "sums_of_squares": rounded((values**2).sum(axis=0)),
                }
        out[tsv.name] = cases
    (HERE / "confounds_real.json").write_text(json.dumps(out, indent=1))


def clean_goldens(rng, generated):
    frames, regions, confounds = 120, 4, 5
    t = np.arange(frames)[:, None]
    series = 1000 + 0.3 * t + 10 * np.sin(2 * np.pi * t * rng.uniform(0.005, 0.3, regions))
    series = (series + rng.normal(size=(frames, regions)) * 4).astype(np.float32)
    # Few binary digits, so that the last confound is no new direction to the last bit: the rank must be found.
    nuisance = np.round(np.cumsum(rng.normal(size=(frames, confounds)), axis=0) * 1024) / 1024
    nuisance[:, 4] = nuisance[:, 0] - 2 * nuisance[:, 1]
    kept = [k for k in range(frames) if k not in (0, 1, 7, 8, 33, 60, 61, 62, 100, 117)]
    assert all(frames - 1 - c in kept for c in range(frames) if c not in kept)
    cases = {
        "detrend": dict(detrend=True),
        "confounds": dict(detrend=False, confounds=nuisance),
        "detrend_confounds": dict(detrend=True, confounds=nuisance),
        "censored": dict(detrend=True, confounds=nuisance, sample_mask=kept),
        "band": dict(detrend=True, low_pass=0.1, high_pass=0.01),
        "narrow_band_fast": dict(detrend=True, low_pass=0.09, high_pass=0.06, t_r=0.72),
        "low": dict(detrend=False, low_pass=0.1),
        "low_above_nyquist": dict(detrend=True, low_pass=0.3),
        "high": dict(detrend=True, high_pass=0.02),
        # Without the dependent confound: after filtering, nilearn takes what rounding leaves of it for a direction.
        "band_confounds_censored": dict(
            detrend=True, confounds=nuisance[:, :4], sample_mask=kept, low_pass=0.1, high_pass=0.01
        ),
    }
    out = {"series": rounded(series, 9), "regions": regions, "confounds": rounded(nuisance, 17), "kept": kept, "cases": {}}
    for name, kwargs in cases.items():
        kwargs = dict(t_r=2.0, standardize=None) | kwargs
        if "sample_mask" in kwargs:
            kwargs["sample_mask"] = np.array(kwargs["sample_mask"])
        values = clean(series.astype(float), **kwargs)
        settings = {k: kwargs.get(k) for k in ("detrend", "low_pass", "high_pass", "t_r")}
        settings |= {"confounds": kwargs["confounds"].shape[1] if "confounds" in kwargs else 0, "censored": "sample_mask" in kwargs}
        out["cases"][name] = settings | {"values": rounded(values, 10)}
    # The whole path: a preset's confounds of a generated run without its first volumes.
    run = series[:60].astype(float)
    for name in [*PRESETS, "36p"]:
        case = generated["cases"][name]
        values = np.array(case["values"]).reshape(60, -1)
        kept = None if case["kept"] is None else np.array([k - 4 for k in case["kept"] if k >= 4])
        cleaned = clean(run[4:], detrend=True, standardize=None, confounds=values[4:], sample_mask=kept, t_r=2.0)
        out["cases"][f"preset_{name}"] = {"preset": name, "values": rounded(cleaned, 10)}
    (HERE / "clean.json").write_text(json.dumps(out))


if __name__ == "__main__":
    HERE.mkdir(parents=True, exist_ok=True)
    generated = confound_goldens(np.random.default_rng(7))
    clean_goldens(np.random.default_rng(8), generated)
    if len(sys.argv) > 1:
        real_goldens(Path(sys.argv[1]))
