"""The same numbers as the program, bit for bit."""

import json

import numpy as np
import pyarrow.parquet as parquet
import pytest

import bdo


def scans(cohort):
    numbers = range(len(cohort))
    return [cohort.series(i) for i in numbers], [cohort.tr(i) for i in numbers]


@pytest.mark.parametrize("pooling", ["mean", "mean-std", "mean-movement", "covariance", "log-covariance", "coupling"])
def test_features(pooling, cohort, model, program, tmp_path):
    program("embed", "--model", model.folder, "--data", cohort.folder, "--pooling", pooling, "--out", tmp_path / "f.npy")
    expected = np.load(tmp_path / "f.npy")
    series, tr = scans(cohort)
    arrays = model.embed(series, tr=tr, regions=cohort.regions, pooling=pooling)
    assert arrays.dtype == np.float32 and arrays.tobytes() == expected.astype(np.float32).tobytes()
    assert model.embed(cohort, pooling=pooling).tobytes() == arrays.tobytes()
    assert arrays.shape == (len(cohort), model.feature_width(pooling))


def test_one_scan_has_the_features_it_has_among_others(cohort, model):
    series, tr = scans(cohort)
    together = model.embed(series, tr=tr, regions=cohort.regions)
    alone = [model.embed(s, tr=t, regions=cohort.regions)[0] for s, t in zip(series[:5], tr)]
    assert np.array_equal(np.stack(alone), together[:5])


@pytest.mark.parametrize("question", ["reconstruct", "impute", "forecast"])
@pytest.mark.filterwarnings("ignore:no calibration")
def test_posterior(question, cohort, model, program, tmp_path, work):
    # Somebody the model was not trained on, so that the program fits no bands on the way.
    others = bdo.simulate(tmp_path / "others", subjects=2, regions=len(cohort.regions), frames=50, seed=7)
    program("infer", question, "--model", model.folder, "--data", others.folder, "--out", tmp_path / "out", "--no-bids")
    table = parquet.read_table(tmp_path / "out" / "posterior.parquet").to_pandas()
    for i, name in enumerate(others.names):
        rows = table[table["scan"] == name]
        if question == "forecast":
            rows = rows[rows["kind"] == "asked"]
        ask = getattr(model, question)
        found = ask(others.series(i), tr=others.tr(i), regions=others.regions, frame_times=others.frame_times(i), scan=i)
        assert np.array_equal(found.mean, np.stack(rows["mean"]))
        assert np.array_equal(found.sd, np.stack(rows["sd"]))
        assert found.kinds == list(rows["kind"])


def test_probe(cohort, model, program, tmp_path):
    words = ["--model", model.folder, "--data", cohort.folder, "--target", "age", "--seeds", "0", "--epochs", "3"]
    said = json.loads(program("probe", *words, "--out", tmp_path / "a", "--json"))
    found = bdo.probe(model, cohort, "age", tmp_path / "b", seeds=0, epochs=3)
    assert found["summary"] == said["summary"] and found["seeds"] == said["seeds"]


def test_regions_the_model_does_not_know_are_refused_with_the_same_sentence(cohort, model, program, tmp_path):
    series, tr = scans(cohort)
    for names in (cohort.regions[:-1] + ["elsewhere"], [f"r{i}" for i in range(12)], [str(i) for i in range(12)]):
        others = bdo.Cohort.store(tmp_path / names[0], series[:2], tr=tr[:2], regions=names, atlas="synthetic-12")
        said = program("embed", "--model", model.folder, "--data", others.folder, "--out", tmp_path / "f.npy", status=2)
        with pytest.raises(bdo.DataError) as raised:
            model.embed(series[0], tr=tr[0], regions=names)
        assert str(raised.value) in said, said
        with pytest.raises(bdo.DataError) as raised:
            model.embed(others)
        assert str(raised.value) in said, said
