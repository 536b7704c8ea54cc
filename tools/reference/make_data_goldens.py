"""Writes testdata/golden/data_goldens.json: robust scaling by numpy, optimisers and clipping by PyTorch.

Inputs are rounded to f32 before use and everything is computed in f64, as for the model goldens.
"""

import json

import numpy as np
import torch
from golden_folder import golden_folder

torch.set_default_dtype(torch.float64)
CONSTANT = 3.25  # a dyadic number, so that the mean of a constant region is exact in any order of summation


def f32_list(array) -> list:
    return np.asarray(array, dtype=np.float32).astype(np.float64).tolist()


def robust_scaling(scans: list[np.ndarray]) -> dict:
    """2.3 and 2.4: per scan and region remove the mean, then pool over scans; linear percentiles.

    A region that is constant in one scan is missing there: input 0 and outside the pooled statistics.
    A region whose IQR is below 1e-6 of the median IQR is missing everywhere: its median and IQR are
    reported as pooled, its output is 0.
    """
    regions = scans[0].shape[1]
    centred = [scan - scan.mean(axis=0) for scan in scans]
    present = np.array([np.ptp(scan, axis=0) > 0 for scan in scans])  # [scans, regions]
    median, iqr = np.zeros(regions), np.zeros(regions)
    for region in range(regions):
        pool = [c[:, region] for c, p in zip(centred, present) if p[region]]
        if pool:
            pooled = np.concatenate(pool)
            median[region] = np.median(pooled)
            low, high = np.percentile(pooled, [25, 75], method="linear")
            iqr[region] = high - low
    threshold = 1e-6 * np.median(iqr[iqr > 0])
    usable = iqr >= threshold
    divisor = np.where(usable, iqr, 1.0)
    valid = present & usable
    scaled = [np.where(v, (c - median) / divisor, 0.0) for c, v in zip(centred, valid)]
    return {
        "scans": [scan.tolist() for scan in scans],
        "scan_means": [scan.mean(axis=0).tolist() for scan in scans],
        "median": median.tolist(),
        "iqr": iqr.tolist(),
        "region_valid": valid.tolist(),
        "scaled": [s.tolist() for s in scaled],
    }


def make_cohort(seed: int, lengths: list[int], regions: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-1, 2, regions)
    offset = rng.normal(size=regions) * 100
    return [
        (offset + scale * (rng.standard_t(4, size=(n, regions)) + rng.normal(size=regions)))
        .astype(np.float32)
        .astype(np.float64)
        for n in lengths
    ]


def scaling_cases() -> dict:
    plain = make_cohort(1, [11, 8, 14], 5)
    everywhere = make_cohort(2, [11, 8, 14], 5)
    for scan in everywhere:
        scan[:, 2] = CONSTANT
    one_scan = make_cohort(3, [9, 12, 7], 5)
    one_scan[1][:, 3] = CONSTANT
    return {
        "plain": robust_scaling(plain),
        "constant_everywhere": robust_scaling(everywhere),
        "constant_in_one_scan": robust_scaling(one_scan),
    }


def percentile_cases() -> list[dict]:
    """Short vectors where the interpolation rule decides the answer, including ties and one element."""
    rng = np.random.default_rng(4)
    vectors = [[2.5], [1.0, 4.0], [3.0, 3.0, 3.0, 9.0], f32_list(rng.normal(size=7)), f32_list(rng.normal(size=16))]
    percents = [0.0, 2.5, 25.0, 50.0, 75.0, 97.5, 100.0]
    return [
        {
            "values": v,
            "percents": percents,
            "percentiles": np.percentile(v, percents, method="linear").tolist(),
            "median": float(np.median(v)),
        }
        for v in vectors
    ]


def optimiser_case(kind: type[torch.optim.Optimizer], weight_decay: float) -> dict:
    rng = np.random.default_rng(7)
    start = f32_list(rng.normal(size=9))
    gradients = [f32_list(rng.normal(size=9) * 10.0 ** rng.uniform(-4, 1, 9)) for _ in range(5)]
    gradients[2][0] = 0.0  # a zero gradient still moves the parameter through the first moment
    rates = f32_list([1e-3, 1e-3, 5e-3, 2e-4, 1e-2])
    parameter = torch.tensor(start, requires_grad=True)
    optimiser = kind([parameter], lr=rates[0], betas=(0.9, 0.999), eps=1e-8, weight_decay=weight_decay, foreach=False)
    after = []
    for gradient, rate in zip(gradients, rates):
        optimiser.param_groups[0]["lr"] = rate
        parameter.grad = torch.tensor(gradient)
        optimiser.step()
        after.append(parameter.detach().tolist())
    state = optimiser.state[parameter]
    return {
        "betas": [0.9, 0.999],
        "eps": 1e-8,
        "weight_decay": weight_decay,
        "start": start,
        "gradients": gradients,
        "learning_rates": rates,
        "after_each_step": after,
        "first_moment": state["exp_avg"].tolist(),
        "second_moment": state["exp_avg_sq"].tolist(),
    }


def clipping_case(scale: float) -> dict:
    rng = np.random.default_rng(8)
    gradients = [f32_list(scale * rng.normal(size=n)) for n in (4, 7, 1)]
    parameters = [torch.zeros(len(g)) for g in gradients]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = torch.tensor(gradient)
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm=1.0)
    return {
        "max_norm": 1.0,
        "gradients": gradients,
        "norm_before": norm.item(),
        # PyTorch multiplies by min(1, max_norm / (norm + 1e-6)); without the 1e-6 the result differs
        # by 1e-6 / norm, relatively.
        "clipped": [p.grad.tolist() for p in parameters],
    }


def ema_case() -> dict:
    rng = np.random.default_rng(9)
    slow, fast = f32_list(rng.normal(size=5)), f32_list(rng.normal(size=5))
    momenta = [0.996, 0.998, 1.0]
    return {
        "slow": slow,
        "fast": fast,
        "momenta": momenta,
        "updated": [torch.lerp(torch.tensor(slow), torch.tensor(fast), 1 - m).tolist() for m in momenta],
    }


if __name__ == "__main__":
    out = golden_folder(__doc__)
    scaling, clip = scaling_cases(), {"above": clipping_case(2.0), "below": clipping_case(0.05)}
    assert scaling["constant_everywhere"]["region_valid"] == [[True, True, False, True, True]] * 3
    assert scaling["constant_in_one_scan"]["region_valid"][1] == [True, True, True, False, True]
    assert clip["above"]["norm_before"] > 1 > clip["below"]["norm_before"]
    golden = {
        "numpy": np.__version__,
        "torch": torch.__version__.split("+")[0],
        "robust_scaling": scaling,
        "percentiles": percentile_cases(),
        "optimiser": {
            "adam": optimiser_case(torch.optim.Adam, 0.0),
            "adamw": optimiser_case(torch.optim.AdamW, 0.01),
        },
        "clip": clip,
        "ema": ema_case(),
    }
    path = out / "data_goldens.json"
    path.write_text(json.dumps(golden, indent=1) + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes")
