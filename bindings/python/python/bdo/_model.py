"""Pre-trained models."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypedDict

import numpy as np

from . import _core
from ._cohort import Cohort
from ._errors import DataError, ModelError, UnfamiliarWarning
from ._folder import Folder, PathLike, path_of
from ._frames import frame
from ._listener import Listener
from ._series import DoubleArray, FloatArray, Scans, _array, scans_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Fewer scans than this are embedded before a bar could be read.
_SCANS_WORTH_A_BAR = 50


class Posterior(NamedTuple):
    """What a model says of the regions of one scan over time, in the units of the series."""

    times: DoubleArray
    """Seconds since the clock of the scan began, increasing."""
    kinds: List[str]
    """What each row is: a ``visible``, ``hidden`` or ``missing`` frame, or a time that was ``asked`` for."""
    mean: FloatArray
    """Times x regions."""
    sd: FloatArray
    """Standard deviations, times x regions."""
    regions: List[str]
    """Names of the columns: the model's regions."""

    def frame(self, library: Optional[str] = None) -> Any:
        """The means as a data frame with a column of times."""
        columns: Dict[str, Any] = {"time_seconds": list(self.times), "kind": self.kinds}
        columns.update({name: self.mean[:, i] for i, name in enumerate(self.regions)})
        return frame(columns, library)


class Asked(TypedDict, total=False):
    """What every question to a model takes, by name."""

    times: Any
    """Seconds at which an answer is wanted; where none are named, at the frames."""
    frame_times: Any
    """True times of the frames, where some are missing."""
    calibration: Optional[PathLike]
    """``calibration.json`` of ``bdo infer calibrate``."""
    seed: int
    """Of the draws behind standard deviations."""
    scan: int
    """The place of the scan in its cohort, which decides the draws as ``seed`` does."""


