"""Trials of what the mean control should hold, in NumPy, outside the program (docs/results/learning.md quotes them).

    python3 fingerprints.py labels   COHORT     ridge regressions of bands of frequencies, alone and as sums of kernels, on three labels
    python3 fingerprints.py sessions TRAIN TWO  people found again over two sessions, by what is compared

COHORT is a folder of `bdo ingest` (ABIDE: columns DX_GROUP, SEX, AGE_AT_SCAN). Needs numpy, scipy, scikit-learn and pyarrow.
Labels: ten random splits; fitted on 60 % of the people, scored on 20 %; the last 20 % are never looked at.
"""

import csv
import glob
import sys

import numpy as np
import pyarrow.ipc
from scipy.signal import butter, sosfiltfilt
from sklearn.metrics import roc_auc_score

WIDTH = 192
SPLITS = 10


def scans(folder):
    """Subject, repetition time and series of every scan; regions without a signal are 0."""
    for path in sorted(glob.glob(f"{folder}/scans/part-*.arrow")):
        reader = pyarrow.ipc.open_file(path)
        for k in range(reader.num_record_batches):
            batch = reader.get_batch(k)
            rows = batch.column("series").values
            series = rows.flatten().to_numpy(zero_copy_only=False).reshape(-1, rows.type.list_size).astype(float)
            heard = np.isfinite(series).all(0) & (series.std(0) > 1e-9)
            series = np.where(heard, series, 0.0)
            yield batch.column("subject")[0].as_py(), batch.column("tr_seconds")[0].as_py(), series - series.mean(0)


def unit(series):
    """Columns of length 1, or 0."""
    centred = series - series.mean(0)
    length = np.sqrt((centred**2).sum(0))
    return np.where(length > 1e-9, centred / np.maximum(length, 1e-9), 0.0)


def correlations(series):
    columns = unit(series)
    whole = columns.T @ columns
    return whole[np.triu_indices(len(whole), 1)]


def ridge(series, penalty=1 / 40):
    """Coefficients of each region on all, as the program has them: R (R + c)^-1."""
    columns, regions = unit(series), series.shape[1]
    c = penalty * regions
    if len(columns) < regions:
        whole = columns.T @ np.linalg.solve(columns @ columns.T + c * np.eye(len(columns)), columns)
    else:
        products = columns.T @ columns
        whole = products @ np.linalg.inv(products + c * np.eye(regions))
    return whole[np.triu_indices(regions)]


def band(low, high):
    """Frequencies from `low` to `high` Hz, where 0 and None leave that end open."""

    def kept(series, tr):
        nyquist = 0.5 / tr
        if high is None:
            return sosfiltfilt(butter(2, min(low, 0.8 * nyquist) / nyquist, "high", output="sos"), series, axis=0)
        top = min(high, 0.95 * nyquist) / nyquist
        if low == 0:
            return sosfiltfilt(butter(2, top, "low", output="sos"), series, axis=0)
        return sosfiltfilt(butter(2, [low / nyquist, top], "band", output="sos"), series, axis=0)

    return kept


def coordinates(features, training):
    """Principal coordinates of the training people, of unit variance among them; also the scale of each."""
    away = features - features[training].mean(0)
    products = away @ away[training].T
    values, vectors = np.linalg.eigh(products[training])
    values, vectors = values[::-1][:WIDTH], vectors[:, ::-1][:, :WIDTH]
    return np.clip(products @ (vectors / values) * np.sqrt(len(training)), -4, 4), np.sqrt(values / len(training))


