"""A network that is cut for a microcontroller: all four parts, trained together.

    input -> trunk -> branch -> logits            on the board, and the answer if they are sure
                   \\-> encoder -> code -> tail -> logits                  the tail on the edge

The code lies between 0 and `TOP`, a range that nothing has to find out: a board's levels of 8, 4
or 2 bits mean the same to every tail.
"""

from typing import Final

import torch
from torch import nn

TOP: Final = 6.0
"""The encoder's last layer is clamped here, as ReLU6 is (Howard et al., "MobileNets", 2017)."""
BITS: Final = (8, 4, 2)
"""What a value of the code may be sent with."""


class BoardSplit(nn.Module):
    """The parts are plain networks of one tensor in, one out. `encoder` must end in `Code`.

    `helper` is a branch that only training has: what the trunk's features are made for where the
    exit itself is too small to teach them (Lee et al., "Deeply-Supervised Nets", AISTATS 2015).
    """

    def __init__(
        self,
        *,
        trunk: nn.Module,
        branch: nn.Module,
        encoder: nn.Module,
        tail: nn.Module,
        helper: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.trunk = trunk
        self.branch = branch
        self.encoder = encoder
        self.tail = tail
        self.helper = helper

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What the whole network says, (N, classes), when the code crosses as it is."""
        logits: torch.Tensor = self.tail(self.encoder(self.trunk(x)))
        return logits

    def answers(self, x: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of the exit and of the tail behind a code of `bits` bits a value."""
        near = self.trunk(x)
        return self.branch(near), self.tail(sent(self.encoder(near), bits))


class Code(nn.Hardtanh):
    """What the code is clamped by."""

    def __init__(self) -> None:
        super().__init__(0.0, TOP)


class Separable(nn.Sequential):
    """A depthwise convolution and a pointwise one (Zhang et al., "Hello Edge: Keyword Spotting on
    Microcontrollers", 2017, section 4.4)."""

    def __init__(
        self, channels: int, out: int, *, kernel: tuple[int, int], stride: tuple[int, int] = (1, 1)
    ) -> None:
        padding = (kernel[0] // 2, kernel[1] // 2)
        super().__init__(
            nn.Conv2d(channels, channels, kernel, stride, padding, groups=channels, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, out, 1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
        )


class Residual(nn.Module):
    """Two convolutions with a way past them (He et al., "Deep Residual Learning", CVPR 2016)."""

    def __init__(self, channels: int, *, kernel: tuple[int, int]) -> None:
        super().__init__()
        padding = (kernel[0] // 2, kernel[1] // 2)
        self.inner = nn.Sequential(
            nn.Conv2d(channels, channels, kernel, padding=padding, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, kernel, padding=padding, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.last = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.last(x + self.inner(x))
        return y


def tail(
    code: int, width: int, *, blocks: int, kernel: tuple[int, int], classes: int, dropout: float
) -> nn.Sequential:
    """The edge's part: from a code of `code` channels to logits, as wide as one likes."""
    padding = (kernel[0] // 2, kernel[1] // 2)
    return nn.Sequential(
        nn.Conv2d(code, width, kernel, padding=padding, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        *(Residual(width, kernel=kernel) for _ in range(blocks)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(width, classes),
    )


def sent(code: torch.Tensor, bits: int) -> torch.Tensor:
    """The code as it arrives. Gradients pass as if nothing was rounded (Bengio et al.,
    "Estimating or Propagating Gradients Through Stochastic Neurons", 2013)."""
    step = TOP / ((1 << bits) - 1)
    rounded = (code / step).round() * step
    arrived: torch.Tensor = code + (rounded - code).detach()
    return arrived
