"""Pre-trained models."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np

from . import _core
from ._cohort import Cohort, PathLike, _path
from ._errors import DataError, ModelError, UnfamiliarWarning
from ._frames import frame
from ._listener import Listener
from ._series import Scans, _array, scans_of

# Fewer scans than this are embedded before a bar could be read.
_SCANS_WORTH_A_BAR = 50


class Posterior(NamedTuple):
    """What a model says of the regions of one scan over time, in the units of the series."""

    times: np.ndarray
    """Seconds since the clock of the scan began, increasing."""
    kinds: List[str]
    """What each row is: a ``visible``, ``hidden`` or ``missing`` frame, or a time that was ``asked`` for."""
    mean: np.ndarray
    """Times x regions."""
    sd: np.ndarray
    """Standard deviations, times x regions."""
    regions: List[str]
    """Names of the columns: the model's regions."""

    def frame(self, library: Optional[str] = None) -> Any:
        """The means as a data frame with a column of times."""
        columns = {"time_seconds": list(self.times), "kind": self.kinds}
        columns.update({name: self.mean[:, i] for i, name in enumerate(self.regions)})
        return frame(columns, library)


class Model:
    """A model directory that was read. It never changes, and several threads may use it at once.

    >>> model = bdo.Model(model_folder)
    >>> features = model.embed([series, series], tr=2.0, regions=names)
    >>> features.shape == (2, model.width), features.dtype
    (True, dtype('float32'))
    """

    def __init__(self, folder: PathLike, *, same_atlas: bool = False) -> None:
        path = Path(_path(folder))
        if not (path / "config.json").is_file() and (path / "model" / "config.json").is_file():
            raise ModelError(f"expected a model directory, found a run; its model is {path / 'model'}")
        self._same_atlas = bool(same_atlas)
        self._core = _core.Model(str(path), self._same_atlas)
        self._facts = json.loads(self._core.facts())

    @classmethod
    def from_pretrained(cls, folder: PathLike, *, same_atlas: bool = False) -> "Model":
        """The same as ``bdo.load``."""
        return cls(folder, same_atlas=same_atlas)

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return Path(self._core.folder)

    @property
    def regions(self) -> List[str]:
        """Names of the regions it was trained on, in its order."""
        return self._core.regions

    @property
    def width(self) -> int:
        """Width of the control: numbers per scan under mean pooling."""
        return self._facts["width"]

    @property
    def atlas(self) -> str:
        """Name of the atlas it was trained on."""
        return self._facts["atlas"]

    @property
    def blake3(self) -> str:
        """BLAKE3 of its configuration, contract and weights."""
        return self._core.blake3

    def feature_width(self, pooling: str = "mean") -> int:
        """Numbers per scan."""
        return self._core.feature_width(_word(pooling, "pooling"))

    def embed(
        self,
        series: Any,
        tr: Any = None,
        regions: Optional[Sequence[str]] = None,
        *,
        frame_times: Any = None,
        pooling: str = "mean",
        strict: bool = False,
        progress: Optional[bool] = None,
    ) -> np.ndarray:
        """One row of features per scan, float32.

        ``series`` is frames x regions, a list or a 3-D array of those, a data frame whose columns are named after regions
        (pandas, polars, pyarrow), or a :class:`bdo.Cohort`. ``tr`` and ``frame_times`` are one for all scans or one per scan.
        The numbers are those of ``bdo embed``. ``strict`` refuses scans that are not like those the model knows, which are
        otherwise warned about.
        """
        pooling = _word(pooling, "pooling")
        if isinstance(series, Cohort):
            found, strange = self._core.embed_cohort(series._core, pooling, Listener(progress))
            self._judge(strange, series.names, strict)
            return found
        scans = self._scans(series, tr, regions, frame_times)
        watched = progress if progress is not None or len(scans.given) >= _SCANS_WORTH_A_BAR else False
        listener = None if watched is False else Listener(watched)
        found, strange = self._core.embed(scans.given, scans.regions, pooling, listener)
        self._judge(strange, [scan.subject for scan in scans.given], strict)
        return found

    def reconstruct(
        self,
        series: Any,
        tr: Any = None,
        regions: Optional[Sequence[str]] = None,
        *,
        times: Any = None,
        frame_times: Any = None,
        hidden: Any = None,
        calibration: Optional[PathLike] = None,
        seed: int = 0,
        scan: int = 0,
    ) -> Posterior:
        """Mean and standard deviation of every region at all frames, or at ``times``, from the frames that are not ``hidden``.

        ``scan`` is the place of the scan in its cohort, which decides the draws as ``seed`` does.
        """
        return self._answer("reconstruct", series, tr, regions, times, frame_times, hidden, 1, calibration, (seed, scan))

    def impute(
        self,
        series: Any,
        tr: Any = None,
        regions: Optional[Sequence[str]] = None,
        *,
        times: Any = None,
        frame_times: Any = None,
        hidden: Any = None,
        calibration: Optional[PathLike] = None,
        seed: int = 0,
        scan: int = 0,
    ) -> Posterior:
        """The same with every frame the scan lacks; what was measured stays as it is, with a standard deviation of 0."""
        return self._answer("impute", series, tr, regions, times, frame_times, hidden, 1, calibration, (seed, scan))

    def forecast(
        self,
        series: Any,
        tr: Any = None,
        regions: Optional[Sequence[str]] = None,
        *,
        horizon: int = 10,
        times: Any = None,
        frame_times: Any = None,
        calibration: Optional[PathLike] = None,
        seed: int = 0,
        scan: int = 0,
    ) -> Posterior:
        """The ``horizon`` frames after the last one, or ``times`` after it."""
        if isinstance(horizon, bool) or not isinstance(horizon, (int, np.integer)) or not 1 <= horizon <= 10_000:
            raise DataError(f"horizon: expected 1 to 10000 frames, found {horizon!r}")
        answer = self._answer(
            "forecast", series, tr, regions, times, frame_times, None, int(horizon), calibration, (seed, scan)
        )
        return answer if times is not None else _rows(answer, [kind == "asked" for kind in answer.kinds])

    def _answer(
        self,
        question: str,
        series: Any,
        tr: Any,
        regions: Optional[Sequence[str]],
        times: Any,
        frame_times: Any,
        hidden: Any,
        horizon: int,
        calibration: Optional[PathLike],
        draws: tuple,
    ) -> Posterior:
        scans = self._scans(series, tr, regions, frame_times)
        if len(scans.given) != 1:
            raise DataError(f"series: expected one scan, found {len(scans.given)}")
        given = scans.given[0]
        first = float(given.times[0]) if len(given.times) else 0.0
        asked = _asked(times, first)
        if hidden is not None:
            hidden = [bool(value) for value in _array(hidden, "hidden").ravel()]
        calibration = None if calibration is None else _path(calibration)
        found = self._core.answer(
            given, scans.regions, question, asked, hidden, horizon, calibration, [_count(n) for n in draws]
        )
        if calibration is None:
            warnings.warn(
                "no calibration: spreads are those of the latent state alone, far too narrow; see bdo infer calibrate",
                UnfamiliarWarning,
                stacklevel=3,
            )
        answer = Posterior(found[0] + first, found[1], found[2], found[3], self.regions)
        if times is None:
            return answer
        wanted = np.asarray(asked)
        return _rows(answer, [bool(np.any(np.abs(wanted - t) <= 1e-6)) for t in answer.times])

    def _scans(self, series: Any, tr: Any, regions: Any, frame_times: Any) -> Scans:
        if isinstance(series, Cohort):
            raise DataError("series: expected the series of one scan, found a cohort; hint: cohort.series(i)")
        return scans_of(series, tr, regions, frame_times, self.regions if self._same_atlas else None)

    def _judge(self, strange: list, names: List[str], strict: bool) -> None:
        """Says which scans are not like those the model knows, or refuses them."""
        without = [names[i] for i, trust, _ in strange if trust == "none"]
        if without:
            warnings.warn(f"{', '.join(without)}: no usable region, and features of NaN", UnfamiliarWarning, stacklevel=3)
        outside = [f"{names[i]}: {reasons}" for i, trust, reasons in strange if trust == "outside"]
        if outside and strict:
            raise DataError(f"expected scans like those the model knows, found {len(outside)} outside ({outside[0]})")
        if outside:
            warnings.warn(
                f"{len(outside)} scans lie outside what the model knows; what is said of them was never checked ({outside[0]})",
                UnfamiliarWarning,
                stacklevel=3,
            )

    def __repr__(self) -> str:
        return f"bdo.Model({str(self.folder)!r}): {len(self.regions)} regions of {self.atlas}, width {self.width}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and (self.blake3, self._same_atlas) == (other.blake3, other._same_atlas)

    def __hash__(self) -> int:
        return hash((self.blake3, self._same_atlas))

    def __copy__(self) -> "Model":
        return self

    def __deepcopy__(self, memo: dict) -> "Model":
        return self

    def __reduce__(self) -> tuple:
        return _reload, (str(self.folder.absolute()), self._same_atlas, self.blake3)


