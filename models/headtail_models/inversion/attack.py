"""A reconstruction attack: a network that is trained to draw the picture from what crossed.

The eavesdropper has the bundle, so he can run its head on pictures of his own and learn the way
back (He, Zhang, Lee, "Model inversion attacks against collaborative inference", ACSAC 2019, the
query-free setting's stronger case: he knows the head). What he recovers is a lower bound on what is
there; a larger network and more pictures see more.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

LEAK: Final = 0.1
_WINDOW: Final = 128
"""Side, in pixels of the drawn picture, of the parts that are trained on."""

Floats = NDArray[np.float32]


class Inverter(nn.Module):
    """What crossed (N, C, h, w) to a picture (N, 3, h * zoom, w * zoom), 0 to 1."""

    def __init__(self, channels: int, *, zoom: int, width: int) -> None:
        super().__init__()
        # Channels of a tensor differ in scale by far: bring them to the same.
        self.normal = nn.BatchNorm2d(channels, affine=False)
        doublings = round(math.log2(zoom))
        widths = [max(8, width >> step) for step in range(doublings + 1)]
        self.first = nn.Conv2d(channels, widths[0], 3, padding=1)
        self.blocks = nn.ModuleList(_Block(before) for before in widths)
        self.wider = nn.ModuleList(
            nn.Conv2d(before, after * 4, 3, padding=1) for before, after in pairwise(widths)
        )
        self.last = nn.Conv2d(widths[-1], 3, 3, padding=1)

    def forward(self, crossed: torch.Tensor) -> torch.Tensor:
        tensor = functional.leaky_relu(self.first(self.normal(crossed)), LEAK)
        for index, block in enumerate(self.blocks):
            if index:
                tensor = functional.pixel_shuffle(self.wider[index - 1](tensor), 2)
            tensor = block(tensor)
        result: torch.Tensor = torch.sigmoid(self.last(tensor))
        return result


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Conv2d(width, width, 3, padding=1)
        self.outer = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        inner = functional.leaky_relu(self.inner(tensor), LEAK)
        result: torch.Tensor = functional.leaky_relu(tensor + self.outer(inner), LEAK)
        return result


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """What crossed, (N, C, h, w), and the pictures that it came from, (N, 3, H, W), 0 to 1.

    H is a whole multiple of h, by a power of two, or h of H.
    """

    crossed: Floats
    pictures: Floats

    @property
    def zoom(self) -> int:
        return max(1, int(self.pictures.shape[2]) // int(self.crossed.shape[2]))


def learn(
    pairs: Pairs,
    *,
    steps: int,
    width: int = 96,
    batch: int = 8,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> Inverter:
    """The inverter trained on `pairs`. Where what crossed is larger than the picture, it is pooled
    to its size. Sets torch to one thread. Raises ValueError when sizes don't fit."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    crossed, zoom = _fitted(pairs), pairs.zoom
    inverter = Inverter(crossed.shape[1], zoom=zoom, width=width)
    optimiser = torch.optim.AdamW(inverter.parameters(), lr=1.5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=1.5e-3, total_steps=steps)
    side = min(max(1, _WINDOW // zoom), *crossed.shape[2:])
    for step in range(steps):
        chosen = random.integers(0, len(crossed), batch)
        row = int(random.integers(0, crossed.shape[2] - side + 1))
        column = int(random.integers(0, crossed.shape[3] - side + 1))
        seen = crossed[chosen, :, row : row + side, column : column + side]
        true = pairs.pictures[
            chosen,
            :,
            row * zoom : (row + side) * zoom,
            column * zoom : (column + side) * zoom,
        ]
        drawn = inverter(torch.from_numpy(seen))
        loss = (drawn - torch.from_numpy(true)).square().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(inverter.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        progress(step + 1)
    return inverter.eval()


def draw(inverter: Inverter, pairs: Pairs) -> Floats:
    """The pictures (N, 3, H, W) as the attack sees them."""
    with torch.no_grad():
        drawn = [inverter(torch.from_numpy(one[None])).numpy() for one in _fitted(pairs)]
    result: Floats = np.concatenate(drawn)
    return result


def _fitted(pairs: Pairs) -> Floats:
    height, wanted = pairs.crossed.shape[2], pairs.pictures.shape[2]
    if height <= wanted:
        if wanted % height or (wanted // height) & (wanted // height - 1):
            raise ValueError(f"{wanted} rows are no power of two times {height}")
        return pairs.crossed
    if height % wanted:
        raise ValueError(f"{height} rows are no multiple of {wanted}")
    pooled = functional.avg_pool2d(torch.from_numpy(pairs.crossed), height // wanted)
    result: Floats = pooled.numpy()
    return result
