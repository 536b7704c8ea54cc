"""Asserts on the twin itself, so that a golden is never made from a twin that is wrong.

Parameter counts of 3.9, the moment test vector of 3.5 and its limits, moments against a fine
integration of the differential equation, the Cayley backward formula of 3.3, interval splitting,
no leakage, the full gradient against finite differences, and the fast step of the benchmark against
the twin in value and gradient.
"""

import copy

import torch
from bdo_torch import Batch, Bdo, BdoConfig, hold_index, initialise, moments, phi1
from fast_bdo import FastBdo, draw_step

torch.set_default_dtype(torch.float64)


def check_parameter_counts() -> None:
    expected = {
        (192, 3): (5_467_776, 112_612, 123_906, 5_704_294),
        (384, 6): (21_626_112, 372_580, 321_090, 22_319_782),
        (768, 12): (86_014_464, 1_334_884, 936_642, 88_285_990),
    }
    for (width, heads), counts in expected.items():
        with torch.device("meta"):
            model = Bdo(BdoConfig(width=width, heads=heads))
        parts = [model.encoder, model.dynamics, model.decoder, model]
        found = tuple(sum(p.numel() for p in part.parameters() if p.requires_grad) for part in parts)
        assert found == counts, (width, found, counts)


def one_step(rate: float, alpha: float, delta: float, mean0: float, var0: float) -> tuple[float, float]:
    shape = (1, 1, 1)
    mean, var = moments(
        torch.full(shape, alpha),
        torch.full(shape, rate),
        torch.full((1, 1), delta),
        torch.tensor([mean0]),
        torch.tensor([var0]),
        1.0,
    )
    return mean.item(), var.item()


def check_moments() -> None:
    mean, var = one_step(1.7, 0.9, 0.45, 0.3, 0.8)
    assert abs(mean - 0.42265869) < 5e-9 and abs(var - 0.40365922) < 5e-9, (mean, var)
    assert one_step(1.7, 0.9, 0.0, 0.3, 0.8) == (0.3, 0.8)
    mean, var = one_step(1e-8, 0.9, 0.45, 0.3, 0.8)
    assert abs(mean - (0.3 + 0.45 * 0.9)) < 1e-8 and abs(var - (0.8 + 0.45)) < 1e-7
    mean, var = one_step(1e3, 0.9, 0.45, 0.3, 0.8)
    assert abs(mean - 0.9e-3) < 1e-12 and abs(var - 0.5e-3) < 1e-12

    # dm/dt = alpha - rate m and dP/dt = 1 - 2 rate P by classical Runge-Kutta, which shares no formula.
    rate, alpha, m, p, steps = 1.7, 0.9, 0.3, 0.8, 1000
    h = 0.45 / steps

    def runge_kutta(slope, y):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    for _ in range(steps):
        m = runge_kutta(lambda y: alpha - rate * y, m)
        p = runge_kutta(lambda y: 1 - 2 * rate * y, p)
    mean, var = one_step(1.7, 0.9, 0.45, 0.3, 0.8)
    assert abs(mean - m) < 1e-12 and abs(var - p) < 1e-12

    first = one_step(1.7, 0.9, 0.2, 0.3, 0.8)
    second = one_step(1.7, 0.9, 0.25, *first)
    assert abs(second[0] - mean) < 1e-15 and abs(second[1] - var) < 1e-15
    for x in (0.0099999, 0.01):
        assert abs(phi1(torch.tensor(x)).item() + torch.expm1(torch.tensor(-x)).item() / x) < 2e-13


def check_hold() -> None:
    context = torch.tensor([[0, 1, 0, 0, 1, 1, 0]], dtype=torch.bool)
    driver = hold_index(context, torch.ones_like(context))
    assert driver.tolist() == [[1, 1, 1, 1, 1, 4, 5]], driver


def check_cayley_backward(model: Bdo) -> None:
    dynamics, width = model.dynamics, model.config.width
    g_v = torch.randn(width, width)
    (found,) = torch.autograd.grad((dynamics.basis() * g_v).sum(), dynamics.cayley)
    with torch.no_grad():
        skew = dynamics.cayley - dynamics.cayley.T
        eye = torch.eye(width)
        q = torch.linalg.solve(eye + skew, eye - skew)
        g_a = -torch.linalg.solve(eye - skew, g_v @ dynamics.basis0.T @ (eye + q).T)
        assert (found - (g_a - g_a.T)).abs().max() < 1e-12
        v = dynamics.basis()
        assert (v.T @ v - eye).abs().max() < 1e-13


def toy() -> tuple[Bdo, Bdo, Batch]:
    torch.manual_seed(5)
    config = BdoConfig(width=8, heads=2, blocks=1, mixtures=3, regions=4)
    model = Bdo(config)
    initialise(model, torch.Generator().manual_seed(1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    ema = copy.deepcopy(model)
    frames = 5
    batch = Batch(
        series=torch.randn(2, frames, 4),
        times=torch.rand(2, frames).cumsum(1),
        context=torch.tensor([[0, 1, 0, 1, 0], [1, 0, 1, 0, 0]], dtype=torch.bool),
        frame_valid=torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]], dtype=torch.bool),
        region_valid=torch.ones(2, 4, dtype=torch.bool),
        eps_q=torch.randn(2, frames, 8),
        eps_p=torch.randn(1, 2, frames, 8),
    )
    return model, ema, batch


