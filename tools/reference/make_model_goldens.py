"""Writes testdata/golden/model_*.safetensors: inputs, parameters, outputs and gradients of the twin.

Everything is rounded to f32 first and computed from there in f64, so a reader that loads the f32
tensors starts from exactly the same numbers and its only error is its own arithmetic. Scaled times
are multiples of 1/1024, so their f32 differences are exact too.
"""

import copy
import json
from dataclasses import dataclass

import torch
from bdo_torch import Batch, Bdo, BdoConfig, FeatureHeads, Smoother, initialise
from dropout_stream import kept
from golden_folder import golden_folder
from safetensors.torch import save_file

torch.set_default_dtype(torch.float64)


@dataclass(frozen=True)
class Case:
    config: BdoConfig
    seed: int
    context: tuple[str, ...]  # one string per sample: c context, t target, . padding
    missing_regions: tuple[tuple[int, ...], ...]
    irregular: bool
    centre_visible: bool = False  # values are centred on what is visible, as the default preset does
    kin: tuple[tuple[int, int, int], ...] = ()  # scan, person and group of each sample, for the identity term


PLAIN = BdoConfig(width=32, heads=2, blocks=2, mixtures=5, regions=6)
SMALL = dict(width=24, heads=3, blocks=1, mixtures=5, regions=6)

CASES = {
    "plain": Case(PLAIN, 11, ("ctttctttc", "cttcttttt"), ((), ()), irregular=False),
    # Lengths 9, 6 and 4; missing regions; first frame a target in samples 0 and 1; one context token in 2.
    "ragged": Case(PLAIN, 12, ("ttcttctct", "tctttc...", "ttct....."), ((), (1, 4), (5,)), irregular=True),
    "variants": Case(
        BdoConfig(
            **SMALL,
            final_norm=False,
            attention_norm=False,
            qkv_bias=False,
            time_encoding="unscaled",
            latent_term="analytic",
            diffusion=0.25,
            tau=0.3,
            sigma_q=0.2,
            sigma_p=0.15,
            sigma_g=0.5,
            unit_input=True,
            embed_start="affine",
        ),
        13,
        ("cttcttttt", "ttctct..."),
        ((), (2,)),
        irregular=True,
    ),
    "frozen_basis": Case(
        BdoConfig(**SMALL, learn_basis=False), 14, ("cttttctct", "tcttct..."), ((0,), ()), irregular=True
    ),
    "tau_zero": Case(BdoConfig(**SMALL, tau=0.0), 15, ("ctttctttt", "tttcttctt"), ((), ()), irregular=True),
    # What `bdo pretrain` uses without --config, at a small size.
    "default": Case(
        BdoConfig(
            width=16,
            heads=2,
            blocks=2,
            mixtures=5,
            regions=6,
            time_scale=0.3,
            time_encoding_rate=2.0,
            gap_code=True,
            unit_regions=True,
            sample_latent=False,
            attention_start="local",
            attention_output_init=0.2,
            diffusion=0.1**2,
            sigma_p=0.01,
            energy_weight=1e-5,
            model_fingerprint=True,
            fingerprint_of="ridge",
            smoother=True,
        ),
        16,
        ("cttctctct", "tctcct...", "ttcct...."),
        ((), (1, 4), (5,)),
        irregular=True,
        centre_visible=True,
    ),
    # What no other case moves from its default.
    "rest": Case(
        BdoConfig(
            **SMALL,
            ffn_ratio=2,
            layer_norm_eps=1e-3,
            rate_floor=0.02,
            variance_floor=0.05,
            lead="learned_token",
            dropout=0.25,
            draws=2,
            energy_weight=0.7,
            reconstruction_weight=0.6,
        ),
        17,
        ("ttctctttc", "tctcct..."),
        ((), (2,)),
        irregular=True,
    ),
    # The identity term, and a fingerprint of correlations. Scans 0, 1 and 4 have a partner, but nobody else is in the group of 4; scan 2 is of
    # the person of scan 0, and scan 3 of somebody else; neither has a partner, so they are only strangers.
    "people": Case(
        BdoConfig(
            width=16,
            heads=2,
            blocks=1,
            mixtures=5,
            regions=6,
            unit_regions=True,
            identity=0.4,
            identity_temperature=0.2,
            identity_width=5,
            lead="learned_token",
            model_fingerprint=True,
        ),
        18,
        ("cttct", "tctct", "ctctt", "ttcct", "cttcc", "cctt.", "tccct", "tctc."),
        ((), (1,), (), (), (4,), (), (), (2,)),
        irregular=True,
        kin=((0, 0, 0), (1, 1, 0), (0, 0, 0), (2, 0, 0), (1, 1, 0), (3, 2, 0), (4, 3, 1), (4, 3, 1)),
    ),
}