def load(folder: PathLike, *, same_atlas: bool = False) -> Model:
    """Reads a model directory. ``same_atlas`` takes numbered or unnamed regions for the model's.

    >>> bdo.load(model_folder).regions == names
    True
    """
    return Model(folder, same_atlas=same_atlas)


def _reload(folder: str, same_atlas: bool, blake3: str) -> Model:
    """A model that was pickled: the folder must still hold the same one."""
    model = Model(folder, same_atlas=same_atlas)
    if model.blake3 != blake3:
        raise ModelError(f"{folder}: expected the model {blake3}, found {model.blake3}")
    return model


def _rows(answer: Posterior, wanted: List[bool]) -> Posterior:
    rows = np.flatnonzero(wanted)
    kinds = [answer.kinds[i] for i in rows]
    return Posterior(answer.times[rows], kinds, answer.mean[rows], answer.sd[rows], answer.regions)


def _asked(times: Any, first: float) -> List[float]:
    if times is None:
        return []
    array = np.atleast_1d(_array(times, "times")).astype(np.float64)
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)) or np.any(array < first):
        raise DataError("times: expected a list of finite seconds from the first frame on, found others")
    return array.tolist()


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < 1 << 64:
        raise DataError(f"seed and scan: expected whole numbers from 0, found {value!r}")
    return int(value)


def _word(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{what}: expected a name, found {value!r}")
    return value