def predicted(kernel, label, training, asked):
    """Kernel ridge; the penalty by leaving out one training person at a time."""
    inner = kernel[np.ix_(training, training)]
    means, mean = inner.mean(0), inner.mean()
    cross = kernel[np.ix_(asked, training)]
    cross = cross - cross.mean(1, keepdims=True) - means + mean
    values, vectors = np.linalg.eigh(inner - means - means[:, None] + mean)
    centred = label[training] - label[training].mean()

    def left_out(penalty):
        hat = (vectors * (values / (values + penalty))) @ vectors.T
        return (((centred - hat @ centred) / (1 - np.diag(hat) - 1 / len(training))) ** 2).mean()

    penalty = min(np.geomspace(1e-3, 1e2, 18) * values.mean(), key=left_out)
    return cross @ (vectors @ ((vectors.T @ centred) / (values + penalty)))


def labels(folder):
    with open(f"{folder}/participants.tsv", newline="", encoding="utf-8") as table:
        people = {row["participant_id"]: row for row in csv.DictReader(table, delimiter="\t")}
    everybody = list(scans(folder))
    number = lambda name: np.array([float(people[who][name]) for who, _, _ in everybody])
    targets = [number("DX_GROUP") == 1, number("SEX") == 2, number("AGE_AT_SCAN")]
    views = {"all": None, "0-0.05": band(0, 0.05), "0-0.1": band(0, 0.1), "0.01-0.1": band(0.01, 0.1)}
    views |= {"0.05-0.1": band(0.05, 0.1), "0.05-": band(0.05, None), "0.1-": band(0.1, None)}
    features = {
        name: np.array([ridge(kept(x, tr) if kept else x) for _, tr, x in everybody], dtype=np.float32)
        for name, kept in views.items()
    }
    rows = [[name] for name in views]
    rows += [["0-0.05", "0.05-"], ["all", "0.05-"], ["0-0.05", "0.05-0.1", "0.1-"], ["all", "0-0.05", "0.05-0.1", "0.1-"]]
    found = {" + ".join(row): [] for row in rows}
    for split in range(SPLITS):
        order = np.random.default_rng(1000 + split).permutation(len(everybody))
        fifth = len(everybody) // 5
        training, asked = order[2 * fifth :], order[fifth : 2 * fifth]
        told = {name: coordinates(x.astype(float), training)[0] for name, x in features.items()}
        for row in rows:
            kernel = sum(told[name] @ told[name].T for name in row)
            scores = []
            for target in targets:
                said = predicted(kernel, target.astype(float), training, asked)
                classes = target.dtype == bool
                scores.append(roc_auc_score(target[asked], said) if classes else np.corrcoef(said, target[asked])[0, 1])
            found[" + ".join(row)].append(scores)
    print("Hz                            autism   sex     age    difference to all, with its standard error over splits")
    for name, scores in found.items():
        away = np.array(scores) - np.array(found["all"])
        error = away.std(0) / np.sqrt(SPLITS)
        less = "  ".join(f"{d:+.3f} ({e:.3f})" for d, e in zip(away.mean(0), error))
        print(f"{name:<28}  {'   '.join(f'{x:.3f}' for x in np.mean(scores, 0))}   {less}")


def sessions(training, two):
    known, asked = list(scans(training)), list(scans(two))
    who = np.array([subject for subject, _, _ in asked])

    def again(rows):
        rows = rows - rows.mean(0)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        alike = rows @ rows.T
        np.fill_diagonal(alike, -2)
        return 100 * (who[alike.argmax(1)] == who).mean()

    for name, feature in [("correlations", correlations), ("ridge", ridge)]:
        rows = np.array([feature(x) for _, _, x in known + asked])
        told, scale = coordinates(rows, np.arange(len(known)))
        both = {"as they are": rows, "principal coordinates": told * scale, "the same, unit variance": told}
        for how, values in both.items():
            print(f"{name}, {how}: {again(values[len(known):]):.1f} % found again")


if __name__ == "__main__":
    if sys.argv[1:2] == ["labels"] and len(sys.argv) == 3:
        labels(sys.argv[2])
    elif sys.argv[1:2] == ["sessions"] and len(sys.argv) == 4:
        sessions(*sys.argv[2:])
    else:
        sys.exit(__doc__)
