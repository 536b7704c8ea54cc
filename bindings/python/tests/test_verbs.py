"""Verbs that make folders, and the program of the package."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bdo
from shared_fixtures import PROGRAM


def test_cohort(cohort):
    people = cohort.participants()
    assert len(cohort) == len(people) == 24 and people["age"].dtype == float
    assert list(cohort.index()["frames"]) == [60] * 24
    assert isinstance(cohort.participants("polars"), pl.DataFrame)
    assert cohort.verify() == [] and cohort.names[0] == "sub-0001"
    with pytest.raises(IndexError):
        cohort.series(24)
    assert np.array_equal(cohort.series(-1), cohort.series(23))


def test_arrays_become_a_cohort_and_come_back(cohort, model, tmp_path):
    series, sites = list(cohort), ["a", "b"] * 12
    labels = pd.DataFrame({"age": np.arange(24.0), "group": ["x", None] * 12})
    stored = bdo.Cohort.store(
        tmp_path / "c", series, tr=cohort.tr(0), regions=cohort.regions, labels=labels, sites=sites
    )
    assert all(np.array_equal(a, b) for a, b in zip(stored, series))
    assert list(stored.participants()["age"]) == list(range(24)) and stored.verify() == []
    assert np.array_equal(model.embed(stored), model.embed(series, tr=cohort.tr(0), regions=cohort.regions))
    with pytest.raises(bdo.CohortError, match="would be overwritten"):
        bdo.Cohort.store(tmp_path / "c", series, tr=2.0, regions=cohort.regions)
    twice = bdo.Cohort.store(tmp_path / "d", series[:3], tr=2.0, regions=cohort.regions, subjects=["a", "a", "b"])
    assert twice.names == ["a_ses-1", "a_ses-2", "b"]


def test_ingest(tmp_path, caplog):
    rng = np.random.default_rng(0)
    (tmp_path / "in").mkdir()
    for name in ("sub-1", "sub-2"):
        pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"]).to_csv(
            tmp_path / "in" / f"{name}.tsv", sep="\t", index=False
        )
    (tmp_path / "in" / "sub-3.tsv").write_text("a\tb\tc\n1\t2\n")
    with caplog.at_level(logging.INFO, logger="bdo"):
        found = bdo.ingest(tmp_path / "in", tmp_path / "out", tr=2.0)
    assert len(found) == 2 and found.regions == ["a", "b", "c"]
    assert any("rejected: sub-3.tsv" in line for line in caplog.messages)


def test_run(run):
    steps = run.journal()
    assert list(steps["step"]) == list(range(len(steps))) and "loss.total" in steps.columns
    assert isinstance(run.journal("validation", "polars"), pl.DataFrame)
    assert run.page.is_file() and run.answer["steps"] == len(steps)


def test_compare(cohort, model, tmp_path):
    sex = cohort.participants()["sex"]
    table = bdo.compare(
        list(cohort), sex, groups=["a", "b"] * 12, methods=["bdo-mean", "fc", "fc-tangent"], model=model, tr=cohort.tr(0),
        regions=cohort.regions, out=tmp_path / "cmp", seeds=[0], bootstraps=20, permutations=20,
    )
    assert {"bdo-mean", "fc", "fc-tangent", "site"} <= set(table["method"]) and set(table["target"]) == {"sex"}
    assert table["auc"].between(0, 1).all() and Path(table.attrs["page"]).is_file()
    same = bdo.compare(cohort, "sex", methods=["fc"], out=tmp_path / "again", seeds=0, bootstraps=20, permutations=20)
    assert "fc" in set(same["method"])


def test_progress_is_shown_where_asked_for(cohort, model, capsys):
    pytest.importorskip("tqdm")
    model.embed(cohort, progress=True)
    assert "embed" in capsys.readouterr().err
    model.embed(cohort, progress=False)
    assert capsys.readouterr().err == ""


def own(*words, **options):
    return subprocess.run([*PROGRAM, *words], capture_output=True, text=True, **options)


def test_the_program(cohort, tmp_path):
    assert own("--version").stdout == f"bdo {bdo.__version__}\n"
    asked = own("inspect", str(cohort.folder), "--json")
    assert asked.returncode == 0 and '"scans":24' in asked.stdout
    refused = own("inspect", str(tmp_path / "none"))
    assert refused.returncode == 2 and refused.stderr.startswith("error: ") and refused.stdout == ""
    assert own("no-such-verb").returncode == 2


def test_ctrl_c_ends_the_program(tmp_path):
    words = ["simulate", str(tmp_path / "big"), "--subjects", "5000", "--frames", "400"]
    program = subprocess.Popen([*PROGRAM, *words], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("big.partial-*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=120)
    assert program.returncode == 2 and "interrupted after" in said


def test_the_program_starts_without_numpy():
    code = "import sys, bdo._program; print('numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
    assert found.stdout == "False\n", found.stderr
