"""BDO for Brainmarks, as a plug-in of its namespace package ``brainmarks.models``.

Registers ``bdo_schaefer400`` and ``bdo_schaefer400_tians3`` (the spaces of Brainmarks that are region series) and ``bdo_model``, which
takes the space as an argument. Each wants the path of a model directory as ``ckpt_path``.
"""

import numpy as np
import torch
from torch import Tensor, nn

from brainmarks.models.base import Embeddings
from brainmarks.models.registry import register_model

import bdo


class BdoTransform:
    """Brainmarks hands over series of unit variance; the model was trained on series in their own units."""

    def __call__(self, sample: dict) -> dict:
        bold = sample["bold"]
        return {**sample, "bold": bold * sample["std"] + sample["mean"]}


class BdoWrapper(nn.Module):
    """The mean control of a frozen model as the only embedding of a scan, [B, 1, D]."""

    def __init__(self, model: bdo.Model, space: str, pooling: str = "mean") -> None:
        super().__init__()
        self.__space__ = space
        self.model, self.pooling = model, pooling
        # Brainmarks asks a model for its device by its parameters.
        self.anchor = nn.Parameter(torch.zeros(1), requires_grad=False)

    def forward(self, batch: dict) -> Embeddings:
        bold, tr = batch["bold"], batch["tr"]
        series = [np.asarray(scan) for scan in bold.detach().cpu().float()]
        steps = np.broadcast_to(np.asarray(tr.cpu() if isinstance(tr, Tensor) else tr, dtype=float).ravel(), len(series))
        found = self.model.embed(series, tr=list(steps), pooling=self.pooling)
        return Embeddings(torch.from_numpy(found)[:, None, :].to(self.anchor.device), None, None)


@register_model
def bdo_model(ckpt_path: str, space: str, pooling: str = "mean", **kwargs):
    """``ckpt_path`` is a model directory whose regions are those of ``space``, in its order."""
    return BdoTransform(), BdoWrapper(bdo.load(ckpt_path, same_atlas=True), space, pooling)


@register_model
def bdo_schaefer400(ckpt_path: str, **kwargs):
    """A model of the 400 regions of Schaefer."""
    return bdo_model(ckpt_path, "schaefer400", **kwargs)


@register_model
def bdo_schaefer400_tians3(ckpt_path: str, **kwargs):
    """A model of the 400 regions of Schaefer and the 50 of Tian S3."""
    return bdo_model(ckpt_path, "schaefer400_tians3", **kwargs)
