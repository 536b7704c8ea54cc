"""A small cohort and a model trained on it for a moment, shared by all tests."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bdo

WIDTH, REGIONS, FRAMES = 16, 12, 60


@pytest.fixture(scope="session")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("bdo")


@pytest.fixture(scope="session")
def cohort(work):
    return bdo.simulate(work / "cohort", subjects=24, regions=REGIONS, frames=FRAMES, sites=2, missing_labels=0)


@pytest.fixture(scope="session")
def run(work, cohort):
    return bdo.pretrain(cohort, out=work / "run", set=["train.epochs=2", f"model.width={WIDTH}"])


@pytest.fixture(scope="session")
def model(run):
    return run.model


PROGRAM = [sys.executable, "-m", "bdo"]
"""The program of the package, as its entry on the path starts it."""


@pytest.fixture(scope="session")
def program():
    """Runs the program, that of cargo where one is given, and returns what it prints, or says where it could not run."""
    given = os.environ.get("BDO_PROGRAM", "")
    start = [given] if os.path.isfile(given) else PROGRAM

    def run(*words, status=0):
        ended = subprocess.run([*start, *map(str, words)], capture_output=True, text=True)
        assert ended.returncode == status, ended.stderr
        return ended.stderr if status else ended.stdout

    return run


@pytest.fixture(autouse=True)
def names_of_examples(request, doctest_namespace):
    """What the examples of docstrings take for granted."""
    if request.node.__class__.__name__ != "DoctestItem":
        return
    made = {name: request.getfixturevalue(name) for name in ("cohort", "model", "tmp_path")}
    doctest_namespace.update(
        Path=Path,
        bdo=bdo,
        cohort=made["cohort"],
        folder=made["tmp_path"],
        model=made["model"],
        np=np,
        model_folder=made["model"].folder,
        names=made["cohort"].regions,
        series=made["cohort"].series(0),
    )