# The key of the dropout masks: bytes that are all different.
DROPOUT_KEY = bytes(range(32))


def to_f32_grid(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float32).to(torch.float64)


@torch.no_grad()
def perturbed_model(case: Case, generator: torch.Generator) -> Bdo:
    """Moves every parameter away from its initial value, so that no gradient is trivially simple."""
    model = Bdo(case.config)
    initialise(model, generator)
    for name, parameter in model.named_parameters():
        spread = 0.2 if parameter.dim() == 1 else 0.05
        if name == "dynamics.cayley":
            # A frozen basis means V = V0; W = 0 makes that true for a reader that still applies it.
            spread = 0.1 if case.config.learn_basis else 0.0
        parameter.add_(spread * torch.randn(parameter.shape, generator=generator))
    if case.config.model_fingerprint:
        mean = model.fingerprint.mean
        mean.copy_(0.2 * torch.randn(mean.shape, generator=generator))
    if case.config.smoother:
        fit_at_random(model.smoother, generator)
    for tensor in [*model.parameters(), *model.buffers()]:
        tensor.copy_(to_f32_grid(tensor))
    return model


def fit_at_random(smoother: Smoother, generator: torch.Generator) -> None:
    """Random directions, and a decay in time for each group; such curves, linear between lags, are positive definite."""
    draws = torch.randn(smoother.directions.shape, generator=generator)
    smoother.directions.copy_(torch.linalg.qr(draws).Q)
    smoother.lag_seconds.fill_(0.25)
    lags = 0.25 * torch.arange(smoother.LAGS)
    for group in range(smoother.groups):
        smoother.correlations[group] = torch.exp(-lags / (1 + 1.5 * group))


@torch.no_grad()
def random_heads(case: Case, generator: torch.Generator) -> FeatureHeads:
    heads = FeatureHeads(case.config)
    for parameter in heads.parameters():
        spread = 0.2 if parameter.dim() == 1 else parameter.shape[1] ** -0.5
        parameter.copy_(to_f32_grid(spread * torch.randn(parameter.shape, generator=generator)))
    return heads


@torch.no_grad()
def perturbed_encoder(model: Bdo, generator: torch.Generator):
    """An EMA encoder visibly different from the online one: mixing them up must change the numbers."""
    encoder = copy.deepcopy(model.encoder)
    for parameter in encoder.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.copy_(to_f32_grid(parameter + 0.05 * noise))
    return encoder


def make_batch(case: Case, generator: torch.Generator) -> tuple[Batch, torch.Tensor]:
    """The batch, and the scaled values before they were centred on what is visible."""
    batch, frames = len(case.context), len(case.context[0])
    width, regions = case.config.width, case.config.regions
    letters = [list(row) for row in case.context]
    frame_valid = torch.tensor([[letter != "." for letter in row] for row in letters])
    context = torch.tensor([[letter == "c" for letter in row] for row in letters])
    region_valid = torch.ones(batch, regions, dtype=torch.bool)
    for sample, missing in enumerate(case.missing_regions):
        region_valid[sample, list(missing)] = False

    def draw(*shape: int) -> torch.Tensor:
        return to_f32_grid(torch.randn(*shape, generator=generator))

    known = frame_valid.unsqueeze(-1) * region_valid.unsqueeze(1)
    series = draw(batch, frames, regions) * known
    scaled = series
    if case.centre_visible:
        # Off its mean and of another size, so that centring and unit size both do something.
        scaled = to_f32_grid((3.0 * series + 0.7) * known)
        visible = context.unsqueeze(-1)
        mean = (scaled * visible).sum(1, keepdim=True) / visible.sum(1, keepdim=True)
        series = to_f32_grid((scaled - mean) * known)
    if case.irregular:
        # Gaps from 1/1024 (inside the series branch of phi1) to about one unit; the first sampled
        # frame of even samples is later than the first kept frame, so Delta_1 > 0 there.
        gaps = torch.ceil(torch.rand(batch, frames, generator=generator) ** 2 * 1024) / 1024
        gaps[:, 3] = 1 / 1024
        gaps[1::2, 0] = 0
        times = gaps.cumsum(1)
    else:
        times = torch.arange(frames).expand(batch, frames) * (225 / 1024)
    return Batch(
        series=series,
        times=times * frame_valid,
        context=context,
        frame_valid=frame_valid,
        region_valid=region_valid,
        eps_q=draw(batch, frames, width) * context.unsqueeze(-1),
        eps_p=torch.stack(
            [draw(batch, frames, width) * (frame_valid & ~context).unsqueeze(-1) for _ in range(case.config.draws)]
        ),
        **dropout_masks(case.config, context, frame_valid & ~context),
        kin=torch.tensor(case.kin) if case.kin else None,
    ), scaled


