"""The transformer among scikit-learn's own things."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import bdo


@pytest.fixture(scope="module")
def scans(cohort):
    people = cohort.participants()
    return np.stack(list(cohort)), (people["sex"] == "F").to_numpy(dtype=int)


def transformer(cohort, model, **options):
    return bdo.Embedding(model, tr=cohort.tr(0), regions=cohort.regions, **options)


ROWS = "hands rows of features to transform; a sample is a scan, and an array of two dimensions is refused"

# Checks of scikit-learn that cannot pass, each with its reason. `test_what_these_checks_ask_for` asks the same on scans.
NOT_FOR_SCANS = {
    "check_dict_unchanged": ROWS,
    "check_estimators_dtypes": ROWS,
    "check_estimators_pickle": ROWS,
    "check_f_contiguous_array_estimator": ROWS,
    "check_fit_idempotent": ROWS,
    "check_fit_score_takes_y": ROWS,
    "check_methods_sample_order_invariance": ROWS,
    "check_methods_subset_invariance": ROWS,
    "check_pipeline_consistency": ROWS,
    "check_transformer_general": ROWS,
    "check_transformer_preserve_dtypes": ROWS,
    "check_transformers_unfitted_stateless": ROWS,
}


class AsRows(bdo.Embedding):
    """The same transformer with the tags of one of rows: for one of scans, scikit-learn runs a single check and leaves the others."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = True, False
        return tags


@pytest.mark.filterwarnings("ignore:Can't test estimator")
def test_checks_of_scikit_learn(cohort, model):
    results = check_estimator(transformer(cohort, model), on_fail=None)
    assert results and all(result["status"] == "passed" for result in results)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_every_check_of_scikit_learn(cohort, model):
    estimator = AsRows(model, tr=cohort.tr(0), regions=cohort.regions)
    results = check_estimator(estimator, expected_failed_checks=NOT_FOR_SCANS, on_fail=None)
    named = {status: set() for status in ("passed", "xfail", "skipped", "failed")}
    for result in results:
        named[result["status"]].add(result["check_name"])
        if result["status"] == "xfail":
            assert "X: expected scans" in str(result["exception"]), result
    assert named["failed"] == set()
    # None of the list passes, and each of it was run.
    assert named["xfail"] == set(NOT_FOR_SCANS) and not named["passed"] & set(NOT_FOR_SCANS)
    assert named["skipped"] <= {"check_array_api_input"} and len(named["passed"]) >= 23


def test_what_these_checks_ask_for(cohort, model, scans):
    """The questions of the checks that cannot pass, on scans."""
    X, y = scans
    embedding = transformer(cohort, model)
    before = dict(vars(embedding))
    expected = model.embed(list(X), tr=cohort.tr(0), regions=cohort.regions)
    assert np.array_equal(embedding.fit(X, y).transform(X), expected)
    assert np.array_equal(embedding.fit_transform(X, y), expected)
    assert {name: vars(embedding)[name] for name in before} == before
    assert np.array_equal(embedding.fit(X).fit(X).transform(X), expected)
    assert np.array_equal(clone(embedding).transform(X), expected), "unfitted"
    assert np.array_equal(make_pipeline(embedding).fit_transform(X, y), expected)
    for kind in (X.astype(np.float64), np.asfortranarray(X), list(X)):
        found = embedding.transform(kind)
        assert found.dtype == np.float32 and np.array_equal(found, expected)
    order = np.random.default_rng(0).permutation(len(X))
    assert np.array_equal(embedding.transform(X[order]), expected[order])
    assert np.array_equal(np.concatenate([embedding.transform(X[i : i + 1]) for i in range(4)]), expected[:4])
    again = pickle.loads(pickle.dumps(embedding))
    assert np.array_equal(again.transform(X), expected)
    assert clone(embedding).get_params()["model"] is model
    assert list(embedding.get_feature_names_out()[:2]) == ["bdo0", "bdo1"]
    assert np.array_equal(bdo.Embedding(str(model.folder)).fit().transform(cohort), model.embed(cohort))
    with pytest.raises(bdo.DataError, match="X: expected scans .* found one array"):
        embedding.transform(X[0])
    with pytest.raises(bdo.DataError, match="X: expected scans .* found a sparse matrix"):
        embedding.fit(csr_array(X[0]))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_in_a_pipeline(cohort, model, scans):
    X, y = scans
    pipe = make_pipeline(transformer(cohort, model), StandardScaler(), LogisticRegression(max_iter=500))
    assert len(cross_val_score(pipe, X, y, cv=3)) == 3
    search = GridSearchCV(pipe, {"embedding__pooling": ["mean", "mean-std"]}, cv=2, n_jobs=2)
    assert search.fit(X, y).best_params_["embedding__pooling"] in ("mean", "mean-std")


def test_output_of_a_masker_of_nilearn(cohort, model):
    nibabel = pytest.importorskip("nibabel")
    maskers = pytest.importorskip("nilearn.maskers")
    regions = len(cohort.regions)
    labels = np.zeros((6, 6, 6), dtype=np.int16)
    labels.ravel()[: 8 * regions] = np.repeat(np.arange(1, regions + 1), 8)
    image = np.zeros((6, 6, 6, 60), dtype=np.float32)
    image.reshape(-1, 60)[: 8 * regions] = np.repeat(cohort.series(0).T, 8, axis=0)
    atlas, scan = nibabel.Nifti1Image(labels, np.eye(4)), nibabel.Nifti1Image(image, np.eye(4))
    series = maskers.NiftiLabelsMasker(atlas, standardize=None).fit_transform(scan)
    found = model.embed(series, tr=cohort.tr(0), regions=cohort.regions)
    assert np.allclose(found, model.embed(cohort.series(0), tr=cohort.tr(0), regions=cohort.regions), atol=1e-4)
