"""Golden of the linear probe: Adam with a cosine in PyTorch, in double precision.

    python tools/reference/make_probe_goldens.py

Writes testdata/golden/probe.json: inputs, labels, start, order of every epoch and the parameters after each epoch, once for
two classes and once for a number.
"""

import json
from pathlib import Path

import numpy as np
import torch

SCANS, WIDTH, EPOCHS, BATCH = 37, 11, 6, 16
FIRST, LEAST = 1e-2, 1e-3


def run(classes: bool) -> dict:
    rng = np.random.default_rng(7 if classes else 8)
    inputs = rng.normal(size=(SCANS, WIDTH)).astype(np.float32)
    signal = inputs @ rng.normal(size=WIDTH) + rng.normal(size=SCANS)
    labels = (signal > 0).astype(np.float64) if classes else (signal - signal.mean()) / signal.std()
    head = torch.nn.Linear(WIDTH, 1, dtype=torch.float64)
    start = rng.uniform(-0.3, 0.3, size=WIDTH + 1)
    with torch.no_grad():
        head.weight.copy_(torch.tensor(start[None, :WIDTH]))
        head.bias.copy_(torch.tensor(start[WIDTH:]))
    steps = EPOCHS * -(-SCANS // BATCH)
    adam = torch.optim.Adam(head.parameters(), lr=FIRST)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, T_max=steps, eta_min=LEAST)
    loss_of = torch.nn.BCEWithLogitsLoss() if classes else torch.nn.MSELoss()
    x, y = torch.tensor(inputs, dtype=torch.float64), torch.tensor(labels)
    orders, after = [], []
    for _ in range(EPOCHS):
        order = rng.permutation(SCANS)
        orders.append(order.tolist())
        for begin in range(0, SCANS, BATCH):
            batch = order[begin : begin + BATCH]
            adam.zero_grad()
            loss_of(head(x[batch])[:, 0], y[batch]).backward()
            adam.step()
            schedule.step()
        after.append(head.weight.detach()[0].tolist() + head.bias.detach().tolist())
    return {
        "classes": classes,
        "width": WIDTH,
        "epochs": EPOCHS,
        "batch_size": BATCH,
        "learning_rate": FIRST,
        "least_learning_rate": LEAST,
        "inputs": [float(v) for v in inputs.ravel()],
        "labels": labels.tolist(),
        "start": start.tolist(),
        "orders": orders,
        "after": after,
    }


if __name__ == "__main__":
    path = Path(__file__).resolve().parents[2] / "testdata" / "golden" / "probe.json"
    path.write_text(json.dumps({"torch": torch.__version__.split("+")[0], "cases": [run(True), run(False)]}) + "\n")
