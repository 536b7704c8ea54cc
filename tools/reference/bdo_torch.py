"""A readable PyTorch twin of BDO, written from the description of the method and not from the Rust code.

It exists to produce goldens for the Rust implementation, so it prefers the literal form of every
formula over speed: the moments are a loop over frames, the hold is a loop over frames and samples.
Section numbers in the comments are those of the specification.

Shapes: B samples, K frames of the union grid (sorted by time), N regions, d width, L rate vectors.
"""

import math
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class BdoConfig:
    """Every choice section 6 leaves open. The defaults are the ones the specification resolves to."""

    width: int = 192
    heads: int = 3
    blocks: int = 12
    mixtures: int = 100
    regions: int = 450
    ffn_ratio: int = 4
    final_norm: bool = True  # 6.9
    attention_norm: bool = True  # 6.10
    qkv_bias: bool = True  # 6.11
    time_encoding: str = "scaled"  # 6.6: "scaled" or "unscaled" (seconds)
    time_scale: float = 0.1
    learn_basis: bool = True  # 3.3; false freezes V = V0
    latent_term: str = "sampled"  # 3.6: "sampled" or "analytic"
    tau: float = 0.03
    sigma_q: float = 0.1
    sigma_p: float = 0.1
    sigma_g: float = 0.1
    diffusion: float = 1.0  # variance per unit of scaled time: B_j = diffusion * Delta * phi1(2x)
    layer_norm_eps: float = 1e-6
    rate_floor: float = 1e-6
    variance_floor: float = 1e-6
    time_encoding_rate: float = 1.0  # radians of the fastest sinusoid per unit of its clock
    gap_code: bool = False  # the last quarter of the time code tells the distance to the visible neighbours
    unit_input: bool = False  # divide a sample by the root mean square of what is visible of it
    sample_latent: bool = True  # add sigma_q * noise to the context latents
    lead: str = "first_context"  # what drives the steps before the first context frame, or "learned_token"
    energy_weight: float | None = None  # sigma_g squared unless given
    reconstruction_weight: float = 1.0
    draws: int = 1  # states drawn per step
    dropout: float = 0.0  # of attention probabilities and in the decoder
    attention_start: str = "independent"  # or "local"
    attention_output_init: float = 1.0
    embed_start: str = "independent"  # or "affine"
    unit_regions: bool = False  # divide each region of a sample by the root mean square of what is visible of it
    identity: float = 0.0  # weight of the identity term on the mean control
    identity_temperature: float = 0.1
    identity_width: int = 128
    model_fingerprint: bool = False  # the mean control tells how regions go together over visible frames
    fingerprint_of: str = "correlations"  # or "ridge": regression of every region on all
    smoother: bool = False  # reconstruct what a linear smoother leaves

    def as_dict(self) -> dict:
        return asdict(self)


# ---------------------------------------------------------------------------------------------
# Encoder, 3.2