class Model(Folder):
    """A model directory that was read. It never changes, and several threads may use it at once.

    >>> model = bdo.Model(model_folder)
    >>> features = model.embed([series, series], tr=2.0, regions=names)
    >>> features.shape == (2, model.width), features.dtype
    (True, dtype('float32'))
    """

    _inner: _core.Model

    def __init__(self, folder: PathLike, *, same_atlas: bool = False) -> None:
        path = Path(path_of(folder))
        if not (path / "config.json").is_file() and (path / "model" / "config.json").is_file():
            raise ModelError(f"expected a model directory, found a run; its model is {path / 'model'}")
        self._same_atlas = bool(same_atlas)
        self._inner = _core.Model(str(path), self._same_atlas)
        self._facts: Dict[str, Any] = json.loads(self._inner.facts())

    @classmethod
    def from_pretrained(cls, folder: PathLike, *, same_atlas: bool = False) -> "Model":
        """The same as ``bdo.load``."""
        return cls(folder, same_atlas=same_atlas)

    @property
    def width(self) -> int:
        """Width of the control: numbers per scan under mean pooling."""
        return int(self._facts["width"])

    @property
    def atlas(self) -> str:
        """Name of the atlas it was trained on."""
        return str(self._facts["atlas"])

    @property
    def blake3(self) -> str:
        """BLAKE3 of its configuration, contract and weights."""
        return self._inner.blake3

    def feature_width(self, pooling: str = "mean") -> int:
        """Numbers per scan."""
        return self._inner.feature_width(_word(pooling, "pooling"))

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
    ) -> FloatArray:
        """One row of features per scan, float32.

        ``series`` is frames x regions, a list or a 3-D array of those, a data frame whose columns are named after regions
        (pandas, polars, pyarrow), or a :class:`bdo.Cohort`. ``tr`` and ``frame_times`` are one for all scans or one per scan.
        The numbers are those of ``bdo embed``. ``strict`` refuses scans that are not like those the model knows, which are
        otherwise warned about.

        >>> model.embed([series, series[:40]], tr=2.0, regions=names).shape == (2, model.width)
        True
        """
        pooling = _word(pooling, "pooling")
        if isinstance(series, Cohort):
            found, strange = self._inner.embed_cohort(series._inner, pooling, Listener(progress))
            self._judge(strange, series.names, strict)
            return found
        scans = self._scans(series, tr, regions, frame_times)
        watched = progress if progress is not None or len(scans.given) >= _SCANS_WORTH_A_BAR else False
        listener = None if watched is False else Listener(watched)
        found, strange = self._inner.embed(scans.given, scans.regions, pooling, listener)
        self._judge(strange, [scan.subject for scan in scans.given], strict)
        return found

    def reconstruct(
        self,
        series: Any,
        tr: Any = None,
        regions: Optional[Sequence[str]] = None,
        *,
        hidden: Any = None,
        **asked: Unpack[Asked],
    ) -> Posterior:
        """Mean and standard deviation of every region at all frames, or at ``times``, from the frames that are not ``hidden``.

        Takes ``times``, ``frame_times``, ``calibration``, ``seed`` and ``scan``, as :class:`Asked` says.

        >>> answer = model.reconstruct(series, tr=2.0, regions=names, times=[3.0, 3.5])
        >>> answer.times, answer.mean.shape == answer.sd.shape == (2, len(names))
        (array([3. , 3.5]), True)
        """
        return self._answer("reconstruct", series, tr, regions, hidden, **asked)

    def impute(
        self,
        series: Any,
        tr: Any = None,
        regions: Optional[Sequence[str]] = None,
        *,
        hidden: Any = None,
        **asked: Unpack[Asked],
    ) -> Posterior:
        """The same with every frame the scan lacks; what was measured stays as it is, with a standard deviation of 0.

        >>> kept = [i for i in range(len(series)) if i != 5]
        >>> model.impute(series[kept], tr=2.0, regions=names, frame_times=[2.0 * i for i in kept]).kinds[4:7]
        ['visible', 'missing', 'visible']
        """
        return self._answer("impute", series, tr, regions, hidden, **asked)

    def forecast(
        self,
        series: Any,
        tr: Any = None,
        regions: Optional[Sequence[str]] = None,
        *,
        horizon: int = 10,
        **asked: Unpack[Asked],
    ) -> Posterior:
        """The ``horizon`` frames after the last one, or ``times`` after it.

        >>> model.forecast(series, tr=2.0, regions=names, horizon=3).times - 2.0 * len(series)
        array([0., 2., 4.])
        """
        if isinstance(horizon, bool) or not isinstance(horizon, (int, np.integer)) or not 1 <= horizon <= 10_000:
            raise DataError(f"horizon: expected 1 to 10000 frames, found {horizon!r}")
        answer = self._answer("forecast", series, tr, regions, None, int(horizon), **asked)
        return answer if asked.get("times") is not None else _rows(answer, [kind == "asked" for kind in answer.kinds])

    def _answer(
        self,
        question: str,
        series: Any,
        tr: Any,
        regions: Optional[Sequence[str]],
        hidden: Any,
        horizon: int = 1,
        *,
        times: Any = None,
        frame_times: Any = None,
        calibration: Optional[PathLike] = None,
        seed: int = 0,
        scan: int = 0,
    ) -> Posterior:
        scans = self._scans(series, tr, regions, frame_times)
        if len(scans.given) != 1:
            raise DataError(f"series: expected one scan, found {len(scans.given)}")
        given = scans.given[0]
        first = float(given.times[0]) if len(given.times) else 0.0
        asked = _asked(times, first)
        if hidden is not None:
            hidden = [bool(value) for value in _array(hidden, "hidden").ravel()]
        bands = None if calibration is None else path_of(calibration)
        draws = [_count(seed), _count(scan)]
        found = self._inner.answer(given, scans.regions, question, asked, hidden, horizon, bands, draws)
        if bands is None:
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

    def _judge(self, strange: List[Tuple[int, str, str]], names: List[str], strict: bool) -> None:
        """Says which scans are not like those the model knows, or refuses them."""
        without = [names[i] for i, trust, _ in strange if trust == "none"]
        if without:
            warnings.warn(f"{', '.join(without)}: no usable region, and features of NaN", UnfamiliarWarning, stacklevel=3)
        outside = [f"{names[i]}: {reasons}" for i, trust, reasons in strange if trust == "outside"]
        if outside and strict:
            raise DataError(f"expected scans like those the model knows, found {len(outside)} outside ({outside[0]})")
        if outside:
            warnings.warn(
                f"outside what the model knows, so that what is said of them was never checked: {len(outside)} scans ({outside[0]})",
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

    def __deepcopy__(self, memo: Dict[int, Any]) -> "Model":
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
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
    array: DoubleArray = np.atleast_1d(_array(times, "times")).astype(np.float64)
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)) or np.any(array < first):
        raise DataError("times: expected a list of finite seconds from the first frame on, found others")
    return [float(t) for t in array]


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < 1 << 64:
        raise DataError(f"seed and scan: expected whole numbers from 0, found {value!r}")
    return int(value)


def _word(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{what}: expected a name, found {value!r}")
    return value
