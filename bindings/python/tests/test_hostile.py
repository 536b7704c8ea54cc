"""Calls that are wrong in random ways end in an exception of ours, never in a panic or a crash."""

import os

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import bdo

# `BDO_TORTURE=full` for all of them.
CALLS = 10_000 if os.environ.get("BDO_TORTURE") == "full" else 1_000

NUMBERS = st.floats(allow_nan=True, allow_infinity=True) | st.integers() | st.booleans() | st.none() | st.text(max_size=4)
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
KINDS = st.sampled_from([np.float32, np.float64, np.float16, np.int64, np.uint8, np.bool_, np.complex64, "U3", "O", "M8[s]"])
ARRAYS = KINDS.flatmap(lambda kind: arrays.arrays(kind, SHAPES, elements=None if kind != "O" else NUMBERS))


@st.composite
def tables(draw):
    """Tables of Arrow of numbers, text and nothing, whole or their first column."""
    rows, kinds = draw(st.integers(0, 4)), draw(st.lists(st.sampled_from([*FULL, *EMPTY]), max_size=3))
    made = [pa.array(range(rows), pa.int64()).cast(kind) if kind in FULL else pa.nulls(rows, kind) for kind in kinds]
    table = pa.table({str(i): column for i, column in enumerate(made)})
    return made[0] if made and draw(st.booleans()) else table


FULL = [pa.float32(), pa.float64(), pa.int8(), pa.string(), pa.date64()]
EMPTY = [pa.null(), pa.float32(), pa.list_(pa.float32(), 3), pa.list_(pa.float32()), pa.struct([("a", pa.float32())])]
ANYTHING = st.recursive(NUMBERS | ARRAYS | tables() | st.binary(max_size=3), lambda x: st.lists(x, max_size=3), max_leaves=4)
WHOLE = st.just("as it is")


@settings(max_examples=CALLS, deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    series=WHOLE | ANYTHING,
    tr=WHOLE | ANYTHING,
    regions=WHOLE | ANYTHING | st.lists(st.text(max_size=3), max_size=14),
    times=st.none() | ANYTHING,
    verb=st.sampled_from(["embed", "reconstruct", "impute", "forecast"]),
    word=st.sampled_from(["mean", "coupling"]) | ANYTHING,
)
@pytest.mark.filterwarnings("ignore")
def test_bad_calls(cohort, model, series, tr, regions, times, verb, word):
    whole = {"series": cohort.series(0)[:20], "tr": cohort.tr(0), "regions": cohort.regions}
    asked = {"series": series, "tr": tr, "regions": regions}
    asked = {name: whole[name] if isinstance(v, str) and v == "as it is" else v for name, v in asked.items()}
    further = {"pooling": word} if verb == "embed" else {"horizon": word} if verb == "forecast" else {"seed": word}
    try:
        found = getattr(model, verb)(asked["series"], asked["tr"], asked["regions"], frame_times=times, **further)
    except bdo.Error as error:
        assert str(error) and not isinstance(error, (KeyboardInterrupt, SystemExit))
    else:
        values = found if verb == "embed" else found.mean
        assert values.ndim == 2


@settings(max_examples=CALLS // 10, deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    verb=st.sampled_from(["inspect", "embed", "probe", "predict", "infer reconstruct", "simulate", ""]) | st.text(max_size=5),
    words=st.lists(st.text(max_size=6), max_size=2),
    options=st.dictionaries(st.sampled_from(["data", "model", "target", "seeds", "x", "subjects"]), NUMBERS, max_size=3),
)
def test_bad_verbs(tmp_path_factory, verb, words, options):
    place = str(tmp_path_factory.mktemp("v") / "out")
    with pytest.raises(bdo.Error):
        # No verb takes this option, so that none of them begins to work.
        bdo.call(verb, *words, no_such_option=place, **options)
