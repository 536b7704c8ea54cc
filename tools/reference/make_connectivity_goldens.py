"""Goldens of connectivity in the geometry of covariance matrices, and of sums of kernels, by scikit-learn and scipy.

    python tools/reference/make_connectivity_goldens.py

Writes testdata/golden/connectivity.json.
"""

import json
from pathlib import Path

import numpy as np
from scipy.linalg import expm, fractional_matrix_power, logm, sqrtm
from sklearn.covariance import LedoitWolf
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

OUT = Path(__file__).resolve().parents[2] / "testdata" / "golden" / "connectivity.json"


def rounded(values):
    """NaN is null: JSON has no other word for it."""
    return [None if np.isnan(x) else float(x) for x in np.ravel(values)]


def upper(matrix, present, regions):
    full = np.full((regions, regions), np.nan)
    full[np.ix_(present, present)] = matrix
    rows, columns = np.triu_indices(regions)
    return full[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))


def covariance(series):
    present = np.flatnonzero(series.std(axis=0) > 0)
    z = StandardScaler().fit_transform(series[:, present])
    return LedoitWolf().fit(z).covariance_, present


def completed(matrix, present, mean):
    """Missing regions as the mean covariance predicts them from those that are there."""
    regions = len(mean)
    absent = np.setdiff1d(np.arange(regions), present)
    if not len(absent):
        return matrix
    b = np.linalg.solve(mean[np.ix_(present, present)], mean[np.ix_(present, absent)]).T
    out = np.empty((regions, regions))
    out[np.ix_(present, present)] = matrix
    out[np.ix_(absent, present)] = b @ matrix
    out[np.ix_(present, absent)] = (b @ matrix).T
    rest = mean[np.ix_(absent, absent)] - b @ mean[np.ix_(present, absent)]
    out[np.ix_(absent, absent)] = rest + b @ matrix @ b.T
    return out


def scans_case(seed, scans, train, frames, regions, missing):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(regions, regions))
    series = []
    for k in range(scans):
        mixing = common + 0.7 * rng.normal(size=(regions, regions))
        x = (rng.normal(size=(frames, regions)) @ mixing + 5.0).astype(np.float32)
        for region in missing.get(k, []):
            x[:, region] = 2.0
        series.append(x)
    found = [covariance(x.astype(np.float64)) for x in series]
    sums, counts = np.zeros((regions, regions)), np.zeros((regions, regions))
    for matrix, present in found[:train]:
        sums[np.ix_(present, present)] += matrix
        counts[np.ix_(present, present)] += 1
    mean = np.where(counts > 0, sums / np.maximum(counts, 1), np.eye(regions))
    assert np.linalg.eigvalsh(mean).min() > 1e-3
    whole = [completed(matrix, present, mean) for matrix, present in found]
    reference = expm(np.mean([logm(c) for c in whole[:train]], axis=0))
    whitener = fractional_matrix_power(reference, -0.5).real
    tangent, power = [], []
    for (matrix, present), c in zip(found, whole):
        at = logm(whitener @ c @ whitener).real
        tangent.append(rounded(upper(at[np.ix_(present, present)], present, regions)))
        power.append(rounded(upper(sqrtm(matrix).real, present, regions)))
    return {
        "regions": regions,
        "train": train,
        "series": [rounded(x) for x in series],
        "tangent": tangent,
        "power": power,
    }


def stack_case():
    """Two members of different size and width; kernels of unit mean diagonal over the training rows, weighted."""
    rng = np.random.default_rng(5)
    rows, train = 36, 26
    members = [rng.normal(size=(rows, 4)) * [1, 20, 0.1, 3] + 2.0, rng.normal(size=(rows, 60))]
    number = members[0][:, 0] + members[1][:, :5].sum(axis=1) * 0.4 + rng.normal(size=rows) * 0.3
    code = (number > np.median(number)).astype(int)
    kernels = []
    for x in members:
        z = StandardScaler().fit(x[:train]).transform(x)
        kernel = z @ z.T
        kernels.append(kernel / np.diag(kernel)[:train].mean())
    cases = []
    for weight in (0.0, 0.25, 0.75):
        kernel = weight * kernels[0] + (1 - weight) * kernels[1]
        penalty = 0.3
        mean = number[:train].mean()
        ridge = KernelRidge(alpha=penalty, kernel="precomputed").fit(kernel[:train, :train], number[:train] - mean)
        # The logistic regression of a kernel is that of any features with these products.
        values, vectors = np.linalg.eigh(kernel[:train, :train])
        keep = values > 1e-9 * values.max()
        scores = vectors[:, keep] * np.sqrt(values[keep])
        projected = kernel[train:, :train] @ vectors[:, keep] / np.sqrt(values[keep])
        logistic = LogisticRegression(C=1.0 / penalty, tol=1e-12, max_iter=100000).fit(scores, code[:train])
        cases.append(
            {
                "weight": weight,
                "penalty": penalty,
                "number": rounded(ridge.predict(kernel[train:, :train]) + mean),
                "probability": rounded(logistic.predict_proba(projected)[:, 1]),
            }
        )
    return {
        "train": train,
        "members": [{"width": x.shape[1], "values": rounded(x)} for x in members],
        "number": rounded(number),
        "code": [int(c) for c in code],
        "cases": cases,
    }


def main():
    golden = {
        "scans": {
            "long": scans_case(1, 6, 4, 80, 5, {}),
            "short": scans_case(2, 5, 3, 9, 12, {}),
            "missing": scans_case(3, 7, 5, 60, 6, {1: [2], 3: [0, 5], 6: [2, 4]}),
        },
        "stack": stack_case(),
    }
    OUT.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
