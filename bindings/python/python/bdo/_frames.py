"""Tables for people: pandas or polars, whichever is there."""

from __future__ import annotations

from typing import Any, Dict, List, Optional


def frame(columns: Dict[str, List[Any]], library: Optional[str] = None) -> Any:
    """A data frame of pandas, or of polars where that is asked for or the only one there."""
    for name in [library] if library else ["pandas", "polars"]:
        if name not in ("pandas", "polars"):
            raise ValueError(f"frame: expected pandas or polars, found {name!r}")
        try:
            module = __import__(name)
        except ImportError:
            continue
        return module.DataFrame(columns)
    raise ImportError(f"a table needs {library or 'pandas or polars'}: pip install {library or 'pandas'}")


def frame_of_rows(rows: List[Dict[str, Any]], library: Optional[str] = None) -> Any:
    """The same from one mapping per row; what a row lacks is missing."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return frame({name: [row.get(name) for row in rows] for name in names}, library)
