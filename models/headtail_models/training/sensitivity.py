"""What the outputs of the detector feel of an error in the middle of it."""

import numpy as np
import torch
from torch.nn import functional

from headtail_models.nets.darknet import DarknetNet
from headtail_models.training.feature_cache import FeatureCache
from headtail_models.training.yolov3_data import JOIN, MAPS


class Sensitivity:
    """How much the teacher's outputs feel an error in layer 8: in which channels, and where.

    Channels: F = E[g g^T] over gradients g of random sums of the outputs (a Fisher matrix, whose
    trace is estimated as by Hutchinson, 1989); an error e at a place costs e^T F e. Places: those
    where the teacher sees an object, and their neighbours, count most.
    """

    def __init__(self, teacher: DarknetNet, cache: FeatureCache, classes: int) -> None:
        self._shape = 5 + classes
        random = np.random.default_rng(0)
        numbers = random.choice(cache.count, min(160, cache.count), replace=False)
        width = teacher.layer(JOIN).out_channels
        matrix = torch.zeros(width, width)
        torch.manual_seed(0)
        for first in range(0, len(numbers), 8):
            batch = cache.take(numbers[first : first + 8])
            joined = batch["joined"].float().requires_grad_()
            later = teacher(joined, after=JOIN, keep=MAPS)
            total = torch.zeros(())
            for index in MAPS:
                maps = later[index]
                seen = self._objects(batch[f"l{index}"]).sqrt().repeat_interleave(self._shape, 1)
                total = total + (maps * seen * torch.randn_like(maps)).sum()
            total.backward()  # type: ignore[no-untyped-call]
            assert joined.grad is not None
            slopes = joined.grad.transpose(0, 1).flatten(1)
            matrix += slopes @ slopes.T
        values, vectors = torch.linalg.eigh(matrix / matrix.diagonal().mean())
        self._root = (vectors * values.clamp(min=0).sqrt()).T.reshape(width, width, 1, 1)

    def error(self, joined: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """The error of layer 8's output as the outputs feel it, relative to that of zeros."""
        wanted = batch["joined"].float()
        places = self._places(batch, wanted.shape[2:])
        missed = functional.conv2d(joined.float() - wanted, self._root).square()
        whole = functional.conv2d(wanted, self._root).square()
        return (missed * places).mean() / (whole * places).mean()

    def _places(self, batch: dict[str, torch.Tensor], size: torch.Size) -> torch.Tensor:
        weight = torch.full((1, 1, 1, 1), 0.1)
        for index in MAPS:
            seen = self._objects(batch[f"l{index}"]).amax(dim=1, keepdim=True)
            seen = functional.max_pool2d(seen, 3, 1, 1)
            weight = weight + functional.interpolate(seen, size=size, mode="bilinear")
        return weight

    def _objects(self, maps: torch.Tensor) -> torch.Tensor:
        """Objectness (N, anchors, H, W) of raw maps."""
        return maps.float()[:, 4 :: self._shape].sigmoid()