def dropout_masks(config: BdoConfig, context: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
    """Masks are drawn for the gathered frames of a role, padded to the most any sample has; here they stand at the
    places of those frames on the grid."""
    if config.dropout == 0.0:
        return {}
    batch, frames = context.shape
    places = [[row.nonzero().flatten() for row in role] for role in (context, target)]
    slots = [max(len(place) for place in role) for role in places]
    attention = torch.zeros(config.blocks, batch, config.heads, frames, frames)
    decoder = torch.zeros(config.draws, batch, frames, config.width)
    for block in range(config.blocks):
        mask = torch.from_numpy(kept(DROPOUT_KEY, block, config.dropout, (batch, config.heads, slots[0], slots[0])))
        for sample, place in enumerate(places[0]):
            n = len(place)
            for head in range(config.heads):
                attention[block, sample, head, place.unsqueeze(1), place] = mask[sample, head, :n, :n]
    for draw in range(config.draws):
        shape = (batch, slots[1], config.width)
        mask = torch.from_numpy(kept(DROPOUT_KEY, config.blocks + draw, config.dropout, shape))
        for sample, place in enumerate(places[1]):
            decoder[draw, sample, place] = mask[sample, : len(place)]
    return {"attention_kept": attention, "decoder_kept": decoder}


def assert_clear_of_relu_kinks(model: Bdo, ema_encoder, batch: Batch) -> None:
    """A pre-activation within f32 rounding of zero would let a correct f32 reader take the other side
    of the ReLU and fail; the seeds are chosen so that none comes near."""
    smallest = []
    embeds = [model.encoder.embed, ema_encoder.embed]
    watched = [linear for embed in embeds for linear in (embed.linear1, embed.linear2)]
    watched.append(model.decoder.linear1)
    handles = [
        linear.register_forward_hook(lambda _, __, y: smallest.append(y[batch.frame_valid].abs().min().item()))
        for linear in watched
    ]
    with torch.no_grad():
        model(batch, ema_encoder)
    for handle in handles:
        handle.remove()
    assert min(smallest) > 1e-5, smallest


def whole_loss(model: Bdo, heads: FeatureHeads, ema_encoder, batch: Batch) -> dict[str, torch.Tensor]:
    """The outputs of the model and, where there are any, the terms on its mean control and the sum of all terms."""
    output = model(batch, ema_encoder)
    feature = output.pop("mean_control")
    terms = heads(feature, batch)
    if terms:
        output["mean_control"] = feature
        output |= {f"loss_{name}": term for name, term in terms.items()}
        output["loss_whole"] = output["loss_total"] + sum(terms.values())
    return output


def f32_error(model: Bdo, heads, ema_encoder, batch: Batch, reference: dict, grads: list) -> tuple[float, float]:
    """Worst error of the same code in f32, per tensor relative to its largest entry: (outputs, gradients).

    This is what single precision costs by itself, so it is what a tolerance should be derived from."""

    def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
        return ((found.double() - expected).abs().max() / expected.abs().max().clamp_min(1e-30)).item()

    single = {k: v.float() if v is not None and v.is_floating_point() else v for k, v in vars(batch).items()}
    model32, ema32 = copy.deepcopy(model).float(), copy.deepcopy(ema_encoder).float()
    heads32 = copy.deepcopy(heads).float()
    output = whole_loss(model32, heads32, ema32, Batch(**single))
    trainable = [p for p in [*model32.parameters(), *heads32.parameters()] if p.requires_grad]
    found = torch.autograd.grad(output.get("loss_whole", output["loss_total"]), trainable)
    worst_output = max(relative(output[key], reference[key]) for key in output)
    return worst_output, max(relative(f, g) for f, g in zip(found, grads, strict=True))


def make_golden(name: str, case: Case) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    generator = torch.Generator().manual_seed(case.seed)
    model = perturbed_model(case, generator)
    ema_encoder = perturbed_encoder(model, generator)
    batch, scaled = make_batch(case, generator)
    heads = random_heads(case, generator)

    output = whole_loss(model, heads, ema_encoder, batch)
    both = [*model.named_parameters(), *heads.named_parameters()]
    trainable = [(key, p) for key, p in both if p.requires_grad]
    grads = torch.autograd.grad(output.get("loss_whole", output["loss_total"]), [p for _, p in trainable])
    assert_clear_of_relu_kinks(model, ema_encoder, batch)
    error = f32_error(model, heads, ema_encoder, batch, output, grads)
    print(f"{name:13} f32 twin against f64: outputs {error[0]:.1e}, gradients {error[1]:.1e}")
    with torch.no_grad():
        output["feature"] = model.feature(batch.series, batch.times, batch.frame_valid, batch.region_valid)

    tensors = {f"param.{key}": value for key, value in model.state_dict().items()}
    tensors |= {f"param.{key}": value for key, value in heads.state_dict().items()}
    tensors |= {f"ema.encoder.{key}": value for key, value in ema_encoder.state_dict().items()}
    inputs = dict(vars(batch))
    inputs |= {f"eps_p.{draw}" if draw else "eps_p": eps for draw, eps in enumerate(inputs.pop("eps_p"))}
    # The reader draws its own dropout masks.
    tensors |= {f"input.{key}": value for key, value in inputs.items() if value is not None and "kept" not in key}
    if case.centre_visible:
        tensors["input.scaled"] = scaled
    if case.config.attention_start == "local":
        start = Bdo(case.config)
        initialise(start, generator)
        for index, block in enumerate(start.encoder.blocks):
            tensors[f"start.{index}"] = block.attn.qkv.weight[: 2 * case.config.width]
    tensors |= {f"out.{key}": value for key, value in output.items()}
    for (key, _), grad in zip(trainable, grads, strict=True):
        assert torch.isfinite(grad).all(), (name, key)
        largest = grad.abs().max().item()
        assert largest > 1e-6, (name, key, largest)
        print(f"{name:13} {key:42} max |grad| {largest:.3e}")
        tensors[f"grad.{key}"] = grad

    losses = {key: value.item() for key, value in output.items() if key.startswith("loss_")}
    print(f"{name:13} {losses}")
    assert losses["loss_latent"] == 0 if case.config.tau == 0 else losses["loss_latent"] > 0
    defaults = BdoConfig().as_dict()
    # Keys that came later are written where they are not at their default.
    first = list(defaults)[: list(defaults).index("diffusion") + 1]
    config = {
        **{key: value for key, value in case.config.as_dict().items() if key in first or value != defaults[key]},
        "layer_norm_eps": case.config.layer_norm_eps,
        "case": name,
        "seed": case.seed,
        "batch": len(case.context),
        "frames": len(case.context[0]),
        "computed_in": "float64",
        "torch": torch.__version__.split("+")[0],
    }
    stored = {}
    for key, value in tensors.items():
        value = value.detach().reshape(1) if value.dim() == 0 else value.detach()
        stored[key] = value.to(torch.float32).contiguous()
        if key.startswith(("param.", "ema.", "input.")):
            assert torch.equal(stored[key].double(), value.double()), f"{key} is not exact in f32"
    return stored, {"config": json.dumps(config, sort_keys=True)}


if __name__ == "__main__":
    out = golden_folder(__doc__)
    # One thread: the order of sums, and so the last bit, must not depend on the machine's core count.
    torch.set_num_threads(1)
    for name, case in CASES.items():
        tensors, metadata = make_golden(name, case)
        path = out / f"model_{name}.safetensors"
        save_file(tensors, path, metadata=metadata)
        assert path.stat().st_size < 1 << 20, path
        print(f"{path.name}: {path.stat().st_size} bytes, {len(tensors)} tensors")
