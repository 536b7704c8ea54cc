"""BDO in PyTorch written for speed on a CPU: the honest opponent of the Rust implementation.

Same modules and parameters as the twin; check_twin.py asserts equal loss and gradients. What is faster:
fixed shapes, so no masks and no padding; rows picked with index_select (contiguous copies) instead of
gather; only visible tokens enter an encoder; the sinusoid is computed once per step; everything around
the scan has a hand-written backward; no loop over samples anywhere.

The scan is a loop of 160 `addcmul` over [2, B, d] (mean and variance together), about 2 ms forward at
width 192 and batch 32 on one AVX2 core. A doubling scan (8 passes over the whole arrays) gives the same
numbers but took 17 to 37 ms there. Cumulative products in log space are unsound: they divide by
exp(-sum x), whose square is e^-116 over 160 frames at the initial rates, and 1/e^-116 overflows f32.
"""

import contextlib
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from bdo_torch import Bdo, BdoConfig, Encoder, initialise
from torch import Tensor

SIZES = {"tiny": (192, 3), "small": (384, 6), "base": (768, 12)}


@dataclass
class Draw:
    """What one training step draws: positions sorted inside each row, and the two noises."""

    context: Tensor  # [B, C] int64
    target: Tensor  # [B, T] int64
    eps_q: Tensor  # [B, C, d]
    eps_p: Tensor  # [B, T, d]


def draw_step(batch: int, frames: int, targets: int, width: int) -> Draw:
    order = torch.rand(batch, frames).argsort(dim=1)
    return Draw(
        context=order[:, targets:].sort(dim=1).values,
        target=order[:, :targets].sort(dim=1).values,
        eps_q=torch.randn(batch, frames - targets, width),
        eps_p=torch.randn(batch, targets, width),
    )


def encode(encoder: Encoder, series: Tensor, clock: Tensor) -> Tensor:
    """series [B, T, N], clock [B, T, d] (the sinusoid) -> z [B, T, d]."""
    h = encoder.embed(series) + clock
    for block in encoder.blocks:
        h = block(h, None)
    return encoder.norm(h)


def sinusoid(times: Tensor, width: int) -> Tensor:
    """As the twin's, but each angle once: [...] -> [..., d] with sines and cosines interleaved."""
    frequency = 10000.0 ** (-torch.arange(0, width, 2, dtype=times.dtype) / width)
    angle = times.unsqueeze(-1) * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


def coefficients(alpha: Tensor, rates: Tensor, delta: Tensor, diffusion: float):
    """Held alpha, rates [K, B, d], delta [K, B, 1] -> decay, push [2, K, B, d] and phi1 [K, B, d].

    phi1(2x) = phi1(x) (1 + e^-x) / 2 saves a second exponential. Steps are strictly positive here and
    expm1 keeps the quotient accurate however small, so the forward needs no series.
    """
    x = delta * rates
    a = torch.exp(-x)
    phi = -torch.expm1(-x) / x
    decay = torch.stack([a, a * a])
    push = torch.stack([delta * phi * alpha, (0.5 * diffusion) * delta * phi * (1 + a)])
    return decay, push, phi


def coefficient_gradients(alpha, rates, delta, diffusion: float, a, phi, lam, states):
    """Section 3.5 backward. lam [2, K, B, d] is dL/dpush; states [2, K, B, d] precede each step."""
    x = delta * rates
    series = -0.5 + x * (1 / 3 - x * (1 / 8 - x / 30))
    slope = torch.where(x < 1e-2, series, (a - phi) / x)
    grad_alpha = lam[0] * delta * phi
    grad_x = (
        delta * (lam[0] * alpha * slope + (0.5 * diffusion) * lam[1] * (slope * (1 + a) - phi * a))
        - a * lam[0] * states[0]
        - 2 * a * a * lam[1] * states[1]
    )
    return grad_alpha, grad_x * delta