def sinusoid(times: Tensor, width: int) -> Tensor:
    """times [..., K] -> [..., K, d]; even components are sines, odd ones cosines of the same angle."""
    component = torch.arange(width, device=times.device)
    exponent = (2 * (component // 2)).to(times.dtype) / width
    angle = times.unsqueeze(-1) / torch.pow(torch.tensor(10000.0, dtype=times.dtype), exponent)
    return torch.where(component % 2 == 0, torch.sin(angle), torch.cos(angle))


SHORTEST_GAP_SECONDS, LONGEST_GAP_SECONDS = 0.5, 32.0


def gap_code(seconds: Tensor, visible: Tensor, width: int) -> Tensor:
    """2 exp(-gap / s) - 1 for the gap to the visible frame before and the one after, each for width / 8 values of s
    spaced evenly on a logarithmic scale. No neighbour is an infinite gap. [B, K] -> [B, K, 2 (width / 8)]"""
    each = width // 8
    scales = torch.logspace(math.log10(SHORTEST_GAP_SECONDS), math.log10(LONGEST_GAP_SECONDS), each)
    gaps = torch.full((*seconds.shape, 2), math.inf)
    for sample in range(seconds.shape[0]):
        seen = visible[sample].nonzero().flatten().tolist()
        for earlier, later in zip(seen, seen[1:]):
            distance = seconds[sample, later] - seconds[sample, earlier]
            gaps[sample, later, 0] = distance
            gaps[sample, earlier, 1] = distance
    return (2 * torch.exp(-gaps.unsqueeze(-1) / scales) - 1).flatten(2)


class Embedder(nn.Module):
    """One token per time point: [B, K, N] -> [B, K, d]."""

    def __init__(self, config: BdoConfig):
        super().__init__()
        self.linear1 = nn.Linear(config.regions, config.width)
        self.norm1 = nn.LayerNorm(config.width, eps=config.layer_norm_eps)
        self.linear2 = nn.Linear(config.width, config.width)
        self.norm2 = nn.LayerNorm(config.width, eps=config.layer_norm_eps)

    def forward(self, series: Tensor) -> Tensor:
        hidden = self.norm1(torch.relu(self.linear1(series)))
        return self.norm2(torch.relu(self.linear2(hidden)))


class Attention(nn.Module):
    """Bidirectional attention with the paper's extra LayerNorm before the output projection."""

    def __init__(self, config: BdoConfig):
        super().__init__()
        self.heads = config.heads
        # The benchmark switches this on; the goldens use the literal softmax.
        self.fused = False
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=config.qkv_bias)
        self.norm = nn.LayerNorm(config.width, eps=config.layer_norm_eps) if config.attention_norm else nn.Identity()
        self.proj = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, visible: Tensor | None, kept: Tensor | None = None) -> Tensor:
        """`kept` [B, heads, K, K] multiplies the probabilities: 0 where one is dropped, else 1 / (1 - rate)."""
        batch, frames, width = x.shape
        head_width = width // self.heads
        # Rows of qkv: all q, then all k, then all v; inside each, head-major (12.2).
        q, k, v = self.qkv(x).view(batch, frames, 3, self.heads, head_width).permute(2, 0, 3, 1, 4)
        key_mask = None if visible is None else visible[:, None, None, :]  # [B, 1, 1, K]
        if self.fused and kept is None:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=key_mask)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(head_width)  # [B, heads, K, K]
            if key_mask is not None:
                scores = scores.masked_fill(~key_mask, -math.inf)
            probabilities = torch.softmax(scores, dim=-1)
            mixed = (probabilities if kept is None else probabilities * kept) @ v
        mixed = mixed.transpose(1, 2).reshape(batch, frames, width)
        return self.proj(self.norm(mixed))


class FeedForward(nn.Module):
    def __init__(self, config: BdoConfig):
        super().__init__()
        self.linear1 = nn.Linear(config.width, config.ffn_ratio * config.width)
        self.linear2 = nn.Linear(config.ffn_ratio * config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(F.gelu(self.linear1(x), approximate="none"))


class Block(nn.Module):
    def __init__(self, config: BdoConfig):
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width, eps=config.layer_norm_eps)
        self.attn = Attention(config)
        self.norm2 = nn.LayerNorm(config.width, eps=config.layer_norm_eps)
        self.ffn = FeedForward(config)

    def forward(self, x: Tensor, visible: Tensor | None, kept: Tensor | None = None) -> Tensor:
        u = x + self.attn(self.norm1(x), visible, kept)
        return u + self.ffn(self.norm2(u))


