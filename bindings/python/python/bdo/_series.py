"""What people hand over as series, as the arrays the core takes."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._errors import DataError

FloatArray = NDArray[np.float32]
DoubleArray = NDArray[np.float64]


class Given(NamedTuple):
    """One scan, ready for the core."""

    subject: str
    session: Optional[str]
    site: Optional[str]
    values: FloatArray
    tr: float
    times: DoubleArray


class Scans(NamedTuple):
    """All scans of a call, with the names of their columns."""

    given: List[Given]
    regions: List[str]


def scans_of(
    series: Any,
    tr: Any,
    regions: Optional[Sequence[str]],
    frame_times: Any,
    known_regions: Optional[Sequence[str]] = None,
    subjects: Optional[Sequence[str]] = None,
    sites: Optional[Sequence[Any]] = None,
    naming: str = "{}",
) -> Scans:
    """Brings one array, several, or data frames into one form. ``known_regions`` are taken where no names are given, and people
    without a name are numbered.
    """
    parts = _parts(series)
    if not parts:
        raise DataError("series: expected at least one scan, found none")
    tables = [_table(part) for part in parts]
    names = _names(tables, regions, known_regions)
    times = _per_scan(frame_times, len(parts), "frame_times", _is_one_time_axis)
    trs = _per_scan(tr, len(parts), "tr", np.isscalar)
    people = [naming.format(i) for i in range(len(parts))] if subjects is None else subjects
    labels = [str(label) for label in _listed(people, len(parts), "subjects")]
    places = [None] * len(parts) if sites is None else _listed(sites, len(parts), "groups")
    given = []
    for i, (own, values) in enumerate(tables):
        scan = labels[i]
        if own is not None and own != names and regions is None:
            values = _in_order(values, own, names, scan)
        if values.shape[1] != len(names):
            raise DataError(f"scan {scan}: regions: expected {values.shape[1]} names, one per column, found {len(names)}")
        step = _seconds(trs[i], scan)
        given.append(Given(labels[i], None, places[i], values, step, _times(times[i], values.shape[0], step, scan)))
    return Scans(given, names)


def _parts(series: Any) -> List[Any]:
    """The scans of an argument: one, or a sequence of them."""
    if isinstance(series, np.ndarray):
        return list(series) if series.ndim == 3 or (series.ndim == 1 and series.dtype == object) else [series]
    if isinstance(series, (list, tuple)):
        return list(series) if all(_is_one(part) for part in series) else _parts(_array(series, "series"))
    return [series]


def _is_one(part: Any) -> bool:
    return _is_arrow(part) or hasattr(part, "iloc") or getattr(part, "ndim", None) == 2


def _is_arrow(part: Any) -> bool:
    """Tables of pyarrow, polars and others; pandas has the interface too, but copies."""
    has_interface = hasattr(part, "__arrow_c_stream__") or hasattr(part, "__arrow_c_array__")
    return has_interface and not hasattr(part, "iloc")


def _table(part: Any) -> Tuple[Optional[List[str]], FloatArray]:
    """Names of the columns, where they have any, and the values as frames x regions in C order: what is so already is not copied."""
    if _is_arrow(part):
        return _core.from_arrow(part)
    names = None
    if hasattr(part, "iloc") and hasattr(part, "columns"):
        # Numbers that pandas gives to columns without a name say nothing.
        names = list(part.columns) if all(isinstance(name, str) for name in part.columns) else None
        part = part.to_numpy()
    values = _array(part, "series")
    if values.ndim != 2:
        raise DataError(f"series: expected frames x regions, found an array of {values.ndim} dimensions")
    with np.errstate(over="ignore", invalid="ignore"):
        return names, np.ascontiguousarray(values, dtype=np.float32)


def _array(values: Any, what: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
        if array.dtype == object:
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what}: expected an array of numbers, found {type(values).__name__} ({error})") from None
    if array.dtype.kind not in "fiub":
        raise DataError(f"{what}: expected real numbers, found {array.dtype}")
    return array


def _names(
    tables: List[Tuple[Optional[List[str]], FloatArray]], regions: Any, known: Optional[Sequence[str]]
) -> List[str]:
    """Names of the columns: those given, those of the first table, or those that are known."""
    if regions is not None:
        if isinstance(regions, (str, bytes)) or not hasattr(regions, "__iter__") or getattr(regions, "ndim", 1) != 1:
            raise DataError(f"regions: expected a list of names, found {type(regions).__name__}")
        return [str(name) for name in regions]
    first, values = tables[0]
    if first is not None:
        return first
    if known is not None:
        return list(known)
    raise DataError(
        f"regions: expected the names of {values.shape[1]} columns, found none; hint: regions=[...], a data frame, "
        "or bdo.load(..., same_atlas=True) where the columns are the model's regions in its order"
    )


def _in_order(values: FloatArray, own: List[str], names: List[str], scan: str) -> FloatArray:
    """Columns of a table in the order of the first one's."""
    if len(set(own)) != len(own) or set(own) != set(names):
        raise DataError(f"scan {scan}: regions: expected the columns of the first scan, found others")
    return np.ascontiguousarray(values[:, [own.index(name) for name in names]])


def _is_one_time_axis(times: Any) -> bool:
    return len(times) > 0 and np.isscalar(times[0])


def _per_scan(value: Any, scans: int, what: str, is_one: Callable[[Any], bool]) -> List[Any]:
    """One value per scan; a single one is that of all."""
    if value is None:
        return [None] * scans
    try:
        if is_one(value):
            return [value] * scans
        values = list(value)
    except (TypeError, IndexError, KeyError):
        raise DataError(f"{what}: expected one value or one per scan, found {type(value).__name__}") from None
    if len(values) != scans:
        raise DataError(f"{what}: expected one value or {scans}, found {len(values)}")
    return values


def _listed(values: Any, scans: int, what: str) -> List[Optional[str]]:
    listed = [None if value is None else str(value) for value in values]
    if len(listed) != scans:
        raise DataError(f"{what}: expected {scans} values, one per scan, found {len(listed)}")
    return listed


def _seconds(tr: Any, scan: str) -> float:
    if tr is None:
        raise DataError(f"scan {scan}: tr: expected the repetition time in seconds, found none; hint: tr=2.0")
    try:
        return float(tr)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"scan {scan}: tr: expected seconds, found {tr!r}") from None


def _times(times: Any, frames: int, tr: float, scan: str) -> DoubleArray:
    """True times of the frames; without gaps where none are given."""
    if times is None:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.arange(frames, dtype=np.float64) * tr
    times = _array(times, "frame_times")
    if times.shape != (frames,):
        raise DataError(f"scan {scan}: frame_times: expected {frames}, one per frame, found {times.shape}")
    return np.ascontiguousarray(times, dtype=np.float64)
