"""The verbs of the program that make folders: the same arguments, the same output."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _core
from ._cohort import Cohort
from ._errors import DataError
from ._folder import PathLike, path_of, path_to
from ._frames import frame_of_rows
from ._listener import Listener
from ._model import Model, load


def call(verb: str, *arguments: Any, progress: Optional[bool] = None, **options: Any) -> Dict[str, Any]:
    """Runs any verb of the program in this process and returns what ``--json`` prints.

    An option is named as the program names it, with ``_`` for ``-``; ``True`` gives a flag, a list gives it several times, None
    leaves it out.

    >>> bdo.call("inspect", cohort.folder)["scans"] == len(cohort)
    True
    """
    words = str(verb).split() + [_word(argument) for argument in arguments]
    for name, value in options.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
            continue
        for one in value if isinstance(value, (list, tuple, set, range)) else [value]:
            # One word, so that a value may begin with a dash.
            words.append(f"{flag}={_word(one)}")
    answer: Dict[str, Any] = json.loads(_core.call(words, Listener(progress))[0])
    return answer


def simulate(out: PathLike, *, progress: Optional[bool] = None, **options: Any) -> Cohort:
    """Makes a synthetic cohort with known dynamics and labels: ``bdo simulate``.

    >>> bdo.simulate(folder / "few", subjects=3, regions=12, frames=50, sites=1).names
    ['sub-0001', 'sub-0002', 'sub-0003']
    """
    call("simulate", path_of(out), progress=progress, **options)
    return Cohort(out)


def ingest(source: PathLike, out: PathLike, *, progress: Optional[bool] = None, **options: Any) -> Cohort:
    """Reads scans of any layout into a cohort: ``bdo ingest``. What was rejected is logged and in ``out/rejected.tsv``.

    >>> (folder / "files").mkdir()
    >>> for person, values in {"sub-1": series, "sub-2": -series}.items():
    ...     np.savetxt(folder / "files" / f"{person}.csv", values, delimiter=",", header=",".join(names), comments="")
    >>> bdo.ingest(folder / "files", folder / "ingested", tr=2.0).names
    ['sub-1', 'sub-2']
    """
    call("ingest", path_of(source), path_of(out), progress=progress, **options)
    return Cohort(out)


class Run:
    """The folder of a pre-training.

    >>> run = bdo.Run(model.folder.parent)
    >>> run.model == model, "loss.total" in run.journal().columns
    (True, True)
    """

    def __init__(self, folder: PathLike, answer: Optional[Dict[str, Any]] = None) -> None:
        self.folder = Path(path_of(folder))
        self.answer = answer or {}
        """What ``bdo pretrain --json`` printed, where this object comes from it."""

    @property
    def model(self) -> Model:
        """The model that was trained."""
        return load(self.folder / "model")

    @property
    def page(self) -> Path:
        """The page about the run."""
        return self.folder / "report.html"

    def journal(self, kind: str = "step", library: Optional[str] = None) -> Any:
        """The journal as a data frame: one row per ``step`` or ``validation``; nested measures are named with a dot."""
        path = self.folder / "journal.jsonl"
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise DataError(f"{path}: expected the journal of a run, found none ({error.strerror})") from None
        entries = [json.loads(line) for line in lines if line.endswith("}")]
        return frame_of_rows([_flat(entry) for entry in entries if entry.get("kind") == kind], library)

    def __repr__(self) -> str:
        return f"bdo.Run({str(self.folder)!r})"


def pretrain(
    cohort: Union[Cohort, PathLike],
    out: PathLike,
    *,
    max_minutes: Optional[float] = None,
    progress: Optional[bool] = None,
    **options: Any,
) -> Run:
    """Trains a model on a cohort, without labels: ``bdo pretrain``. Ctrl-C ends it after a step; ``resume=True`` goes on.

    >>> run = bdo.pretrain(cohort, out=folder / "short", set=["train.epochs=1", "model.width=16"])
    >>> list(run.journal()["step"])
    [0]
    """
    answer = call("pretrain", data=path_to(cohort), out=path_of(out), max_minutes=max_minutes, progress=progress, **options)
    return Run(out, answer)


def probe(
    model: Union[Model, PathLike],
    cohort: Union[Cohort, PathLike],
    target: str,
    out: Optional[PathLike] = None,
    *,
    progress: Optional[bool] = None,
    **options: Any,
) -> Dict[str, Any]:
    """What a frozen model's features say about a label: ``bdo probe``. The fitted head is in ``out``.

    >>> found = bdo.probe(model, cohort, "age", folder / "head", seeds=0, epochs=2)
    >>> "summary" in found, (folder / "head" / "result.json").is_file()
    (True, True)
    """
    return call(
        "probe", model=path_to(model), data=path_to(cohort), target=target, out=_out(out), progress=progress, **options
    )


def predict(
    head: PathLike,
    cohort: Union[Cohort, PathLike],
    out: PathLike,
    *,
    progress: Optional[bool] = None,
    **options: Any,
) -> Dict[str, Any]:
    """Predicts with the head of a probe or a fine-tuning: ``bdo predict``.

    >>> found = bdo.probe(model, cohort, "age", folder / "of-age", seeds=0, epochs=2)
    >>> bdo.predict(folder / "of-age", cohort, folder / "ages.tsv")["scans"] == len(cohort)
    True
    """
    return call("predict", head=path_of(head), data=path_to(cohort), out=path_of(out), progress=progress, **options)


def compare(
    series: Any,
    labels: Any,
    *,
    groups: Optional[Sequence[Any]] = None,
    methods: Sequence[str] = ("bdo-mean", "fc", "fc-tangent"),
    model: Union[Model, PathLike, None] = None,
    out: Optional[PathLike] = None,
    tr: Any = None,
    regions: Optional[Sequence[str]] = None,
    frame_times: Any = None,
    subjects: Optional[Sequence[str]] = None,
    progress: Optional[bool] = None,
    library: Optional[str] = None,
    **options: Any,
) -> Any:
    """Methods on labels under the same splits: ``bdo compare``. Returns its table as a data frame.

    ``series`` is a cohort, and ``labels`` names of its columns; or arrays with one label per scan (a list, a series, a mapping or
    data frame of several) and ``groups``, their sites. Rows of BDO take ``model``, or pre-train one for every split. The folder
    and the page are ``table.attrs["folder"]`` and ``table.attrs["page"]``; a table of polars has no ``attrs``, but the page is logged.

    >>> table = bdo.compare(cohort, "age", methods=["fc"], out=folder / "table", seeds=0, bootstraps=10, permutations=10)
    >>> "fc" in list(table["method"]), Path(table.attrs["page"]).is_file()
    (True, True)
    """
    folder = Path(_out(out))
    if isinstance(series, (Cohort, str, os.PathLike)):
        data, targets = path_to(series), [labels] if isinstance(labels, str) else list(labels)
    else:
        stored = Cohort.store(
            folder / "cohort",
            series,
            tr=tr,
            regions=regions,
            frame_times=frame_times,
            subjects=subjects,
            sites=groups,
            labels=labels,
        )
        data = path_to(stored)
        targets = [c for c in stored._inner.participants()[0] if c != "site" or groups is None]
    call(
        "compare",
        data=data,
        targets=",".join(str(target) for target in targets),
        methods=",".join(methods),
        model=None if model is None else path_to(model),
        out=str(folder),
        progress=progress,
        **options,
    )
    table = frame_of_rows(_table(json.loads((folder / "table.json").read_text(encoding="utf-8"))), library)
    page = str(folder / "report.html")
    if hasattr(table, "attrs"):
        table.attrs.update(folder=str(folder), page=page)
    logging.getLogger("bdo").info("note: the page of the comparison is %s", page)
    return table


def demo(out: PathLike = "demo", *, progress: Optional[bool] = None) -> Path:
    """Runs the whole path on a synthetic cohort and returns the page it ends in: ``bdo demo``.

    >>> bdo.demo(folder / "demo").name  # doctest: +SKIP
    'report.html'
    """
    return Path(call("demo", out=path_of(out), progress=progress)["report"])


def _table(table: Dict[str, Any]) -> List[Dict[str, Any]]:
    """One row per method, target and scheme: its scores, the interval and p of the primary one."""
    rows = []
    for row in table["summary"]["rows"]:
        line = {name: row.get(name) for name in ("method", "target", "scheme", "primary", "tested_people", "p")}
        interval = row.get("interval") or {}
        line.update(low=interval.get("low"), high=interval.get("high"))
        line.update({cell["metric"]: cell["mean"] for cell in row["cells"]})
        rows.append(line)
    return rows


def _flat(entry: Dict[str, Any], before: str = "") -> Dict[str, Any]:
    flat: Dict[str, Any] = {}
    for name, value in entry.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{before}{name}."))
        else:
            flat[before + name] = value
    return flat


def _word(value: Any) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    if "\0" in text:
        raise DataError(f"expected an argument without a null byte, found {text!r}")
    return text


def _out(out: Optional[PathLike]) -> str:
    """The folder to make; one that outlives the call where none is named, since its pages are part of the result."""
    return tempfile.mkdtemp(prefix="bdo-") if out is None else path_of(out)