class Moments(torch.autograd.Function):
    """The whole of 3.5, so that autograd records one node instead of a few thousand."""

    @staticmethod
    def forward(ctx, alpha, rates, delta, start, diffusion, forward_part, backward_part):
        decay, push, phi = forward_part(alpha, rates, delta, diffusion)
        frames, (batch, width) = alpha.shape[0], alpha.shape[1:]
        # Slot 0 is the initial state, so states[:, :-1] are the predecessors the backward needs.
        states = torch.empty(2, frames + 1, batch, width, dtype=alpha.dtype)
        states[:, 0] = start.unsqueeze(1)
        slots = states.unbind(1)
        for k, (a, b) in enumerate(zip(decay.unbind(1), push.unbind(1))):
            torch.addcmul(b, a, slots[k], out=slots[k + 1])
        ctx.save_for_backward(alpha, rates, delta, decay, phi, states)
        ctx.diffusion, ctx.backward_part = diffusion, backward_part
        return states[:, 1:]

    @staticmethod
    def backward(ctx, grad):
        alpha, rates, delta, decay, phi, states = ctx.saved_tensors
        lam = grad.clone(memory_format=torch.contiguous_format)
        slots, decays = lam.unbind(1), decay.unbind(1)
        for k in range(len(slots) - 2, -1, -1):
            slots[k].addcmul_(decays[k + 1], slots[k + 1])
        grad_start = (decays[0] * slots[0]).sum(1)
        grad_alpha, grad_rates = ctx.backward_part(
            alpha, rates, delta, ctx.diffusion, decay[0], phi, lam, states[:, :-1]
        )
        return grad_alpha, grad_rates, None, grad_start, None, None, None


def flat_rows(index: Tensor, frames: int) -> Tensor:
    """Positions [B, T] inside each sample -> row numbers of the flattened [B * frames, ...] array."""
    return (index + frames * torch.arange(index.shape[0]).unsqueeze(1)).flatten()


