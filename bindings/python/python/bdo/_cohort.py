"""Cohorts at rest."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from . import _core
from ._errors import DataError
from ._folder import Folder, PathLike, path_of
from ._frames import frame, frame_of_rows
from ._series import DoubleArray, FloatArray, scans_of


class Cohort(Folder):
    """A cohort folder: scans, regions and people. Scans stay on the disk until they are asked for.

    >>> cohort = bdo.simulate(folder / "c", subjects=4, regions=12, frames=60)
    >>> len(cohort), len(cohort.regions), cohort.series(0).shape
    (4, 12, (60, 12))
    """

    _inner: _core.Cohort

    def __init__(self, folder: PathLike) -> None:
        self._inner = _core.Cohort(path_of(folder))

    @classmethod
    def store(
        cls,
        folder: PathLike,
        series: Any,
        *,
        tr: Any,
        regions: Optional[Sequence[str]] = None,
        frame_times: Any = None,
        subjects: Optional[Sequence[str]] = None,
        sites: Optional[Sequence[Any]] = None,
        labels: Any = None,
        atlas: str = "given",
    ) -> "Cohort":
        """Stores arrays or data frames as a new cohort; ``labels`` maps names of columns to one value per scan.

        >>> bdo.Cohort.store(folder / "s", [series, -series], tr=2.0, regions=names, labels={"age": [30, 41]}).names
        ['sub-0000', 'sub-0001']
        """
        scans = scans_of(series, tr, regions, frame_times, None, subjects, sites, naming="sub-{:04d}")
        columns = _columns(labels, len(scans.given))
        if sites is not None:
            columns.setdefault("site", [scan.site for scan in scans.given])
        people: Dict[str, List[Optional[str]]] = {}
        for i, scan in enumerate(scans.given):
            row = [_text(values[i]) for values in columns.values()]
            if people.setdefault(scan.subject, row) != row:
                raise DataError(f"labels: expected the same for all scans of {scan.subject}, found others")
        all_of, seen = Counter(scan.subject for scan in scans.given), Counter[str]()
        given = []
        for scan in scans.given:
            seen[scan.subject] += 1
            several = all_of[scan.subject] > 1
            given.append(scan._replace(session=str(seen[scan.subject]) if several else None))
        _core.store(path_of(folder), given, scans.regions, atlas, list(columns), list(people.items()))
        return cls(folder)

    @property
    def names(self) -> List[str]:
        """Names of the scans, in their order."""
        return self._inner.names()

    def __len__(self) -> int:
        return len(self._inner)

    def series(self, scan: int) -> FloatArray:
        """Frames x regions of one scan."""
        return self._inner.scan(_number(scan, len(self)))[0]

    def frame_times(self, scan: int) -> DoubleArray:
        """True times of the frames of one scan in seconds."""
        return self._inner.scan(_number(scan, len(self)))[1]

    def tr(self, scan: int) -> float:
        """Repetition time of one scan in seconds."""
        return self._inner.scan(_number(scan, len(self)))[2]

    def __iter__(self) -> Iterator[FloatArray]:
        return (self.series(i) for i in range(len(self)))

    def index(self, library: Optional[str] = None) -> Any:
        """One row per scan, as a data frame: person, session, repetition time, frames and what else is known."""
        return frame_of_rows(json.loads(self._inner.index()), library)

    def participants(self, library: Optional[str] = None) -> Any:
        """One row per person with all labels, as a data frame; numbers where a column holds nothing else."""
        names, people = self._inner.participants()
        columns: Dict[str, List[Any]] = {"participant_id": [person for person, _ in people]}
        for i, name in enumerate(names):
            columns[name] = _numbers([labels[i] for _, labels in people])
        return frame(columns, library)

    def verify(self) -> List[str]:
        """What is wrong with its bytes; nothing where every byte agrees with its checksum."""
        return self._inner.verify()

    def __repr__(self) -> str:
        return f"bdo.Cohort({str(self.folder)!r}): {len(self)} scans, {len(self.regions)} regions"

    def __reduce__(self) -> Tuple[Any, ...]:
        return Cohort, (str(self.folder.absolute()),)


def _number(scan: Any, scans: int) -> int:
    try:
        number = int(scan)
    except (TypeError, ValueError):
        raise DataError(f"scan: expected a number, found {scan!r}") from None
    if not -scans <= number < scans:
        raise IndexError(f"scan: expected a number below {scans}, found {number}")
    return number % scans


def _columns(labels: Any, scans: int) -> Dict[str, List[Any]]:
    """Labels as name of a column -> one value per scan."""
    if labels is None:
        return {}
    if hasattr(labels, "columns"):
        labels = {name: labels[name] for name in labels.columns}
    elif not isinstance(labels, dict):
        labels = {getattr(labels, "name", None) or "label": labels}
    columns = {str(name): list(values) for name, values in labels.items()}
    for name, values in columns.items():
        if len(values) != scans:
            raise DataError(f"labels: expected {scans} values of {name}, one per scan, found {len(values)}")
    return columns


def _text(value: Any) -> Optional[str]:
    """A label as a table holds it; None where it is missing."""
    if value is None or value != value:
        return None
    return str(value.item() if isinstance(value, np.generic) else value)


def _numbers(values: List[Optional[str]]) -> List[Any]:
    try:
        return [float("nan") if value is None else float(value) for value in values]
    except ValueError:
        return values