class Encoder(nn.Module):
    """The transformer over visible tokens. This is the part the EMA copies (3.7)."""

    def __init__(self, config: BdoConfig):
        super().__init__()
        self.config = config
        self.embed = Embedder(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
        self.norm = nn.LayerNorm(config.width, eps=config.layer_norm_eps) if config.final_norm else nn.Identity()

    def forward(
        self, series: Tensor, times: Tensor, visible: Tensor | None = None, kept: Tensor | None = None
    ) -> Tensor:
        """series [B, K, N], scaled times [B, K], visible [B, K] bool or None for all -> z [B, K, d].

        Hidden tokens are masked as keys and their rows set to zero, which is the same computation as
        dropping them from the sequence because tokens meet nowhere but in attention.
        """
        seconds = times / self.config.time_scale
        clock = times if self.config.time_encoding == "scaled" else seconds
        code = sinusoid(clock * self.config.time_encoding_rate, self.config.width)
        if self.config.gap_code:
            gaps = gap_code(seconds, torch.ones_like(times, dtype=torch.bool) if visible is None else visible, self.config.width)
            code = torch.cat([code[..., : self.config.width - gaps.shape[-1]], gaps.to(code.dtype)], dim=-1)
        h = self.embed(series) + code
        for index, block in enumerate(self.blocks):
            h = block(h, visible, None if kept is None else kept[index])
        z = self.norm(h)
        return z if visible is None else torch.where(visible.unsqueeze(-1), z, torch.zeros_like(z))


# ---------------------------------------------------------------------------------------------
# Dynamics, 3.3 to 3.5


def phi1(x: Tensor) -> Tensor:
    """(1 - exp(-x)) / x. The series below 1e-2 is the specification's, so that both sides of the
    golden make the same truncation; its remainder x^5/720 is under 1.4e-13 there."""
    small = x.abs() < 1e-2
    series = 1 - x / 2 + x**2 / 6 - x**3 / 24 + x**4 / 120
    safe = torch.where(small, torch.ones_like(x), x)  # keeps 0/0 out of the gradient of the other branch
    return torch.where(small, series, -torch.expm1(-safe) / safe)


def hold_index(context: Tensor, frame_valid: Tensor) -> Tensor:
    """Grid position of the context token that drives each step (3.4). Bool [B, K] -> int64 [B, K].

    Left endpoint: step j runs from s_{j-1} to s_j and is driven by the last context frame at or
    before s_{j-1}. Before the first context frame that first one is carried backward.
    """
    batch, frames = context.shape
    driver = torch.zeros(batch, frames, dtype=torch.int64)
    for sample in range(batch):
        positions = [j for j in range(frames) if context[sample, j] and frame_valid[sample, j]]
        current = positions[0]
        for j in range(frames):
            if j > 0 and (j - 1) in positions:
                current = j - 1
            driver[sample, j] = current
    return driver


def step_lengths(times: Tensor, frame_valid: Tensor) -> Tensor:
    """Delta_j = s_j - s_{j-1} with s_0 = 0, and zero at padded frames (Delta = 0 is the identity)."""
    previous = torch.cat([torch.zeros_like(times[:, :1]), times[:, :-1]], dim=1)
    return torch.where(frame_valid, times - previous, torch.zeros_like(times))


def moments(
    alpha: Tensor, rates: Tensor, delta: Tensor, mean0: Tensor, var0: Tensor, diffusion: float
) -> tuple[Tensor, Tensor]:
    """Held alpha, rates [B, K, d], delta [B, K], mean0, var0 [d] -> mean, variance [B, K, d] (3.5)."""
    step = delta.unsqueeze(-1)
    x = step * rates
    a, b = torch.exp(-x), step * phi1(x) * alpha
    a2, b2 = torch.exp(-2 * x), diffusion * step * phi1(2 * x)
    mean, var = mean0.expand_as(alpha[:, 0]), var0.expand_as(alpha[:, 0])
    means, variances = [], []
    for j in range(alpha.shape[1]):
        mean = a[:, j] * mean + b[:, j]
        var = a2[:, j] * var + b2[:, j]
        means.append(mean)
        variances.append(var)
    return torch.stack(means, dim=1), torch.stack(variances, dim=1)


class Dynamics(nn.Module):
    def __init__(self, config: BdoConfig):
        super().__init__()
        width = config.width
        self.config = config
        self.control = nn.Linear(width, width, bias=False)
        self.mixture = nn.Linear(width, config.mixtures)
        self.log_rates = nn.Parameter(torch.empty(config.mixtures, width))
        self.cayley = nn.Parameter(torch.zeros(width, width), requires_grad=config.learn_basis)
        self.register_buffer("basis0", torch.eye(width))
        self.initial_mean = nn.Parameter(torch.empty(width))
        self.initial_log_var = nn.Parameter(torch.empty(width))
        if config.lead == "learned_token":
            self.lead_token = nn.Parameter(torch.empty(width))

    def basis(self) -> Tensor:
        """V = (I + A)^-1 (I - A) V0 with A = W - W^T, orthogonal for every W."""
        if not self.config.learn_basis:
            return self.basis0
        skew = self.cayley - self.cayley.T
        identity = torch.eye(skew.shape[0], dtype=skew.dtype)
        return torch.linalg.solve(identity + skew, identity - skew) @ self.basis0

    def rates(self, z: Tensor) -> Tensor:
        weights = torch.softmax(self.mixture(z), dim=-1)  # [B, K, L]
        return weights @ (torch.exp(self.log_rates) + self.config.rate_floor)

    def initial_variance(self) -> Tensor:
        return torch.exp(self.initial_log_var) + self.config.variance_floor


class Decoder(nn.Module):
    def __init__(self, config: BdoConfig):
        super().__init__()
        self.linear1 = nn.Linear(config.width, config.width)
        self.linear2 = nn.Linear(config.width, config.regions)

    def forward(self, latent: Tensor, kept: Tensor | None = None) -> Tensor:
        hidden = torch.relu(self.linear1(latent))
        return self.linear2(hidden if kept is None else hidden * kept)


# ---------------------------------------------------------------------------------------------
# Parts that are fitted on training people before the first step


class Fingerprint(nn.Module):
    """How regions go together over the visible frames, around a mean and along fixed axes, and its part of the control."""

    FARTHEST, PENALTY = 4.0, 1 / 40

    def __init__(self, config: BdoConfig):
        super().__init__()
        self.ridge = config.fingerprint_of == "ridge"
        pairs = torch.triu_indices(config.regions, config.regions, offset=0 if self.ridge else 1).shape[1]
        self.register_buffer("mean", torch.zeros(pairs))
        self.register_buffer("axes", torch.zeros(config.width, pairs))
        self.control = nn.Linear(config.width, config.width)
        # Nothing but the identity term asks anything of the mean control.
        self.control.requires_grad_(config.identity > 0)

    def coordinates(self, series: Tensor, visible: Tensor) -> Tensor:
        """series [B, K, N], visible [B, K] -> [B, d]. Pairs of regions of which one is silent count as the mean."""
        regions = series.shape[2]
        first, second = torch.triu_indices(regions, regions, offset=0 if self.ridge else 1)
        rows = []
        for sample, seen in zip(series, visible):
            frames = sample[seen]
            size = frames.square().mean(0).sqrt()
            heard = size >= 1e-6
            unit = torch.where(heard, frames / torch.where(heard, size, torch.ones_like(size)), torch.zeros_like(frames))
            together = unit.T @ unit / len(unit)
            if self.ridge:
                penalised = together + self.PENALTY * regions * torch.eye(regions, dtype=together.dtype)
                together = torch.linalg.solve(penalised, together)
            away = torch.where(
                heard[first] & heard[second], together[first, second] - self.mean, torch.zeros_like(self.mean)
            )
            rows.append(self.axes @ away)
        return torch.stack(rows).clamp(-self.FARTHEST, self.FARTHEST)


class Smoother(nn.Module):
    """The best linear prediction of every frame from the visible ones, direction by direction."""

    GROUPS, LAGS, NUGGET = 8, 256, 1e-6

    def __init__(self, config: BdoConfig):
        super().__init__()
        self.groups = min(self.GROUPS, config.regions)
        self.register_buffer("directions", torch.eye(config.regions))
        self.register_buffer("correlations", torch.zeros(self.groups, self.LAGS))
        self.register_buffer("lag_seconds", torch.ones(1))

    def correlation(self, group: int, seconds: Tensor) -> Tensor:
        """Linear between the lags, 1 at lag 0 and 0 after the last."""
        ends = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
        curve = torch.cat([ends[:1], self.correlations[group, 1:].double(), ends[1:]])
        place = (seconds.double().abs() / self.lag_seconds.double()).clamp(max=float(self.LAGS))
        below = place.floor().long()
        share = place - below
        return curve[below] * (1 - share) + curve[below + 1] * share

    def forward(self, series: Tensor, seconds: Tensor, visible: Tensor, valid: Tensor) -> Tensor:
        """series [B, K, N], seconds, visible and valid [B, K] -> [B, K, N], 0 at padding."""
        regions = series.shape[2]
        out = torch.zeros_like(series)
        for sample in range(series.shape[0]):
            seen, asked = visible[sample], valid[sample] & ~visible[sample]
            along = series[sample, seen] @ self.directions
            told = torch.zeros(int(asked.sum()), regions, dtype=series.dtype)
            known, wanted = seconds[sample, seen], seconds[sample, asked]
            for group in range(self.groups):
                between = self.correlation(group, known[:, None] - known[None, :])
                between = between + self.NUGGET * torch.eye(len(known), dtype=torch.float64)
                weights = torch.linalg.solve(between, self.correlation(group, known[:, None] - wanted[None, :]))
                columns = slice(group * regions // self.groups, (group + 1) * regions // self.groups)
                told[:, columns] = weights.T.to(along.dtype) @ along[:, columns]
            out[sample, seen] = series[sample, seen]
            out[sample, asked] = told @ self.directions.T
        return out


# ---------------------------------------------------------------------------------------------
# Terms on the mean control


class FeatureHeads(nn.Module):
    """Networks between the mean control and the terms on it, which are trained and thrown away."""

    def __init__(self, config: BdoConfig):
        super().__init__()
        self.config = config
        if config.identity > 0:
            self.identity1 = nn.Linear(config.width, config.width)
            self.identity2 = nn.Linear(config.width, config.identity_width)

    def forward(self, feature: Tensor, batch: "Batch") -> dict[str, Tensor]:
        """feature [B, d] -> the weighted term, if the configuration asks for it."""
        terms = {}
        if self.config.identity > 0:
            code = self.identity2(F.gelu(self.identity1(feature), approximate="none"))
            terms["identity"] = self.config.identity * identity_term(code, batch.kin, self.config.identity_temperature)
        return terms


def identity_term(code: Tensor, kin: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of choosing, by cosine similarity over temperature, the other visit of the same scan among it and
    the visits of other people of the same group. Mean over the samples that have both. code [B, c], kin [B, 3]."""
    costs = []
    for i, (scan, person, group) in enumerate(kin.tolist()):
        others = [j for j in range(len(kin)) if j != i]
        partners = [j for j in others if kin[j, 0] == scan]
        strangers = [j for j in others if kin[j, 1] != person and kin[j, 2] == group]
        if not partners or not strangers:
            continue
        assert len(partners) == 1, "a scan is visited twice"
        similar = torch.stack([F.cosine_similarity(code[i], code[j], dim=0) for j in partners + strangers])
        costs.append(F.cross_entropy(similar / temperature, torch.tensor(0)))
    return torch.stack(costs).mean()


# ---------------------------------------------------------------------------------------------
# Model and objective, 3.6


@dataclass
class Batch:
    """A ragged batch on the union grid. Masks are bool; series is 0 where missing or padded."""

    series: Tensor  # [B, K, N]
    times: Tensor  # [B, K], scaled, 0 at the first kept frame of the scan
    context: Tensor  # [B, K]
    frame_valid: Tensor  # [B, K]
    region_valid: Tensor  # [B, N]
    eps_q: Tensor  # [B, K, d], read at context frames
    eps_p: Tensor  # [draws, B, K, d], read at target frames
    attention_kept: Tensor | None = None  # [blocks, B, heads, K, K] for dropout
    decoder_kept: Tensor | None = None  # [draws, B, K, d] for dropout
    kin: Tensor | None = None  # [B, 3]: numbers of scan, person and group, for the identity term

    @property
    def target(self) -> Tensor:
        return self.frame_valid & ~self.context


def size_of(mean_square: Tensor) -> Tensor:
    """Its root, or 1 where nothing is visible and there is no size."""
    size = mean_square.sqrt()
    return torch.where(size < 1e-6, torch.ones_like(size), size)


class Bdo(nn.Module):
    """The trainable model; parameter names and layouts are those of 12.2."""

    def __init__(self, config: BdoConfig):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.dynamics = Dynamics(config)
        self.decoder = Decoder(config)
        if config.model_fingerprint:
            self.fingerprint = Fingerprint(config)
        if config.smoother:
            self.smoother = Smoother(config)

    def constant_part(self, series: Tensor, visible: Tensor, alpha: Tensor) -> Tensor:
        """What is added to every control, [B, 1, d]: the fingerprint of the visible frames, in place of the mean over them."""
        if not self.config.model_fingerprint:
            return torch.zeros(1, dtype=alpha.dtype)
        coordinates = self.fingerprint.coordinates(series, visible)
        weight = visible.unsqueeze(-1).to(alpha.dtype)
        mean = (alpha * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
        return self.fingerprint.control(coordinates).unsqueeze(1) - mean

    def forward(self, batch: Batch, ema_encoder: Encoder) -> dict[str, Tensor]:
        """All intermediate values and the loss terms, on the union grid, zero where undefined."""
        config = self.config
        context, target = batch.context & batch.frame_valid, batch.target
        on_context, on_target = context.unsqueeze(-1), target.unsqueeze(-1)  # [B, K, 1]
        series = self.unit_sized(batch.series, context, batch.region_valid)

        z = self.encoder(series, batch.times, context, batch.attention_kept)
        z_sample = z + config.sigma_q * batch.eps_q if config.sample_latent else z
        alpha = self.dynamics.control(z_sample)
        constant = self.constant_part(series, context, alpha)
        alpha = (alpha + constant) * on_context
        rates = self.dynamics.rates(z_sample) * on_context

        delta = step_lengths(batch.times, batch.frame_valid)
        driver = hold_index(context, batch.frame_valid)
        # Column K holds the learned lead, which drives every step that starts before the first context frame.
        drivers_alpha, drivers_rates = alpha, rates
        if config.lead == "learned_token":
            lead = self.dynamics.lead_token.expand(alpha.shape[0], 1, -1)
            drivers_alpha = torch.cat([alpha, self.dynamics.control(lead) + constant], dim=1)
            drivers_rates = torch.cat([rates, self.dynamics.rates(lead)], dim=1)
            started = torch.zeros_like(context)
            started[:, 1:] = context.cumsum(1)[:, :-1] > 0
            driver = torch.where(started, driver, torch.full_like(driver, context.shape[1]))
        spread = driver.unsqueeze(-1).expand_as(alpha)
        mean, var = moments(
            drivers_alpha.gather(1, spread),
            drivers_rates.gather(1, spread),
            delta,
            self.dynamics.initial_mean,
            self.dynamics.initial_variance(),
            config.diffusion,
        )

        basis = self.dynamics.basis()
        total_var = var + config.sigma_p**2
        latents = [(mean + torch.sqrt(total_var) * eps) @ basis.T for eps in batch.eps_p]  # rows are V x
        recons = [
            self.decoder(latent, None if batch.decoder_kept is None else batch.decoder_kept[draw])
            for draw, latent in enumerate(latents)
        ]
        with torch.no_grad():
            zbar = ema_encoder(series, batch.times, target)

        # Each context token owns the total length of the steps it drives.
        held = torch.zeros(drivers_alpha.shape[:2], dtype=delta.dtype).scatter_add(1, driver, delta)
        energy_weight = config.sigma_g**2 if config.energy_weight is None else config.energy_weight
        energy = energy_weight * (drivers_alpha.square().sum(-1) * held).sum(1)
        observed = batch.region_valid.unsqueeze(1) * on_target
        # The network answers for what the smoother leaves.
        wanted = series
        if config.smoother:
            seconds = batch.times / config.time_scale
            wanted = series - self.smoother(series, seconds, context, batch.frame_valid)
        misfit = sum((wanted - recon).square() * observed for recon in recons) / len(recons)
        if config.latent_term == "analytic":
            distance = (mean @ basis.T - zbar).square() + total_var
        else:
            distance = sum((latent - zbar).square() for latent in latents) / len(latents)
        per_sample = {
            "energy": energy,
            "recon": config.reconstruction_weight * misfit.sum((1, 2)),
            "latent": config.tau * (distance * on_target).sum((1, 2)),
        }
        scale = target.sum(1) * batch.region_valid.sum(1)
        terms = {name: (value / scale).mean() for name, value in per_sample.items()}

        on_valid = batch.frame_valid.unsqueeze(-1)
        return {
            "z": z,
            "alpha": alpha,
            "rates": rates,
            "delta": delta,
            "mean": mean * on_valid,
            "var": var * on_valid,
            "latent": latents[0] * on_target,
            "mean_control": alpha.sum(1) / context.sum(1, keepdim=True),
            "recon": recons[0] * on_target,
            "target": zbar,
            "loss_total": terms["energy"] + terms["recon"] + terms["latent"],
            "loss_energy": terms["energy"],
            "loss_recon": terms["recon"],
            "loss_latent": terms["latent"],
        }

    def unit_sized(self, series: Tensor, visible: Tensor, region_valid: Tensor) -> Tensor:
        """Divided by the root mean square over visible frames and valid regions, or each region by that over visible
        frames alone, if the configuration says so."""
        seen = (visible.unsqueeze(-1) & region_valid.unsqueeze(1)).to(series.dtype)
        if self.config.unit_regions:
            square = (series.square() * seen).sum(1, keepdim=True) / visible.sum(1).view(-1, 1, 1)
            return series / size_of(square)
        if not self.config.unit_input:
            return series
        square = (series.square() * seen).sum((1, 2)) / seen.sum((1, 2))
        return series / size_of(square).view(-1, 1, 1)

    def feature(self, series: Tensor, times: Tensor, frame_valid: Tensor, region_valid: Tensor) -> Tensor:
        """Mean over the valid frames of B z, everything visible, noise off (3.10). -> [B, d]"""
        series = self.unit_sized(series, frame_valid, region_valid)
        alpha = self.dynamics.control(self.encoder(series, times, frame_valid))
        alpha = alpha + self.constant_part(series, frame_valid, alpha)
        weight = frame_valid.unsqueeze(-1).to(alpha.dtype)
        return (alpha * weight).sum(1) / weight.sum(1)


# ---------------------------------------------------------------------------------------------
# EMA, 3.7, and initialisation, 3.8


@torch.no_grad()
def ema_update(ema_encoder: Encoder, encoder: Encoder, momentum: float) -> None:
    for slow, fast in zip(ema_encoder.parameters(), encoder.parameters(), strict=True):
        slow.mul_(momentum).add_(fast, alpha=1 - momentum)


def ema_momentum(step: int, total_steps: int) -> float:
    """Linear from 0.996 at step 0 to 1.0 at the last step."""
    return 0.996 + 0.004 * step / max(total_steps - 1, 1)


@torch.no_grad()
def initialise(model: Bdo, generator: torch.Generator) -> None:
    width = model.config.width

    def xavier(weight: Tensor) -> None:
        fan_out, fan_in = weight.shape
        bound = math.sqrt(6 / (fan_in + fan_out))
        weight.uniform_(-bound, bound, generator=generator)

    def framework_default(linear: nn.Linear) -> None:
        bound = 1 / math.sqrt(linear.in_features)
        linear.weight.uniform_(-bound, bound, generator=generator)
        linear.bias.uniform_(-bound, bound, generator=generator)

    embed, dynamics, decoder = model.encoder.embed, model.dynamics, model.decoder
    plain = [embed.linear1, embed.linear2, decoder.linear1, decoder.linear2, dynamics.mixture]
    for block in model.encoder.blocks:
        plain += [block.ffn.linear1, block.ffn.linear2]
        for part in block.attn.qkv.weight.split(width):  # q, k and v each as their own d x d
            xavier(part)
        xavier(block.attn.proj.weight)
        block.attn.proj.bias.zero_()
        if block.attn.qkv.bias is not None:
            block.attn.qkv.bias.zero_()
    for linear in plain:
        framework_default(linear)
    xavier(dynamics.control.weight)
    for free in (dynamics.log_rates, dynamics.initial_mean, dynamics.initial_log_var):
        free.normal_(generator=generator)
    if model.config.model_fingerprint:
        fingerprint = model.fingerprint
        bound = math.sqrt(3 / fingerprint.mean.numel())
        fingerprint.axes.uniform_(-bound, bound, generator=generator)
        fingerprint.control.weight.copy_(0.3 * torch.eye(width))
        fingerprint.control.bias.zero_()
    if model.config.lead == "learned_token":
        dynamics.lead_token.normal_(generator=generator)
    if model.config.attention_start == "local":
        for index, block in enumerate(model.encoder.blocks):
            start_locally(model.config, index, block.attn)
    if model.config.embed_start == "affine":
        for linear, gain, most in ((embed.linear1, 2.0, 6.0), (embed.linear2, 1.7, 4.0)):
            linear.weight.mul_(gain)
            linear.bias.uniform_(0, most, generator=generator)
    dynamics.cayley.zero_()
    dynamics.basis0.copy_(random_orthogonal(width, generator))


@torch.no_grad()
def start_locally(config: BdoConfig, block: int, attention: Attention) -> None:
    """Query times key is 3 sum_p cos(w_p (t - s - lag)) for frames at s and t, largest for the frame `lag` after s. The
    output projection is the transposed value projection times a factor."""
    width, head_width = config.width, config.width // config.heads
    clock = config.time_encoding_rate * (config.time_scale if config.time_encoding == "scaled" else 1.0)
    query, key, value = attention.qkv.weight.split(width)
    query.zero_()
    key.zero_()
    for head in range(config.heads):
        number = block * config.heads + head
        lag = (0.0, 1.0, -1.0)[number % 3] * 2.0 ** (number // 3 % 5)
        for pair in range(head_width // 2):
            turn = clock * lag / 10000.0 ** (2 * pair / width)
            rotation = torch.tensor([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
            rows = slice(head * head_width + 2 * pair, head * head_width + 2 * pair + 2)
            columns = slice(2 * pair, 2 * pair + 2)
            query[rows, columns] = math.sqrt(3.0) * rotation
            key[rows, columns] = math.sqrt(3.0) * torch.eye(2)
    attention.proj.weight.copy_(config.attention_output_init * value.T)


def random_orthogonal(width: int, generator: torch.Generator) -> Tensor:
    """QR of a Gaussian matrix; fixing the signs of R's diagonal makes it Haar distributed."""
    q, r = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))
    return q * torch.sign(torch.diagonal(r))
