"""The plug-in under Brainmarks' own registry, where Brainmarks and torch are there; else under the interface written down here."""

import sys
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")


@pytest.fixture
def registry(monkeypatch):
    """``create_model`` of Brainmarks."""
    try:
        from brainmarks.models.registry import create_model, list_models
    except ImportError:
        return written_down(monkeypatch)
    assert "bdo_schaefer400" in list_models()
    return create_model


def written_down(monkeypatch):
    """What Brainmarks 0.1.1 asks of a plug-in: a function that is registered and returns a transform and a module."""
    from typing import NamedTuple

    class Embeddings(NamedTuple):
        cls_embeds: object
        reg_embeds: object
        patch_embeds: object

    models = {}
    base, table = types.ModuleType("brainmarks.models.base"), types.ModuleType("brainmarks.models.registry")
    base.Embeddings = Embeddings
    table.register_model = lambda make: models.setdefault(make.__name__, make)
    monkeypatch.setitem(sys.modules, "brainmarks.models.base", base)
    monkeypatch.setitem(sys.modules, "brainmarks.models.registry", table)
    monkeypatch.delitem(sys.modules, "brainmarks.models.bdo_model", raising=False)
    import brainmarks.models.bdo_model  # noqa: F401

    return lambda name, **arguments: models[name](**arguments)


def test_a_model_under_brainmarks(registry, cohort, model):
    transform, wrapper = registry("bdo_model", ckpt_path=str(model.folder), space="schaefer400")
    assert isinstance(wrapper, torch.nn.Module) and wrapper.__space__ == "schaefer400"
    series = torch.from_numpy(np.stack([cohort.series(i) for i in range(3)]))
    mean, std = series.mean(dim=1, keepdim=True), series.std(dim=1, keepdim=True)
    samples = [
        transform({"bold": (series[i] - mean[i]) / std[i], "mean": mean[i], "std": std[i], "tr": cohort.tr(i)})
        for i in range(3)
    ]
    batch = {"bold": torch.stack([s["bold"] for s in samples]), "tr": torch.tensor([s["tr"] for s in samples])}
    embeddings = wrapper(batch)
    assert embeddings.cls_embeds.shape == (3, 1, model.width)
    assert embeddings.reg_embeds is None and embeddings.patch_embeds is None
    expected = model.embed(list(series.numpy()), tr=[cohort.tr(i) for i in range(3)], regions=cohort.regions)
    assert np.allclose(embeddings.cls_embeds[:, 0].numpy(), expected, atol=1e-3)
