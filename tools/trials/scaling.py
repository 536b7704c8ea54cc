"""Whether heads should scale the numbers of a feature one by one or together: kernel ridge, penalty by validation people.

    bdo compare --data abide --targets DX_GROUP --methods bdo-mean --pretrain-minutes 1 --out table
    bdo embed --model table/pretraining/HASH/model --data abide --out HASH.npy      # HASH: first 16 digits of a split's blake3
    bdo embed --model run/model --data abide --out one.npy                          # one model for all people
    python tools/trials/scaling.py abide table/splits.json . DX_GROUP,SEX,AGE_AT_SCAN

Needs NumPy. Prints the mean over splits of the best score of validation people, and the test people's at that penalty.
"""

import json
import sys
from pathlib import Path

import numpy as np

PENALTIES = 10.0 ** np.arange(-3, 3.01, 0.5)


def auc(said, truth):
    ranks = np.argsort(np.argsort(said))
    n = truth.sum()
    return (ranks[truth == 1].sum() - n * (n - 1) / 2) / (n * (len(truth) - n))


def rho(said, truth):
    return np.corrcoef(said, truth)[0, 1]


def path(x, y, others):
    """Predictions for every penalty."""
    mean = x.mean(0)
    x, others = x - mean, others - mean
    size = (x**2).sum() / len(x)
    values, vectors = np.linalg.eigh(x @ x.T / size)
    weights, across = vectors.T @ (y - y.mean()), others @ x.T / size @ vectors
    return [across @ (weights / (values + penalty)) for penalty in PENALTIES]


def main(cohort, splits, folder, targets):
    header, *people = [line.split("\t") for line in (cohort / "participants.tsv").read_text().splitlines()]
    labels = {row[0]: dict(zip(header, row)) for row in people}
    for name in ["a model per split", "one model"]:
        for target in targets.split(","):
            words = sorted({row[target] for row in labels.values()})
            score, number = (auc, lambda w: float(w == words[0])) if len(words) == 2 else (rho, float)
            for how in ["one by one", "together"]:
                found = []
                for split in json.loads(splits.read_text())["splits"]:
                    stem = "one" if name == "one model" else split["blake3"][:16]
                    features = np.load(folder / f"{stem}.npy").astype(float)
                    ids, *rows = [line.split("\t") for line in (folder / f"{stem}.ids.tsv").read_text().splitlines()]
                    place = {row[ids.index("subject")]: i for i, row in enumerate(rows)}
                    y = np.array([number(labels[subject][target]) for subject in place])
                    train, validation, test = [[place[s] for s in split[part]] for part in ["train", "validation", "test"]]
                    spread = features[train].std(0)
                    if how == "one by one":
                        features = features / np.maximum(spread, 1e-5 * spread.max())
                    chosen = [score(p, y[validation]) for p in path(features[train], y[train], features[validation])]
                    tested = [score(p, y[test]) for p in path(features[train], y[train], features[test])]
                    found.append((max(chosen), tested[int(np.argmax(chosen))]))
                validation, test = np.mean(found, 0)
                print(f"{name}, {target}, {how}: validation {validation:.3f}, test {test:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
