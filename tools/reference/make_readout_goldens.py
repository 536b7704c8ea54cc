"""Golden of the readout of a control: scikit-learn's ridge and NumPy's correlations.

    python tools/reference/make_readout_goldens.py

Writes testdata/golden/readout.json: controls and regions of three scans (a region of the second is missing), the weights of a
ridge regression from control to unit regions over all frames, and correlations of the first scan.
"""

import json
from pathlib import Path

import numpy as np
import sklearn
from sklearn.linear_model import Ridge

WIDTH, REGIONS, PENALTY = 5, 4, 1e-6
FRAMES = (40, 55, 30)


def unit(columns: np.ndarray) -> np.ndarray:
    centred = columns - columns.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    return np.divide(centred, length, out=np.zeros_like(centred), where=length > 1e-10)


if __name__ == "__main__":
    rng = np.random.default_rng(11)
    strength = np.array([50.0, 1.0, 0.2, 3.0, 0.01])
    mixing = rng.normal(size=(REGIONS, WIDTH))
    scans = []
    for number, frames in enumerate(FRAMES):
        source = rng.normal(size=(frames, WIDTH))
        control = (source * strength + 2.0).astype(np.float32)
        regions = (source @ mixing.T + 0.5 * rng.normal(size=(frames, REGIONS))).astype(np.float32)
        valid = [True] * REGIONS
        if number == 1:
            regions[:, 2], valid[2] = 0.0, False
        scans.append((control, regions, valid))
    rows = [(c - c.mean(axis=0, dtype=np.float64)) / np.sqrt(len(c)) for c, _, _ in scans]
    inputs, outputs = np.concatenate(rows), np.concatenate([unit(r.astype(np.float64)) for _, r, _ in scans])
    size = np.sqrt((inputs**2).sum(axis=0))
    fit = Ridge(alpha=PENALTY, fit_intercept=False, solver="cholesky").fit(inputs / size, outputs)
    weights = fit.coef_ / size
    explained = ((inputs / size).T @ outputs * fit.coef_.T).sum() / sum(sum(valid) for _, _, valid in scans)
    spectrum = np.linalg.eigvalsh(inputs.T @ inputs)
    said = scans[0][0].astype(np.float64) @ weights.T
    both = np.corrcoef(scans[0][1].astype(np.float64), said, rowvar=False)
    golden = {
        "scikit-learn": sklearn.__version__,
        "width": WIDTH,
        "scans": [
            {"control": [float(v) for v in c.ravel()], "regions": [float(v) for v in r.ravel()], "valid": v}
            for c, r, v in scans
        ],
        "weights": weights.ravel().tolist(),
        "explained": float(explained),
        "directions": float(spectrum.sum() ** 2 / (spectrum**2).sum()),
        "coupling": both[:REGIONS, REGIONS:].ravel().tolist(),
        "between_said": np.arctanh(both[REGIONS:, REGIONS:][np.triu_indices(REGIONS, 1)]).tolist(),
    }
    path = Path(__file__).resolve().parents[2] / "testdata" / "golden" / "readout.json"
    path.write_text(json.dumps(golden) + "\n")
