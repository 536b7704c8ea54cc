"""Writes testdata/golden/baseline_*.safetensors: values and gradients of PyTorch twins of the baselines.

Each twin is the literal form of the method (real convolutions, one kernel per region, nn.MultiheadAttention, loops over
pairs), so that it shares no trick with the fast code. Parameters and inputs are rounded to f32 and computed from there in
f64; parameters carry the names of the Rust networks. Beside them: scikit-learn's Ledoit-Wolf covariance, and a diffusion map
by a dense eigensolver.
"""


import numpy as np
import torch
import torch.nn.functional as F
from golden_folder import golden_folder
from safetensors.torch import save_file
from sklearn.covariance import LedoitWolf

torch.set_default_dtype(torch.float64)


def grid(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float32).to(torch.float64)


class Draw:
    """Named parameters, each a leaf that is exact in f32."""

    def __init__(self, seed: int):
        self.generator = torch.Generator().manual_seed(seed)
        self.parameters: dict[str, torch.Tensor] = {}

    def normal(self, *shape: int) -> torch.Tensor:
        return grid(torch.randn(*shape, generator=self.generator))

    def add(self, name: str, *shape: int, scale: float, shift: float = 0.0) -> None:
        value = grid(scale * torch.randn(*shape, generator=self.generator) + shift)
        self.parameters[name] = value.requires_grad_()

    def linear(self, name: str, inputs: int, outputs: int) -> None:
        self.add(f"{name}.weight", outputs, inputs, scale=inputs**-0.5)
        self.add(f"{name}.bias", outputs, scale=0.2)

    def norm(self, name: str, width: int) -> None:
        self.add(f"{name}.weight", width, scale=0.2, shift=1.0)
        self.add(f"{name}.bias", width, scale=0.2)


def symmetric(draw: Draw, batch: int, n: int) -> torch.Tensor:
    a = draw.normal(batch, n, n)
    x = torch.tanh(0.5 * (a + a.transpose(1, 2)))
    x[:, range(n), range(n)] = 1.0
    return grid(x)


def affine(p: dict, name: str, x: torch.Tensor) -> torch.Tensor:
    return F.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])


def brainnetcnn(n: int = 7, batch: int = 3):
    draw = Draw(21)
    for side in ("row", "column"):
        draw.linear(f"e2e1.{side}", n, 32)
        draw.add(f"e2e2.{side}.weight", 64, 32, n, scale=(32 * n) ** -0.5)
        draw.add(f"e2e2.{side}.bias", 64, scale=0.2)
    draw.add("e2n.weight", 1, 64, n, scale=(64 * n) ** -0.5)
    draw.add("e2n.bias", 1, scale=0.2)
    draw.linear("n2g", n, 256)
    draw.linear("linear1", 256, 128)
    draw.linear("linear2", 128, 30)
    draw.linear("linear3", 30, 1)
    # Not symmetric on purpose: rows and columns must not be mixed up.
    x = grid(symmetric(draw, batch, n) + 0.3 * draw.normal(batch, n, n))

    def forward(p: dict, training: bool):
        def edges(name: str, image: torch.Tensor) -> torch.Tensor:
            weight = {s: p[f"{name}.{s}.weight"].reshape(-1, image.shape[1], n) for s in ("row", "column")}
            row = F.conv2d(image, weight["row"].unsqueeze(2), p[f"{name}.row.bias"])
            column = F.conv2d(image, weight["column"].unsqueeze(3), p[f"{name}.column.bias"])
            return F.leaky_relu(torch.cat([row] * n, 3) + torch.cat([column] * n, 2), 0.33)

        image = edges("e2e2", edges("e2e1", x.unsqueeze(1)))
        nodes = F.leaky_relu(F.conv2d(image, p["e2n.weight"].unsqueeze(2), p["e2n.bias"]), 0.33)  # [B, 1, N, 1]
        graph = F.leaky_relu(F.conv2d(nodes, p["n2g.weight"].reshape(256, 1, n, 1), p["n2g.bias"]), 0.33)
        hidden = graph.reshape(batch, 256)
        for name in ("linear1", "linear2"):
            hidden = F.leaky_relu(affine(p, name, hidden), 0.33)
        return affine(p, "linear3", hidden), None, {}

    return draw.parameters, {"nodes": x}, forward