class FastBdo:
    """Model, EMA encoder, optimiser, and the two timed operations: `train_step` and `embed`."""

    def __init__(self, config: BdoConfig, seed: int, compiled: bool, bf16: bool, attention: str):
        self.config, self.bf16 = config, bf16
        self.model = Bdo(config)
        initialise(self.model, torch.Generator().manual_seed(seed))
        self.ema = Encoder(config).requires_grad_(False)
        self.ema.load_state_dict(self.model.encoder.state_dict())
        # "auto" is fused where no gradient is needed and plain batched products in the online encoder:
        # the fastest of the four combinations at width 192, by 2 to 5 % of the step.
        for encoder, best in ((self.model.encoder, attention == "auto-embed"), (self.ema, True)):
            for block in encoder.blocks:
                block.attn.fused = best if attention.startswith("auto") else attention == "fused"
        parameters = list(self.model.parameters())
        self.parameters = parameters
        try:
            self.optimiser = torch.optim.Adam(parameters, lr=1e-3, fused=True)
        except RuntimeError:
            self.optimiser = torch.optim.Adam(parameters, lr=1e-3, foreach=True)
        wrap = (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)
        # The online and the EMA encoder see different token counts, hence one compiled copy each.
        self.encode_online, self.encode_ema, self.encode_full = wrap(encode), wrap(encode), wrap(encode)
        self.forward_part, self.backward_part = wrap(coefficients), wrap(coefficient_gradients)
        self.sinusoid, self.decode_misfit = wrap(sinusoid), wrap(self._decode_misfit)
        self.driven = wrap(self._driven)

    def autocast(self):
        return torch.autocast("cpu", torch.bfloat16) if self.bf16 else contextlib.nullcontext()

    def _driven(self, z: Tensor, eps: Tensor) -> tuple[Tensor, Tensor]:
        dynamics = self.model.dynamics
        z = z.float() if self.bf16 else z
        sample = z + self.config.sigma_q * eps
        return dynamics.control(sample), torch.softmax(dynamics.mixture(sample), -1) @ (
            torch.exp(dynamics.log_rates) + dynamics.config.rate_floor
        )

    def _decode_misfit(self, latent: Tensor, truth: Tensor) -> Tensor:
        recon = self.model.decoder(latent)
        return F.mse_loss(recon.to(truth.dtype), truth, reduction="sum")

    def loss(self, series: Tensor, times: Tensor, draw: Draw) -> Tensor:
        """series [B, K, N], sorted strictly positive scaled times [B, K] -> the loss of 3.6."""
        config, dynamics = self.config, self.model.dynamics
        batch, frames, regions = series.shape
        width, contexts, targets = config.width, draw.context.shape[1], draw.target.shape[1]
        context_rows, target_rows = flat_rows(draw.context, frames), flat_rows(draw.target, frames)
        clock = self.sinusoid(times, width).view(-1, width)
        rows = series.view(-1, regions)

        def pick(source: Tensor, which: Tensor) -> Tensor:
            return source.index_select(0, which).view(batch, -1, source.shape[1])

        truth = pick(rows, target_rows)
        with self.autocast():
            z = self.encode_online(self.model.encoder, pick(rows, context_rows), pick(clock, context_rows))
            with torch.no_grad():
                zbar = self.encode_ema(self.ema, truth, pick(clock, target_rows))
        alpha, rates = self.driven(z, draw.eps_q)  # [B, C, d]

        # Number of context frames strictly before frame j, minus one, is the driver of step j (3.4).
        is_context = torch.zeros(batch, frames, dtype=torch.int64).scatter_(1, draw.context, 1)
        driver = (is_context.cumsum(1) - is_context - 1).clamp_min_(0)  # [B, K]
        delta = torch.diff(times, dim=1, prepend=torch.zeros(batch, 1, dtype=times.dtype))
        held = torch.zeros(batch, contexts, dtype=times.dtype).scatter_add_(1, driver, delta)
        # Frame-major, so that every step of the scan reads and writes contiguous [B, d] blocks.
        driver_rows = (driver + contexts * torch.arange(batch).unsqueeze(1)).T.flatten()
        start = torch.stack([dynamics.initial_mean, dynamics.initial_variance()])
        states = Moments.apply(
            alpha.reshape(-1, width).index_select(0, driver_rows).view(frames, batch, width),
            rates.reshape(-1, width).index_select(0, driver_rows).view(frames, batch, width),
            delta.T.unsqueeze(-1),
            start,
            config.diffusion,
            self.forward_part,
            self.backward_part,
        )
        at_targets = (draw.target * batch + torch.arange(batch).unsqueeze(1)).flatten()
        mean, var = states.reshape(2, -1, width).index_select(1, at_targets).view(2, batch, targets, width)
        spread = torch.sqrt(var + config.sigma_p**2)
        latent = torch.addcmul(mean, spread, draw.eps_p) @ dynamics.basis().T
        with self.autocast():
            misfit = self.decode_misfit(latent, truth)
        distance = F.mse_loss(latent, zbar.to(latent.dtype), reduction="sum")
        energy = (alpha.square().sum(-1) * held).sum()
        total = config.sigma_g**2 * energy + misfit + config.tau * distance
        return total / (batch * targets * regions)

    def train_step(self, series: Tensor, times: Tensor, draw: Draw, momentum: float = 0.996) -> Tensor:
        loss = self.loss(series, times, draw)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        self.optimiser.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.ema.parameters()), list(self.model.encoder.parameters()), 1 - momentum)
        return loss

    @torch.inference_mode()
    def embed(self, series: Tensor, times: Tensor) -> Tensor:
        """Features of full scans, [B, d]. B is linear, so it is applied once to the mean over time."""
        with self.autocast():
            z = self.encode_full(self.model.encoder, series, self.sinusoid(times, self.config.width))
        return self.model.dynamics.control(z.float().mean(1))


def encoder_flops(config: BdoConfig, tokens: int) -> int:
    """Matrix-product flops of one forward over one sample; a multiply-add counts as two."""
    d = config.width
    per_token = config.regions * d + d * d + config.blocks * ((4 + 2 * config.ffn_ratio) * d * d + 2 * tokens * d)
    return 2 * tokens * per_token


def train_flops(config: BdoConfig, batch: int, context: int, target: int) -> int:
    d, n = config.width, config.regions
    online = 3 * encoder_flops(config, context) - 2 * context * n * d  # no gradient of the input
    driven = 3 * 2 * context * (d * d + 2 * config.mixtures * d)
    decoder = 3 * 2 * target * (2 * d * d + d * n)  # V, then d -> d -> N
    return batch * (online + encoder_flops(config, target) + driven + decoder)
