"""The notebook of the documentation runs from top to bottom, and everything public has an example, which is run with these tests."""

import inspect
from pathlib import Path

import pytest

import bdo

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "first_steps.ipynb"


def test_the_notebook_runs(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are not kept in the repository"
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    kinds = {kind for output in shown for kind in output.get("data", {})}
    assert {"image/png", "text/html"} <= kinds


def public():
    for name in sorted(set(bdo.__all__) - {"__version__", "Posterior"}):
        thing = getattr(bdo, name)
        if not (inspect.isclass(thing) and issubclass(thing, (Exception, Warning))):
            yield name, thing
    for name in ("embed", "reconstruct", "impute", "forecast"):
        yield f"Model.{name}", getattr(bdo.Model, name)
    yield "Cohort.store", bdo.Cohort.store


@pytest.mark.parametrize("name, thing", list(public()), ids=[name for name, _ in public()])
def test_it_has_an_example(name, thing):
    assert ">>>" in inspect.getdoc(thing), f"{name} has no example"