def braingnn(n: int = 9, batch: int = 6, quirks: bool = False):
    draw = Draw(22)
    for name, inputs in (("conv1", n), ("conv2", 32)):
        draw.add(f"{name}.membership", 8, n, scale=0.7)
        draw.add(f"{name}.kernels", inputs * 32, 8, scale=(8 * inputs) ** -0.5)
        draw.add(f"{name}.shared", inputs * 32, scale=inputs**-0.5)
        draw.add(f"{name}.bias", 32, scale=0.2)
    for name in ("pool1", "pool2"):
        draw.add(f"{name}.weight", 32, scale=0.3)
    draw.linear("linear1", 128, 32)
    draw.norm("norm1", 32)
    draw.linear("linear2", 32, 512)
    draw.norm("norm2", 512)
    draw.linear("linear3", 512, 1)
    for name, width in (("norm1", 32), ("norm2", 512)):
        draw.add(f"{name}.running_mean", width, scale=0.1)
        draw.parameters[f"{name}.running_variance"] = grid(0.5 + torch.rand(width, generator=draw.generator))
        draw.parameters[f"{name}.running_mean"] = draw.parameters[f"{name}.running_mean"].detach()
    nodes = symmetric(draw, batch, n)
    edges = grid(symmetric(draw, batch, n).abs())
    edges[:, range(n), range(n)] = 0.0
    # A region that is missing in the last graph has no edges and no features.
    for tensor in (edges, nodes):
        tensor[-1, 3, :] = 0.0
        tensor[-1, :, 3] = 0.0
    classes = torch.tensor([0, 1, 1, 0, 1, 0])

    def conv(p, name, x, adjacency, regions):
        inputs = x.shape[1]
        onehot = F.one_hot(regions, n).to(x.dtype)
        kernels = F.relu(onehot @ p[f"{name}.membership"].T) @ p[f"{name}.kernels"].T + p[f"{name}.shared"]
        mapped = torch.stack([x[r] @ kernels[r].reshape(inputs, 32) for r in range(x.shape[0])])
        rows = []
        for r in range(x.shape[0]):
            weight = {j: adjacency[r, j] for j in range(x.shape[0]) if j != r and adjacency[r, j] != 0}
            weight[r] = torch.tensor(1.0)
            total = sum(torch.exp(w) for w in weight.values())
            rows.append(sum(torch.exp(w) / total * mapped[j] for j, w in weight.items()))
        return torch.stack(rows) + p[f"{name}.bias"]

    def pool(p, name, x, adjacency, regions):
        direction = p[f"{name}.weight"]
        score = torch.sigmoid(x @ direction / direction.norm())
        kept = torch.argsort(score, descending=True)[: (x.shape[0] + 1) // 2]
        ordered = torch.sort(score).values
        assert (ordered[1:] - ordered[:-1]).min() > 1e-6, "two scores are too close for f32"
        pooled = x[kept] * score[kept].unsqueeze(1)
        return pooled, adjacency[kept][:, kept], regions[kept], score, score[kept]

    def separation(s):
        half = s.shape[1] // 2
        s = s.sort(dim=1).values
        return -torch.log(s[:, -half:] + 1e-10).mean() - torch.log(1 - s[:, :half] + 1e-10).mean()

    def forward(p, training):
        features, scores1, scores2 = [], [], []
        for b in range(batch):
            regions = torch.arange(n)
            x = conv(p, "conv1", nodes[b], edges[b], regions)
            x, adjacency, regions, all1, kept1 = pool(p, "pool1", x, edges[b], regions)
            first = torch.cat([x.max(0).values, x.mean(0)])
            adjacency = adjacency + torch.eye(len(regions))
            adjacency = (adjacency @ adjacency) * (1 - torch.eye(len(regions)))
            x = conv(p, "conv2", x, adjacency, regions)
            x, _, _, all2, kept2 = pool(p, "pool2", x, adjacency, regions)
            features.append(torch.cat([first, x.max(0).values, x.mean(0)]))
            scores1.append(kept1 if quirks else all1)
            scores2.append(kept2 if quirks else all2)
        hidden = torch.stack(features)
        statistics = {}
        for layer, norm in (("linear1", "norm1"), ("linear2", "norm2")):
            hidden = F.relu(affine(p, layer, hidden))
            mean, variance = p[f"{norm}.running_mean"].clone(), p[f"{norm}.running_variance"].clone()
            hidden = F.batch_norm(
                hidden, mean, variance, p[f"{norm}.weight"], p[f"{norm}.bias"], training=training, eps=1e-5
            )
            statistics |= {f"{norm}.running_mean": mean, f"{norm}.running_variance": variance}
        output = affine(p, "linear3", hidden)
        scores1, scores2 = torch.stack(scores1), torch.stack(scores2)
        if quirks:
            scores1, scores2 = torch.sigmoid(scores1), torch.sigmoid(scores2)
        alike = torch.sigmoid(scores1) if quirks else scores1
        consistency = torch.tensor(0.0)
        for c in (0, 1):
            members = alike[classes == c]
            pairs = sum((a - b).square().sum() for a in members for b in members)
            consistency = consistency + 0.5 * pairs / len(members) ** 2
        penalty = 0.1 * (separation(scores1) + separation(scores2)) + 0.1 * consistency
        return output, penalty, statistics

    return draw.parameters, {"nodes": nodes, "edges": edges, "classes": classes.double()}, forward


def braingnn_quirks():
    return braingnn(quirks=True)


def brainnettf(n: int = 12, batch: int = 3, clusters: int = 5, ffn: int = 16):
    draw = Draw(23)
    for i in range(2):
        draw.linear(f"layers.{i}.qkv", n, 3 * n)
        draw.linear(f"layers.{i}.proj", n, n)
        draw.norm(f"layers.{i}.norm1", n)
        draw.linear(f"layers.{i}.linear1", n, ffn)
        draw.linear(f"layers.{i}.linear2", ffn, n)
        draw.norm(f"layers.{i}.norm2", n)
    draw.linear("readout.linear1", n * n, 32)
    draw.linear("readout.linear2", 32, 32)
    draw.linear("readout.linear3", 32, n * n)
    draw.parameters["readout.centres"] = grid(torch.linalg.qr(draw.normal(n, clusters)).Q.T)
    draw.linear("reduce", n, 8)
    draw.linear("linear1", 8 * clusters, 256)
    draw.linear("linear2", 256, 32)
    draw.linear("linear3", 32, 1)
    x = symmetric(draw, batch, n)

    def forward(p, training):
        h = x
        for i in range(2):
            name = f"layers.{i}"
            mixed, _ = F.multi_head_attention_forward(
                h.transpose(0, 1),
                h.transpose(0, 1),
                h.transpose(0, 1),
                n,
                4,
                p[f"{name}.qkv.weight"],
                p[f"{name}.qkv.bias"],
                None,
                None,
                False,
                0.0,
                p[f"{name}.proj.weight"],
                p[f"{name}.proj.bias"],
                training=False,
            )
            h = F.layer_norm(h + mixed.transpose(0, 1), (n,), p[f"{name}.norm1.weight"], p[f"{name}.norm1.bias"])
            inner = affine(p, f"{name}.linear2", F.relu(affine(p, f"{name}.linear1", h)))
            h = F.layer_norm(h + inner, (n,), p[f"{name}.norm2.weight"], p[f"{name}.norm2.bias"])
        flat = F.leaky_relu(affine(p, "readout.linear1", h.reshape(batch, n * n)))
        flat = F.leaky_relu(affine(p, "readout.linear2", flat))
        h = affine(p, "readout.linear3", flat).reshape(batch, n, n)
        centres = p["readout.centres"]
        score = torch.einsum("brd,kd->brk", h, centres).square() / centres.norm(dim=1)
        clustered = torch.einsum("brk,brd->bkd", torch.softmax(score, 2), h)
        hidden = F.leaky_relu(affine(p, "reduce", clustered)).reshape(batch, 8 * clusters)
        for name in ("linear1", "linear2"):
            hidden = F.leaky_relu(affine(p, name, hidden))
        return affine(p, "linear3", hidden), None, {}

    return draw.parameters, {"nodes": x}, forward


def network_golden(name: str, make) -> dict[str, torch.Tensor]:
    parameters, inputs, forward = make()
    labels = torch.tensor([0.0, 1.0, 0.75, 1.0, 0.25, 0.0])[: inputs["nodes"].shape[0]]
    if "classes" in inputs:
        labels = inputs["classes"].clone()
    tensors = {f"param.{key}": value for key, value in parameters.items()}
    tensors |= {f"input.{key}": value for key, value in inputs.items()}
    tensors["input.labels"] = labels
    with torch.no_grad():
        tensors["out.predicting"] = forward(parameters, False)[0]
    output, penalty, statistics = forward(parameters, True)
    loss = F.binary_cross_entropy_with_logits(output.squeeze(1), labels)
    tensors["out.training"] = output
    if penalty is not None:
        tensors["out.penalty"] = penalty
        loss = loss + penalty
    tensors["out.loss"] = loss
    tensors |= {f"statistic.{key}": value for key, value in statistics.items()}
    trained = [(key, value) for key, value in parameters.items() if value.requires_grad]
    for (key, _), gradient in zip(trained, torch.autograd.grad(loss, [v for _, v in trained]), strict=True):
        largest = gradient.abs().max().item()
        assert largest > 1e-7 and torch.isfinite(gradient).all(), (name, key, largest)
        tensors[f"grad.{key}"] = gradient
    return tensors


def covariance_golden() -> dict[str, torch.Tensor]:
    """Shrunk covariance, correlation and partial correlation; fewer frames than regions in one of the cases."""
    tensors = {}
    for name, frames, regions in (("long", 60, 7), ("short", 9, 14)):
        generator = torch.Generator().manual_seed(frames)
        mixing = torch.randn(regions, regions, generator=generator)
        series = grid(torch.randn(frames, regions, generator=generator) @ mixing + 5.0)
        standard = ((series - series.mean(0)) / series.std(0, correction=0)).numpy()
        fit = LedoitWolf().fit(standard)
        covariance = fit.covariance_
        precision = np.linalg.inv(covariance)
        scale = np.sqrt(np.diag(covariance))
        root = np.sqrt(np.diag(precision))
        partial = -precision / np.outer(root, root)
        np.fill_diagonal(partial, 1.0)
        for key, value in (
            ("series", series.numpy()),
            ("shrinkage", np.array([fit.shrinkage_])),
            ("covariance", covariance),
            ("correlation", covariance / np.outer(scale, scale)),
            ("partial", partial),
            ("pearson", np.corrcoef(series.numpy().T)),
        ):
            tensors[f"{name}.{key}"] = torch.from_numpy(np.ascontiguousarray(value))
    return tensors


def trunk_parameters(draw: Draw, name: str, width: int, blocks: int) -> None:
    for i in range(blocks):
        draw.norm(f"{name}.blocks.{i}.norm1", width)
        draw.linear(f"{name}.blocks.{i}.attn.qkv", width, 3 * width)
        draw.linear(f"{name}.blocks.{i}.attn.proj", width, width)
        draw.norm(f"{name}.blocks.{i}.norm2", width)
        draw.linear(f"{name}.blocks.{i}.ffn.linear1", width, 4 * width)
        draw.linear(f"{name}.blocks.{i}.ffn.linear2", 4 * width, width)
    draw.norm(f"{name}.norm", width)


def trunk(p: dict, name: str, x: torch.Tensor, blocks: int, heads: int) -> torch.Tensor:
    batch, tokens, width = x.shape

    def norm(which: str, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (width,), p[f"{which}.weight"], p[f"{which}.bias"], eps=1e-6)

    for i in range(blocks):
        block = f"{name}.blocks.{i}"
        packed = affine(p, f"{block}.attn.qkv", norm(f"{block}.norm1", x))
        q, k, v = packed.reshape(batch, tokens, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width)
        x = x + affine(p, f"{block}.attn.proj", mixed)
        hidden = F.gelu(affine(p, f"{block}.ffn.linear1", norm(f"{block}.norm2", x)))
        x = x + affine(p, f"{block}.ffn.linear2", hidden)
    return norm(f"{name}.norm", x)


def brainlm() -> dict[str, torch.Tensor]:
    """Mask tokens are put back in the order of the grid before the decoder, as the original does."""
    regions, windows, width, inner, batch = 5, 4, 16, 8, 3
    tokens, keep = regions * windows, regions * windows // 4
    draw = Draw(24)
    draw.linear("encoder.patch", 16, width)
    draw.linear("encoder.place.centre", 3, width)
    draw.add("encoder.cls", width, scale=0.5)
    trunk_parameters(draw, "encoder.trunk", width, 2)
    draw.linear("decoder.embed", width, inner)
    draw.add("decoder.mask_token", inner, scale=0.5)
    draw.linear("decoder.place.centre", 3, inner)
    trunk_parameters(draw, "decoder.trunk", inner, 1)
    draw.linear("decoder.head1", inner, inner // 2)
    draw.linear("decoder.head2", inner // 2, 16)
    p = draw.parameters
    patches, places = draw.normal(batch, tokens, 16), draw.normal(regions, 3)
    order = torch.stack([torch.randperm(tokens, generator=draw.generator) for _ in range(batch)])
    visible, masked = order[:, :keep].sort(1).values, order[:, keep:].sort(1).values

    def codes(name: str, d: int) -> torch.Tensor:
        place = affine(p, name, places)
        window = torch.zeros(windows, d)
        for w in range(windows):
            for i in range(d):
                angle = torch.tensor(w / 10000 ** (2 * (i // 2) / d))
                window[w, i] = torch.sin(angle) if i % 2 == 0 else torch.cos(angle)
        return torch.stack([place[t // windows] + window[t % windows] for t in range(tokens)])

    def encode(which: torch.Tensor) -> torch.Tensor:
        at = codes("encoder.place.centre", width)
        x = torch.stack([affine(p, "encoder.patch", patches[b, which[b]]) + at[which[b]] for b in range(batch)])
        x = torch.cat([p["encoder.cls"].expand(batch, 1, width), x], 1)
        return trunk(p, "encoder.trunk", x, 2, 2)

    z = affine(p, "decoder.embed", encode(visible))
    at = codes("decoder.place.centre", inner)
    rows = []
    for b in range(batch):
        place_of = {int(t): k for k, t in enumerate(visible[b])}
        row = [z[b, 1 + place_of[t]] if t in place_of else p["decoder.mask_token"] for t in range(tokens)]
        rows.append(torch.stack([z[b, 0], *[x + at[t] for t, x in enumerate(row)]]))
    y = trunk(p, "decoder.trunk", torch.stack(rows), 1, 2)[:, 1:]
    y = affine(p, "decoder.head2", F.leaky_relu(affine(p, "decoder.head1", y), 0.1))
    hidden = torch.zeros(batch, tokens).scatter(1, masked, 1.0)
    loss = ((y - patches).square().mean(2) * hidden).sum() / hidden.sum()
    feature = encode(torch.arange(tokens).expand(batch, tokens))[:, 0]
    inputs = {"patches": patches, "places": places, "visible": visible.double(), "masked": masked.double()}
    return pretraining_golden("brainlm", p, inputs, loss, feature)


def brainjepa() -> dict[str, torch.Tensor]:
    regions, windows, width, inner, batch, gradients = 6, 4, 16, 8, 2, 30
    tokens = regions * windows
    draw = Draw(25)
    draw.linear("encoder.patch", 16, width)
    draw.linear("encoder.place", gradients, width // 2)
    trunk_parameters(draw, "encoder.trunk", width, 2)
    slow = {key: grid(value.detach() + 0.05 * draw.normal(*value.shape)) for key, value in draw.parameters.items()}
    draw.linear("predictor.embed", width, inner)
    draw.linear("predictor.place", gradients, inner // 2)
    draw.add("predictor.mask_token", inner, scale=0.5)
    trunk_parameters(draw, "predictor.trunk", inner, 1)
    draw.linear("predictor.out", inner, width)
    p = draw.parameters
    patches, places = draw.normal(batch, tokens, 16), draw.normal(regions, gradients)
    order = torch.stack([torch.randperm(tokens, generator=draw.generator) for _ in range(batch)])
    # A target occurs twice in the first sample, as the masks allow.
    context, target = order[:, :9], order[:, 9:17].clone()
    target[0, 5] = target[0, 0]

    def codes(p: dict, name: str) -> torch.Tensor:
        space = affine(p, name, places).repeat_interleave(windows, 0)
        space = (space - space.min()) / (space.max() - space.min()) * 2 - 1
        half = space.shape[1]
        omega = 1.0 / 10000 ** (torch.arange(half // 2) / (half / 2))
        angle = torch.arange(windows).unsqueeze(1) * omega
        time = torch.cat([torch.sin(angle), torch.cos(angle)], 1).repeat(regions, 1)
        return torch.cat([time, space], 1)

    def encode(p: dict, which: torch.Tensor) -> torch.Tensor:
        at = codes(p, "encoder.place")
        x = torch.stack([affine(p, "encoder.patch", patches[b, which[b]]) + at[which[b]] for b in range(batch)])
        return trunk(p, "encoder.trunk", x, 2, 2)

    everything = torch.arange(tokens).expand(batch, tokens)
    with torch.no_grad():
        slow_codes = encode(slow, everything)
        wanted = F.layer_norm(slow_codes, (width,))
        wanted = torch.stack([wanted[b, target[b]] for b in range(batch)])
    at = codes(p, "predictor.place")
    known = affine(p, "predictor.embed", encode(p, context)) + at[context]
    unknown = p["predictor.mask_token"] + at[target]
    x = trunk(p, "predictor.trunk", torch.cat([known, unknown], 1), 1, 2)
    predicted = affine(p, "predictor.out", x[:, context.shape[1] :])
    loss = F.smooth_l1_loss(predicted, wanted)
    inputs = {"patches": patches, "places": places, "context": context.double(), "target": target.double()}
    tensors = pretraining_golden("brainjepa", p, inputs, loss, slow_codes.mean(1))
    return tensors | {f"teacher.{key}": value for key, value in slow.items()}


def pretraining_golden(name: str, parameters: dict, inputs: dict, loss, feature) -> dict[str, torch.Tensor]:
    tensors = {f"param.{key}": value for key, value in parameters.items()}
    tensors |= {f"input.{key}": value for key, value in inputs.items()}
    tensors |= {"out.loss": loss, "out.feature": feature}
    for (key, _), gradient in zip(parameters.items(), torch.autograd.grad(loss, parameters.values()), strict=True):
        assert gradient.abs().max() > 1e-7 and torch.isfinite(gradient).all(), (name, key)
        tensors[f"grad.{key}"] = gradient
    return tensors


def diffusion_map_golden(n: int = 40, components: int = 6) -> dict[str, torch.Tensor]:
    """The algorithm as published, with a dense solver for the unsymmetric walk."""
    generator = np.random.default_rng(5)
    series = generator.standard_normal((200, n)) @ (generator.standard_normal((n, n)) + 3 * np.eye(n))
    connectivity = np.corrcoef(series.T).astype(np.float32).astype(np.float64)
    kept = np.zeros_like(connectivity)
    for i, row in enumerate(connectivity):
        top = np.argsort(-row)[: n // 10]
        kept[i, top] = np.maximum(row[top], 0)
    length = np.linalg.norm(kept, axis=1)
    cosine = np.clip(kept @ kept.T / np.outer(length, length), -1, 1)
    affinity = 1 - np.arccos(cosine) / np.pi
    np.fill_diagonal(affinity, 1.0)
    density = affinity.sum(1) ** -0.5
    walk = affinity * np.outer(density, density)
    walk = walk / walk.sum(1, keepdims=True)
    values, vectors = np.linalg.eig(walk)
    values, vectors = values.real, vectors.real
    order = np.argsort(-values)[: components + 1]
    values, vectors = values[order] / values[order[0]], vectors[:, order] / vectors[:, [order[0]]]
    values, vectors = values[1:], vectors[:, 1:]
    # Length of an axis as the symmetric problem has it: unit vectors weighted by the stationary distribution.
    degree = (affinity * np.outer(density, density)).sum(1)
    vectors = vectors / np.sqrt((vectors**2 * (degree / degree.sum())[:, None]).sum(0))
    vectors = vectors * (values / (1 - values))
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(0), range(components)])
    found = {"connectivity": connectivity, "gradients": vectors, "eigenvalues": values}
    return {key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in found.items()}


MAKERS = {
    "brainnetcnn": brainnetcnn,
    "braingnn": braingnn,
    "braingnn_quirks": braingnn_quirks,
    "brainnettf": brainnettf,
}


if __name__ == "__main__":
    out = golden_folder(__doc__)
    torch.set_num_threads(1)
    goldens = {name: network_golden(name, make) for name, make in MAKERS.items()}
    goldens |= {"brainlm": brainlm(), "brainjepa": brainjepa()}
    goldens |= {"covariance": covariance_golden(), "diffusion_map": diffusion_map_golden()}
    for name, tensors in goldens.items():
        stored = {}
        for key, value in tensors.items():
            value = value.detach().reshape(1) if value.dim() == 0 else value.detach()
            stored[key] = value.to(torch.float32).contiguous().clone()
            if key.startswith(("param.", "input.", "teacher.")) or key.endswith(".series"):
                assert torch.equal(stored[key].double(), value), f"{key} is not exact in f32"
        path = out / f"baseline_{name}.safetensors"
        save_file(stored, path)
        assert path.stat().st_size < 1 << 20, path
        print(f"{path.name}: {path.stat().st_size} bytes, {len(stored)} tensors")
