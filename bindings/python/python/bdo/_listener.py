"""Progress of long work: a bar where tqdm is there, notes to logging, warnings to warnings."""

from __future__ import annotations

import logging
import sys
import warnings
from typing import Any, Optional

from ._errors import UnfamiliarWarning

_LOG = logging.getLogger("bdo")


class Listener:
    """Told by the core what a terminal would show."""

    def __init__(self, progress: Optional[bool]) -> None:
        self._bars = _tqdm() if (progress or (progress is None and _is_watched())) else None
        self._bar: Any = None

    def started(self, what: str, total: int) -> None:
        self.finished()
        if self._bars is not None:
            self._bar = self._bars(desc=what, total=total or None, leave=False)

    def at(self, done: int, total: int, message: str) -> None:
        if self._bar is not None:
            self._bar.total = total or None
            if message:
                self._bar.set_postfix_str(message, refresh=False)
            self._bar.update(done - self._bar.n)

    def finished(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def said(self, line: str) -> None:
        kind, _, text = line.partition(": ")
        if kind == "warning":
            warnings.warn(text, UnfamiliarWarning, stacklevel=5)
        else:
            _LOG.log(logging.INFO if kind == "note" else logging.WARNING, line)


def _is_watched() -> bool:
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


def _tqdm() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm
