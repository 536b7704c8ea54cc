"""Goldens of scores, linear probes, resampling statistics and harmonisation, by scikit-learn, scipy, numpy and neuroCombat.

    python tools/reference/make_statistics_goldens.py

Writes testdata/golden/statistics.json. neuroCombat 0.2.12 stops its alternating estimates at a relative change of 1e-4; here it
runs on to 1e-13, so that the fixed point is compared and not the place where two programs stop on the way to it.
"""

import json
import sys
from pathlib import Path

import neuroCombat  # noqa: F401 (loads the module of the same name)
import numpy as np
import pandas as pd
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    brier_score_loss,
    f1_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)
from sklearn.preprocessing import StandardScaler

combat_module = sys.modules["neuroCombat.neuroCombat"]
OUT = Path(__file__).resolve().parents[2] / "testdata" / "golden" / "statistics.json"


def calibration_error(truth, probabilities, bins=10):
    confidence, predicted = probabilities.max(axis=1), probabilities.argmax(axis=1)
    error = 0.0
    edges = np.clip((confidence * bins).astype(int), 0, bins - 1)
    for b in range(bins):
        inside = edges == b
        if inside.any():
            gap = abs((predicted[inside] == truth[inside]).mean() - confidence[inside].mean())
            error += inside.mean() * gap
    return error


def classification(rng, n, classes, ties):
    truth = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    logits = rng.normal(size=(n, classes)) + 1.2 * np.eye(classes)[truth]
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    if ties:
        # Multiples of a power of two are exact, so that ties are ties in every program.
        p = np.round(p * 8) / 8
        p[:, -1] = 1 - p[:, :-1].sum(axis=1)
    binary = classes == 2
    onehot = np.eye(classes)[truth]
    return {
        "truth": truth.tolist(),
        "classes": classes,
        "probabilities": p.ravel().tolist(),
        "accuracy": accuracy_score(truth, p.argmax(axis=1)),
        "balanced_accuracy": balanced_accuracy_score(truth, p.argmax(axis=1)),
        "macro_f1": f1_score(truth, p.argmax(axis=1), average="macro"),
        "auc": roc_auc_score(truth, p[:, 1]) if binary else roc_auc_score(truth, p, multi_class="ovr"),
        "brier": brier_score_loss(truth, p[:, 1]) if binary else float(((p - onehot) ** 2).sum(axis=1).mean()),
        "calibration_error": float(calibration_error(truth, p)),
        "log_loss": log_loss(truth, p),
    }


def regression(rng, n):
    truth = rng.normal(40, 12, n)
    predicted = truth * 0.6 + rng.normal(15, 8, n)
    spread = 11.3
    return {
        "truth": truth.tolist(),
        "predicted": predicted.tolist(),
        "spread": spread,
        "mse": float((((truth - predicted) / spread) ** 2).mean()),
        "mae": mean_absolute_error(truth, predicted),
        "rho": stats.pearsonr(truth, predicted).statistic,
        "r2": r2_score(truth, predicted),
    }


def linear(rng, n, width, classes):
    """A design (narrow or wide) with what ridge and logistic regression make of it after StandardScaler."""
    x = np.round(rng.normal(size=(n + 5, width)) * rng.uniform(0.5, 3, width) + rng.normal(size=width), 6)
    weights = rng.normal(size=width) / np.sqrt(width)
    y = x @ weights + rng.normal(size=n + 5)
    codes = rng.integers(0, classes, n + 5)
    codes[:classes] = np.arange(classes)
    x[np.arange(n + 5), codes] += 1.0
    x, y = np.round(x, 6), np.round(y, 6)
    scaler = StandardScaler().fit(x[:n])
    z = scaler.transform(x)
    alphas = [0.3, 5.0, 80.0]
    ridge = [Ridge(alpha=a, solver="cholesky").fit(z[:n], y[:n]).predict(z[n:]).tolist() for a in alphas]
    cv = RidgeCV(alphas=alphas, store_cv_results=True).fit(z[:n], y[:n])
    logistic = []
    for a in alphas:
        solver = "newton-cholesky" if width < n else "lbfgs"
        fit = LogisticRegression(C=1 / a, tol=1e-13, solver=solver, max_iter=100000).fit(z[:n], codes[:n])
        logistic.append(fit.predict_proba(z[n:]).ravel().tolist())
    return {
        "rows": n,
        "width": width,
        "classes": classes,
        "x": x.ravel().tolist(),
        "y": y.tolist(),
        "codes": codes.tolist(),
        "penalties": alphas,
        "ridge": ridge,
        "ridge_left_out_mse": cv.cv_results_.mean(axis=0).tolist(),
        "logistic": logistic,
    }


