"""What may be handed over, and what is refused with which sentence."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bdo


@pytest.fixture(scope="module")
def one(cohort):
    return cohort.series(0), cohort.tr(0), cohort.regions


def test_kinds_of_tables(model, one):
    series, tr, names = one
    expected = model.embed(series, tr=tr, regions=names)
    pandas = pd.DataFrame(series, columns=names)
    for table in [pandas, pl.DataFrame(series, schema=names), pa.Table.from_pandas(pandas, preserve_index=False)]:
        assert np.array_equal(model.embed(table, tr=tr), expected)
        assert np.array_equal(model.embed([table, table], tr=tr), np.repeat(expected, 2, axis=0))
    shuffled = pandas[list(reversed(names))]
    assert np.array_equal(model.embed(shuffled, tr=tr), expected)
    assert np.array_equal(model.embed([pandas, shuffled], tr=tr), np.repeat(expected, 2, axis=0))


def test_kinds_of_arrays(model, one):
    series, tr, names = one
    expected = model.embed(series, tr=tr, regions=names)
    wide = np.zeros((series.shape[0] * 2, series.shape[1] * 3), dtype=np.float32)
    wide[::2, ::3] = series
    frozen = series.copy()
    frozen.flags.writeable = False
    kinds = [series.astype(np.float64), np.asfortranarray(series), frozen, wide[::2, ::3], series.tolist(), series[None]]
    kinds += [series.astype(">f4"), np.flip(series)[::-1, ::-1]]
    for array in kinds:
        assert np.array_equal(model.embed(array, tr=tr, regions=names), expected)
    objects = np.empty(2, dtype=object)
    objects[:] = [series, series[:40]]
    assert model.embed(objects, tr=tr, regions=names).shape == (2, model.width)


class Stream:
    """Nothing but the C interface of Arrow, so that nothing in Python can convert it."""

    def __init__(self, inner):
        self.__arrow_c_stream__ = inner.__arrow_c_stream__


class Array:
    def __init__(self, inner):
        self.__arrow_c_array__ = inner.__arrow_c_array__


def test_arrow_through_its_c_interface(model, one):
    series, tr, names = one
    expected = model.embed(series, tr=tr, regions=names)
    table = pa.table({name: series[:, i] for i, name in enumerate(names)})
    chunked = pa.concat_tables([table[:7], table[7:7], table[7:]])
    kinds = [table, chunked, pl.DataFrame(series, schema=names), table.cast(pa.schema([(n, pa.float64()) for n in names]))]
    for kind in kinds:
        assert np.array_equal(model.embed(Stream(kind), tr=tr), expected)
        assert np.array_equal(model.embed([Stream(kind)] * 2, tr=tr), np.repeat(expected, 2, axis=0))
    batch = table.combine_chunks().to_batches()[0]
    assert np.array_equal(model.embed(Array(batch), tr=tr), expected)
    assert np.array_equal(model.embed(Array(batch.slice(10)), tr=tr), model.embed(series[10:], tr=tr, regions=names))
    rounded = np.round(series).astype(np.int16)
    for dtype in ("int16", "int32", "int64", "float16", "float64"):
        whole = pa.table({name: rounded[:, i].astype(dtype) for i, name in enumerate(names)})
        found = model.embed(whole, tr=tr)
        assert np.array_equal(found, model.embed(rounded.astype(dtype), tr=tr, regions=names)), dtype


def test_missing_and_other_things_in_arrow(model, one):
    series, tr, names = one
    columns = {name: pa.array(series[:, i]) for i, name in enumerate(names)}
    holes = series.copy()
    holes[:, 2] = np.nan
    expected = model.embed(holes, tr=tr, regions=names)
    for nothing in (pa.nulls(len(series)), pa.nulls(len(series), pa.float32())):
        assert np.array_equal(model.embed(pa.table({**columns, names[2]: nothing}), tr=tr), expected)
    some = pa.array([None, *series[1:, 2]], pa.float32())
    with pytest.raises(bdo.DataError, match="a region that is NaN in all frames or in none, found 1 of 60"):
        model.embed(pa.table({**columns, names[2]: some}), tr=tr)
    with pytest.raises(bdo.DataError, match="series: expected real numbers, found Utf8"):
        model.embed(pa.table({**columns, names[2]: ["a"] * len(series)}), tr=tr)
    for single in (pa.array(series[:, 0]), pl.Series(series[:, 0])):
        with pytest.raises(bdo.DataError, match="series: expected columns or rows of numbers, found Float32"):
            model.embed(single, tr=tr)
    with pytest.raises(bdo.DataError, match="number of frames: expected at least 2, found 0"):
        model.embed(pa.table(columns)[:0], tr=tr)


def test_rows_of_arrow_are_not_copied(model, one):
    series, tr, names = one
    rows = pa.FixedSizeListArray.from_arrays(pa.array(series.ravel()), series.shape[1])
    for part, skipped in ((rows, 0), (rows[5:], 5)):
        found, values = bdo._core.from_arrow(part)
        address = rows.values.buffers()[1].address + skipped * series.shape[1] * 4
        assert found is None and values.ctypes.data == address and not values.flags.writeable
        assert np.array_equal(values, series[skipped:])
    expected = model.embed(series, tr=tr, regions=names)
    del rows, part
    # What it looks at is kept by the array itself.
    assert np.array_equal(values, series[5:])
    rows = pa.FixedSizeListArray.from_arrays(pa.array(series.ravel()), series.shape[1])
    doubles = rows.cast(pa.list_(pa.float64(), series.shape[1]))
    for kind in (rows, doubles, pa.chunked_array([rows[:9], rows[9:]]), pl.Series(rows)):
        assert np.array_equal(model.embed(kind, tr=tr, regions=names), expected)


COPIES = """
import resource, sys
import bdo, numpy as np
model, cohort = bdo.load(sys.argv[1]), bdo.Cohort(sys.argv[2])
known, wide = cohort.regions, 4000
names = known + [f"unknown {i}" for i in range(wide)]
series = np.zeros((100, 60, len(names)), dtype=np.float32)
series[:, :, : len(known)] = cohort.series(0)
series.flags.writeable = False
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
asked = dict(tr=cohort.tr(0), regions=names)
model.embed(series[:2], **asked)
before = peak()
found = model.embed(series, **asked)
print((peak() - before) / series.nbytes, np.array_equal(found, np.repeat(found[:1], 100, axis=0)))
"""


def test_arrays_are_looked_at_where_they_lie(model, cohort):
    words = [sys.executable, "-c", COPIES, str(model.folder), str(cohort.folder)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
    grown, same = ended.stdout.split()
    # A copy of the input would be 1.
    assert float(grown) < 0.2 and same == "True", ended.stdout + ended.stderr


def test_arrays_that_come_back_are_the_memory_of_the_core(model, cohort, one):
    series, tr, names = one
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = model.reconstruct(series, tr=tr, regions=names)
    for array in (model.embed(series, tr=tr, regions=names), cohort.series(0), answer.mean, answer.sd):
        base = array
        while isinstance(base, np.ndarray):
            assert not base.flags.owndata and base.flags.writeable
            base = base.base
        assert type(base).__name__ == "PySliceContainer"


def test_more_regions_and_times(model, one):
    series, tr, names = one
    expected = model.embed(series, tr=tr, regions=names)
    more = np.column_stack([np.ones(len(series)), series])
    assert np.array_equal(model.embed(more, tr=tr, regions=["else", *names]), expected)
    times = np.arange(len(series)) * tr
    assert np.array_equal(model.embed(series, tr=tr, regions=names, frame_times=times), expected)
    assert not np.array_equal(model.embed(series, tr=tr, regions=names, frame_times=times * 1.5), expected)


def bad(**changes):
    """A call that is right but for the changes."""

    def ask(model, series, tr, names):
        arguments = {"series": series, "tr": tr, "regions": names, **changes}
        model.embed(arguments.pop("series"), **arguments)

    return ask


REFUSED = [
    (bad(regions=None), "regions: expected the names of 12 columns, found none"),
    (bad(regions=["a"]), "expected 12 names, one per column, found 1"),
    (bad(regions=["x"] * 12), "region `x` appears twice"),
    (bad(regions=[f"r{i}" for i in range(12)] ), "the data lack 12 of the model's 12 regions"),
    (bad(regions="abc"), "regions: expected a list of names"),
    (bad(series=np.zeros((0, 12))), "number of frames: expected at least 2, found 0"),
    (bad(series=np.zeros((1, 12))), "number of frames: expected at least 2, found 1"),
    (bad(series=np.zeros(12)), "expected frames x regions, found an array of 1 dimensions"),
    (bad(series=np.zeros((2, 2, 2, 2))), "expected frames x regions, found an array of 4 dimensions"),
    (bad(series=np.full((50, 12), np.nan)), "at least one region and frame the model can look at, found none"),
    (bad(series=np.ones((50, 12))), "at least one region and frame the model can look at, found none"),
    (bad(series=np.full((50, 12), np.inf)), "series: expected finite values (NaN for a missing region), found inf"),
    (bad(series=np.full((50, 12), 1e300)), "series: expected finite values (NaN for a missing region), found inf"),
    (bad(series=np.zeros((50, 12), dtype=complex)), "series: expected real numbers, found complex128"),
    (bad(series=np.full((5, 12), "a")), "series: expected real numbers"),
    (bad(series="series.tsv"), "series: expected real numbers"),
    (bad(series=None), "series: expected"),
    (bad(series=[]), "series: expected at least one scan, found none"),
    (bad(series=np.zeros((0, 50, 12))), "series: expected at least one scan, found none"),
    (bad(tr=None), "tr: expected the repetition time in seconds, found none"),
    (bad(tr=0), "repetition time: expected a positive number of seconds, found 0"),
    (bad(tr=float("nan")), "repetition time: expected a positive number of seconds, found NaN"),
    (bad(tr="two"), "tr: expected seconds, found 'two'"),
    (bad(tr=[1, 2, 3]), "tr: expected one value or 1, found 3"),
    (bad(frame_times=[0, 1]), "frame_times: expected 60, one per frame, found (2,)"),
    (bad(frame_times=np.zeros(60)), "frame times: expected strictly increasing"),
    (bad(pooling="median"), "pooling: expected mean, mean-std"),
    (bad(pooling="tangent"), "pooling: expected what a single scan decides, found tangent"),
    (bad(pooling=3), "pooling: expected a name, found 3"),
]


@pytest.mark.parametrize("ask, sentence", REFUSED, ids=[sentence[:50] for _, sentence in REFUSED])
def test_refused(ask, sentence, model, one):
    with pytest.raises(bdo.DataError) as raised:
        ask(model, *one)
    assert sentence in str(raised.value)


def test_partly_missing_regions(model, one):
    series, tr, names = one
    holes = series.copy()
    holes[3, 2] = np.nan
    with pytest.raises(ValueError, match="a region that is NaN in all frames or in none, found 1 of 60"):
        model.embed(holes, tr=tr, regions=names)
    holes[:, 2] = np.nan
    assert np.isfinite(model.embed(holes, tr=tr, regions=names)).all()


def test_files_and_folders(tmp_path, run):
    with pytest.raises(bdo.FileError, match="config.json"):
        bdo.load(tmp_path)
    with pytest.raises(bdo.ModelError, match="expected a model directory, found a run; its model is"):
        bdo.load(run.folder)
    with pytest.raises(bdo.CohortError, match="is not a cohort: expected a folder with cohort.json"):
        bdo.Cohort(tmp_path)
    with pytest.raises(bdo.UsageError, match="--pooling"):
        bdo.call("probe", model=run.folder / "model", data="c", target="age", out="o", pooling="none")
    with pytest.raises(bdo.CohortError, match="nothing-here is not a cohort"):
        bdo.pretrain("nothing-here", out=tmp_path / "run")
    assert issubclass(bdo.FileError, OSError) and issubclass(bdo.DataError, ValueError)


def test_a_model_is_copied_and_pickled(model, one):
    import copy

    series, tr, names = one
    again = pickle.loads(pickle.dumps(model))
    assert again == model and copy.deepcopy(model) is model
    assert np.array_equal(again.embed(series, tr=tr, regions=names), model.embed(series, tr=tr, regions=names))


def test_scans_unlike_those_known_are_warned_about(model, one):
    series, tr, names = one
    with pytest.warns(bdo.UnfamiliarWarning, match="outside what the model knows.*: 1 scans"):
        model.embed(series, tr=60.0, regions=names)
    with pytest.raises(bdo.DataError, match="expected scans like those the model knows, found 1 outside"):
        model.embed(series, tr=60.0, regions=names, strict=True)


@pytest.mark.filterwarnings("ignore:no calibration")
def test_times_that_are_asked_for(model, one):
    series, tr, names = one
    times = [1.5 * tr, 3.25 * tr]
    found = model.reconstruct(series, tr=tr, regions=names, times=times)
    assert np.allclose(found.times, times) and found.mean.shape == found.sd.shape == (2, len(names))
    assert (found.sd > 0).all() and found.frame().shape == (2, len(names) + 2)
    filled = model.impute(series, tr=tr, regions=names, hidden=np.arange(len(series)) == 5)
    assert filled.kinds[5] == "hidden" and filled.sd[5].min() > 0 and filled.sd[4].max() == 0
    assert np.allclose(np.delete(filled.mean, 5, axis=0), np.delete(series, 5, axis=0), rtol=1e-4, atol=1e-4)
    assert model.forecast(series, tr=tr, regions=names, horizon=3).mean.shape == (3, len(names))
    with pytest.raises(bdo.DataError, match="times: expected"):
        model.reconstruct(series, tr=tr, regions=names, times=[-1.0])
    with pytest.raises(bdo.DataError, match="hidden: expected 60 values, found 2"):
        model.impute(series, tr=tr, regions=names, hidden=[True, False])
