"""What cohorts and models have in common: a folder, and names of regions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, List, Union

from ._errors import DataError

if TYPE_CHECKING:
    from . import _core

PathLike = Union[str, "os.PathLike[str]"]


class Folder:
    """Something at rest that was opened."""

    _inner: "_core.Cohort | _core.Model"

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return Path(self._inner.folder)

    @property
    def regions(self) -> List[str]:
        """Names of its regions, in its order."""
        return self._inner.regions


def path_of(folder: Any) -> str:
    """A path as text."""
    if isinstance(folder, (str, os.PathLike)):
        return os.fspath(folder)
    raise DataError(f"folder: expected a path, found {type(folder).__name__}")


def path_to(what: Any) -> str:
    """The path of a cohort or model, or one that was given."""
    return str(what.folder) if isinstance(what, Folder) else path_of(what)
