"""The transformer among scikit-learn's own things."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

import bdo


@pytest.fixture(scope="module")
def scans(cohort):
    people = cohort.participants()
    return np.stack(list(cohort)), (people["sex"] == "F").to_numpy(dtype=int)


def transformer(cohort, model, **options):
    return bdo.Embedding(model, tr=cohort.tr(0), regions=cohort.regions, **options)


@pytest.mark.filterwarnings("ignore:Can't test estimator")
def test_checks_of_scikit_learn(cohort, model):
    results = check_estimator(transformer(cohort, model), on_fail=None)
    assert results and all(result["status"] == "passed" for result in results)


# What is asked without handing over a 2-D array of features, where a sample is a row: `check_estimator` leaves these out together
# with the others for an estimator of scans.
WITHOUT_ROWS = [
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_dont_overwrite_parameters",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_fit_returns_self",
    "check_estimators_overwrite_params",
    "check_estimators_unfitted",
    "check_fit_check_is_fitted",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_transformer_n_iter",
    "check_transformers_unfitted",
    "check_valid_tag_types",
]


@pytest.mark.parametrize("name", WITHOUT_ROWS)
def test_checks_without_rows(name, cohort, model):
    check = getattr(estimator_checks, name)
    check("Embedding", transformer(cohort, model))


def test_what_the_skipped_checks_ask_for(cohort, model, scans):
    """scikit-learn tests only estimators of 2-D arrays further; the same questions on scans."""
    X, y = scans
    embedding = transformer(cohort, model)
    before = dict(vars(embedding))
    expected = model.embed(list(X), tr=cohort.tr(0), regions=cohort.regions)
    assert np.array_equal(embedding.fit(X, y).transform(X), expected)
    assert np.array_equal(embedding.fit_transform(X, y), expected)
    assert {name: vars(embedding)[name] for name in before} == before
    order = np.random.default_rng(0).permutation(len(X))
    assert np.array_equal(embedding.transform(X[order]), expected[order])
    assert np.array_equal(np.concatenate([embedding.transform(X[i : i + 1]) for i in range(4)]), expected[:4])
    again = pickle.loads(pickle.dumps(embedding))
    assert np.array_equal(again.transform(X), expected)
    assert clone(embedding).get_params()["model"] is model
    assert list(embedding.get_feature_names_out()[:2]) == ["bdo0", "bdo1"]
    assert np.array_equal(bdo.Embedding(str(model.folder)).fit().transform(cohort), model.embed(cohort))
    with pytest.raises(bdo.DataError, match="X: expected scans"):
        embedding.transform(X[0])


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
