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
_WIDTH_A_ZOOM: Final = 24
"""Channels of the first layers, for each time that the picture is larger than what crossed: what
lies near to the picture needs fewer, and has more places to compute."""
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
    """What crossed, (N, C, h, h), and the pictures that it came from, (N, 3, H, H), 0 to 1."""

    crossed: Floats
    pictures: Floats


def learn(
    pairs: Pairs,
    *,
    steps: int,
    width: int = 96,
    batch: int = 8,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> Inverter:
    """The inverter, at most `width` channels wide, trained on `pairs`.

    What crossed is brought to the nearest size that the picture is a power of two larger than, to
    the picture's own if it is larger. Sets torch to one thread.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    crossed = _fitted(pairs)
    zoom = pairs.pictures.shape[2] // crossed.shape[2]
    wide = min(width, _WIDTH_A_ZOOM * zoom)
    inverter = Inverter(crossed.shape[1], zoom=zoom, width=wide)
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
    side, wanted = int(pairs.crossed.shape[2]), int(pairs.pictures.shape[2])
    sizes = [wanted]
    while sizes[-1] % 2 == 0:
        sizes.append(sizes[-1] // 2)
    nearest = min(sizes, key=lambda size: abs(math.log(size / side)))
    if nearest == side:
        return pairs.crossed
    resized = functional.interpolate(
        torch.from_numpy(pairs.crossed), size=(nearest, nearest), mode="bilinear", antialias=True
    )
    result: Floats = resized.numpy()
    return result
