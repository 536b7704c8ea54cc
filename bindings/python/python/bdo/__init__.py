"""Brain dynamics from fMRI by stochastic optimal control.

>>> import bdo
>>> cohort = bdo.simulate(folder / "cohort", subjects=24, regions=12, frames=60)
>>> run = bdo.pretrain(cohort, out=folder / "run", set=["train.epochs=1", "model.width=16"])
>>> model = bdo.load(run.folder / "model")
>>> series, tr = cohort.series(0), cohort.tr(0)
>>> model.embed(series, tr=tr, regions=cohort.regions).shape
(1, 16)

Everything else is in docs/python.md. Notes of long work go to ``logging.getLogger("bdo")``, warnings to :mod:`warnings`.
"""

from typing import TYPE_CHECKING, List

from ._core import __version__
from ._errors import CohortError, DataError, Error, FileError, ModelError, UnfamiliarWarning, UsageError

if TYPE_CHECKING:
    from ._cohort import Cohort
    from ._embedding import Embedding
    from ._model import Model, Posterior, load
    from ._verbs import Run, call, compare, demo, ingest, predict, pretrain, probe, simulate

# Found when first asked for: the program starts from here too, and has no use for numpy or scikit-learn.
_HOMES = {
    "Cohort": "_cohort",
    "Embedding": "_embedding",
    "Model": "_model",
    "Posterior": "_model",
    "load": "_model",
    "Run": "_verbs",
    "call": "_verbs",
    "compare": "_verbs",
    "demo": "_verbs",
    "ingest": "_verbs",
    "predict": "_verbs",
    "pretrain": "_verbs",
    "probe": "_verbs",
    "simulate": "_verbs",
}

__all__ = [
    "Cohort",
    "CohortError",
    "DataError",
    "Embedding",
    "Error",
    "FileError",
    "Model",
    "ModelError",
    "Posterior",
    "Run",
    "UnfamiliarWarning",
    "UsageError",
    "__version__",
    "call",
    "compare",
    "demo",
    "ingest",
    "load",
    "predict",
    "pretrain",
    "probe",
    "simulate",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'bdo' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"bdo.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted(__all__)