def check_gradient(model: Bdo, ema: Bdo, batch: Batch) -> None:
    loss = model(batch, ema.encoder)["loss_total"]
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    grads = torch.autograd.grad(loss, [p for _, p in named])
    h = 1e-6
    for (name, parameter), grad in zip(named, grads, strict=True):
        direction = torch.randn(parameter.shape)
        with torch.no_grad():
            parameter.add_(h * direction)
            up = model(batch, ema.encoder)["loss_total"].item()
            parameter.sub_(2 * h * direction)
            down = model(batch, ema.encoder)["loss_total"].item()
            parameter.add_(h * direction)
        slope, expected = (up - down) / (2 * h), (grad * direction).sum().item()
        # Central difference: truncation h^2 times a third derivative, rounding 1e-16 * loss / h.
        assert abs(slope - expected) < 1e-7 * (1 + abs(expected)), (name, slope, expected)


@torch.no_grad()
def check_leakage(model: Bdo, ema: Bdo, batch: Batch) -> None:
    before = model(batch, ema.encoder)
    poked = copy.copy(batch)
    poked.series = torch.where(batch.target.unsqueeze(-1), batch.series + 1, batch.series)
    after = model(poked, ema.encoder)
    assert torch.equal(before["alpha"], after["alpha"]) and torch.equal(before["latent"], after["latent"])
    assert not torch.equal(before["target"], after["target"])
    poked.series = torch.where(batch.context.unsqueeze(-1), batch.series + 1, batch.series)
    assert torch.equal(before["target"], model(poked, ema.encoder)["target"])

    # The padded fifth frame of sample 1 must not matter: dropping it gives the same numbers.
    cut = {k: v[1:2, :4] for k, v in vars(batch).items() if v is not None and k not in ("region_valid", "eps_p")}
    cut = Batch(**cut, region_valid=batch.region_valid[1:2], eps_p=batch.eps_p[:, 1:2, :4])
    short = model(cut, ema.encoder)
    for name in ("z", "alpha", "rates", "mean", "var", "latent", "recon", "target"):
        assert (short[name] - before[name][1:2, :4]).abs().max() < 1e-14, name
        assert before[name][1, 4].abs().max() == 0, name


def check_fast_step(attention: str) -> None:
    torch.manual_seed(6)
    config = BdoConfig(width=16, heads=2, blocks=2, mixtures=3, regions=5, diffusion=0.25)
    fast = FastBdo(config, seed=2, compiled=False, bf16=False, attention=attention)
    with torch.no_grad():
        for parameter in [*fast.model.parameters(), *fast.ema.parameters()]:
            parameter.add_(0.1 * torch.randn(parameter.shape))
    samples, frames, targets = 3, 12, 9
    series = torch.randn(samples, frames, 5)
    times = (torch.rand(samples, frames) + 0.001).cumsum(1)
    times[:, 4:] -= times[:, 4:5] - times[:, 3:4] - 0.002  # one step inside the series branch of phi1
    draw = draw_step(samples, frames, targets, config.width)
    loss = fast.loss(series, times, draw)
    found = torch.autograd.grad(loss, fast.parameters)

    def spread(noise, positions):
        index = positions.unsqueeze(-1).expand_as(noise)
        return torch.zeros(samples, frames, config.width).scatter(1, index, noise)

    everything = torch.ones(samples, frames, dtype=torch.bool)
    batch = Batch(
        series=series,
        times=times,
        context=torch.zeros(samples, frames).scatter(1, draw.context, 1.0).bool(),
        frame_valid=everything,
        region_valid=torch.ones(samples, 5, dtype=torch.bool),
        eps_q=spread(draw.eps_q, draw.context),
        eps_p=spread(draw.eps_p, draw.target).unsqueeze(0),
    )
    reference = fast.model(batch, fast.ema)["loss_total"]
    expected = torch.autograd.grad(reference, fast.parameters)
    assert abs(loss.item() - reference.item()) < 1e-12, (loss, reference)
    for a, b in zip(found, expected, strict=True):
        # The two truncate the small-x series at different orders: 1e-2^4 / 144 in the slope.
        assert (a - b).abs().max() < 1e-9, (a - b).abs().max()
    feature = fast.model.feature(series, times, everything, torch.ones(samples, 5, dtype=torch.bool))
    # `embed` casts z to f32 before the mean.
    fast.model.float(), fast.ema.float()
    assert (fast.embed(series.float(), times.float()).double() - feature).abs().max() < 1e-5


if __name__ == "__main__":
    check_parameter_counts()
    check_moments()
    check_hold()
    model, ema, batch = toy()
    check_cayley_backward(model)
    check_gradient(model, ema, batch)
    check_leakage(model, ema, batch)
    for attention in ("auto", "fused", "explicit"):
        check_fast_step(attention)
    print("twin: all checks hold")
