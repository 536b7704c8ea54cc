"""What people hand over as series, as the arrays the core takes."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence

import numpy as np

from ._errors import DataError


class Given(NamedTuple):
    """One scan, ready for the core."""

    subject: str
    session: Optional[str]
    site: Optional[str]
    values: np.ndarray
    tr: float
    times: np.ndarray


class Scans(NamedTuple):
    """All scans of a call, with the names of their columns."""

    given: list
    regions: list


def scans_of(
    series: Any,
    tr: Any,
    regions: Optional[Sequence[str]],
    frame_times: Any,
    known_regions: Optional[Sequence[str]] = None,
    subjects: Optional[Sequence[str]] = None,
    sites: Optional[Sequence[Any]] = None,
) -> Scans:
    """Brings one array, several, or data frames into one form. ``known_regions`` are taken where no names are given."""
    parts = _parts(series)
    tables = [_table(part) for part in parts]
    names = _names(tables, regions, known_regions)
    times = _per_scan(frame_times, len(parts), "frame_times", _is_one_time_axis)
    trs = _per_scan(tr, len(parts), "tr", np.isscalar)
    labels = [str(i) for i in range(len(parts))] if subjects is None else _listed(subjects, len(parts), "subjects")
    places = [None] * len(parts) if sites is None else _listed(sites, len(parts), "groups")
    given = []
    for i, (own, values) in enumerate(tables):
        scan = labels[i] if subjects is not None else f"{i}"
        if own is not None and own != names and regions is None:
            values = _in_order(values, own, names, scan)
        if values.shape[1] != len(names):
            raise DataError(f"scan {scan}: regions: expected {values.shape[1]} names, one per column, found {len(names)}")
        step = _seconds(trs[i], scan)
        given.append(Given(labels[i], None, places[i], values, step, _times(times[i], values.shape[0], step, scan)))
    return Scans(given, names)


def _parts(series: Any) -> list:
    """The scans of an argument: one, or a sequence of them."""
    if isinstance(series, np.ndarray):
        if series.dtype == object and series.ndim == 1:
            return list(series)
        if series.ndim == 3:
            return list(series)
        return [series]
    if isinstance(series, (list, tuple)):
        if series and all(_is_one(part) for part in series):
            return list(series)
        if not series:
            raise DataError("series: expected at least one scan, found none")
        return _parts(_array(series, "series"))
    return [series]


def _is_one(part: Any) -> bool:
    return _column_names(part) is not None or getattr(part, "ndim", None) == 2 or hasattr(part, "to_numpy")


def _column_names(part: Any) -> Optional[list]:
    """Names of the columns of a data frame of pandas or polars, or of a table of Arrow."""
    for attribute in ("column_names", "columns"):
        found = getattr(part, attribute, None)
        if found is not None and not callable(found):
            return list(found)
    return None


def _table(part: Any) -> tuple:
    """Names of the columns, where they have any, and the values as frames x regions in C order."""
    names = _column_names(part)
    if names is not None:
        if hasattr(part, "column_names"):
            columns = [np.asarray(part.column(i)) for i in range(len(names))]
            values = np.stack(columns, axis=1) if columns else np.empty((0, 0))
        else:
            values = part.to_numpy()
        # Numbers that pandas gives to columns without a name say nothing.
        names = [str(name) for name in names] if all(isinstance(name, str) for name in names) else None
    else:
        values = part
    values = _array(values, "series")
    if values.ndim != 2:
        raise DataError(f"series: expected frames x regions, found an array of {values.ndim} dimensions")
    with np.errstate(over="ignore", invalid="ignore"):
        return names, np.ascontiguousarray(values, dtype=np.float32)


def _array(values: Any, what: str) -> np.ndarray:
    try:
        array = np.asarray(values)
        if array.dtype == object:
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what}: expected an array of numbers, found {type(values).__name__} ({error})") from None
    if array.dtype.kind not in "fiub":
        raise DataError(f"{what}: expected real numbers, found {array.dtype}")
    return array


def _names(tables: list, regions: Any, known: Optional[Sequence[str]]) -> list:
    """Names of the columns: those given, those of the first table, or those that are known."""
    if regions is not None:
        if isinstance(regions, (str, bytes)) or not hasattr(regions, "__iter__") or getattr(regions, "ndim", 1) != 1:
            raise DataError(f"regions: expected a list of names, found {type(regions).__name__}")
        return [str(name) for name in regions]
    if tables[0][0] is not None:
        return tables[0][0]
    if known is not None:
        return list(known)
    raise DataError(
        f"regions: expected the names of {tables[0][1].shape[1]} columns, found none; hint: regions=[...], a data frame, "
        "or bdo.load(..., same_atlas=True) where the columns are the model's regions in its order"
    )


def _in_order(values: np.ndarray, own: list, names: list, scan: str) -> np.ndarray:
    """Columns of a table in the order of the first one's."""
    if len(set(own)) != len(own) or set(own) != set(names):
        raise DataError(f"scan {scan}: regions: expected the columns of the first scan, found others")
    return np.ascontiguousarray(values[:, [own.index(name) for name in names]])


def _is_one_time_axis(times: Any) -> bool:
    return len(times) > 0 and np.isscalar(times[0])


def _per_scan(value: Any, scans: int, what: str, is_one: Any) -> list:
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


def _listed(values: Any, scans: int, what: str) -> list:
    values = [None if value is None else str(value) for value in values]
    if len(values) != scans:
        raise DataError(f"{what}: expected {scans} values, one per scan, found {len(values)}")
    return values


def _seconds(tr: Any, scan: str) -> float:
    if tr is None:
        raise DataError(f"scan {scan}: tr: expected the repetition time in seconds, found none; hint: tr=2.0")
    try:
        return float(tr)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"scan {scan}: tr: expected seconds, found {tr!r}") from None


def _times(times: Any, frames: int, tr: float, scan: str) -> np.ndarray:
    """True times of the frames; without gaps where none are given."""
    if times is None:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.arange(frames, dtype=np.float64) * tr
    times = _array(times, "frame_times")
    if times.shape != (frames,):
        raise DataError(f"scan {scan}: frame_times: expected {frames}, one per frame, found {times.shape}")
    return np.ascontiguousarray(times, dtype=np.float64)