def resampling(rng):
    values = rng.normal(size=37)
    differences = rng.normal(0.02, 0.01, 6)
    ratio = 0.25
    n = len(differences)
    t = differences.mean() / np.sqrt(differences.var(ddof=1) * (1 / n + ratio))
    p = rng.uniform(size=15) ** 2
    p[3] = p[7]
    return {
        "percentile": {
            "values": values.tolist(),
            "q": [0.0, 0.025, 0.31, 0.5, 0.975, 1.0],
            "result": np.quantile(values, [0.0, 0.025, 0.31, 0.5, 0.975, 1.0]).tolist(),
        },
        "corrected_t": {
            "differences": differences.tolist(),
            "test_over_train": ratio,
            "t": float(t),
            "p": float(2 * stats.t.sf(abs(t), n - 1)),
        },
        "student": [[t, df, float(2 * stats.t.sf(abs(t), df))] for t in (0.0, 0.3, 2.5, 9.0) for df in (1, 2, 4, 9, 29, 400)],
        "false_discovery": {"p": p.tolist(), "q": stats.false_discovery_control(p).tolist()},
        "exact_permutation": exact_permutation(),
    }


def exact_permutation():
    """All 5,040 orders of seven people: the p that random permutations must come close to."""
    truth = np.array([0.3, 1.1, 1.9, 2.2, 3.5, 3.9, 5.2])
    predicted = np.array([0.9, 0.1, 1.0, 2.9, 1.8, 2.5, 3.0])
    test = stats.permutation_test(
        (truth,),
        lambda x: stats.pearsonr(x, predicted).statistic,
        permutation_type="pairings",
        n_resamples=np.inf,
        alternative="greater",
        vectorized=False,
    )
    return {"truth": truth.tolist(), "predicted": predicted.tolist(), "p": float(test.pvalue)}


def combat(rng):
    n, width = 36, 6
    site = np.array(["a", "b", "c"])[np.arange(n) % 3]
    age = np.round(rng.normal(30, 8, n) * 8) / 8
    shift = {"a": 0.0, "b": 1.5, "c": -0.7}
    scale = {"a": 1.0, "b": 1.8, "c": 0.6}
    x = np.stack([shift[s] * rng.uniform(0.5, 1.5, width) + scale[s] * rng.normal(size=width) for s in site])
    x = np.round(x + 0.05 * age[:, None] + np.arange(width), 6)
    combat_module.it_sol.__defaults__ = (1e-13,)
    made = combat_module.neuroCombat(dat=x.T, covars=pd.DataFrame({"site": site}), batch_col="site")
    return {
        "width": width,
        "sites": site.tolist(),
        "x": x.ravel().tolist(),
        "harmonised": made["data"].T.ravel().tolist(),
    }


def main():
    rng = np.random.default_rng(20260101)
    goldens = {
        "classification": [classification(rng, 60, 2, False), classification(rng, 60, 2, True), classification(rng, 70, 4, False)],
        "regression": regression(rng, 50),
        "linear": [linear(rng, 40, 6, 2), linear(rng, 24, 60, 2), linear(rng, 45, 5, 3), linear(rng, 30, 50, 3)],
        "resampling": resampling(rng),
        "combat": [combat(rng)],
    }
    OUT.write_text(json.dumps(goldens) + "\n")
    print(OUT, OUT.stat().st_size, "bytes")


main()
