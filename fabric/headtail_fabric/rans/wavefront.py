"""The order in which a tensor's elements are coded, in fronts that are known at once.

Element (c, i, j) is coded in front  slope i + j + delay[c].  With slope 1 its left, upper and
upper left neighbours lie in earlier fronts; with slope 3 the whole causal part of a 5x5 window
does. A channel that looks at another one is delayed by at least one front more. So a decoder takes
one front after the other, all its elements in one go: 114 fronts for 12 x 52 x 52 elements of
which each channel looks at the one before. (The wavefront method: Lamport, "The parallel execution
of DO loops", CACM 1974.)
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Shape4 = tuple[int, int, int, int]

MAX_ELEMENTS: Final = 1 << 18
"""Of a tensor; what a decoder holds for one shape is about 200 bytes an element."""


def four_axes(shape: tuple[int, ...]) -> Shape4:
    """N x C x H x W of a shape with channels on axis 1: missing axes are 1, width is the last.

    Raises ValueError when it has no channels, more than four axes or too many elements.
    """
    if not 2 <= len(shape) <= 4:
        raise ValueError(f"a tensor of shape {shape}, from 2 to 4 axes can be coded")
    images, channels = shape[:2]
    height = shape[2] if len(shape) == 4 else 1
    width = shape[-1] if len(shape) >= 3 else 1
    if min(shape) < 0 or channels == 0:
        raise ValueError(f"a tensor of shape {shape}")
    if images * channels * height * width > MAX_ELEMENTS:
        raise ValueError(f"a tensor of shape {shape} has more than {MAX_ELEMENTS} elements")
    return images, channels, height, width


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Margin:
    """Elements around each channel that stand for what lies outside: always zero."""

    top: int
    left: int
    right: int


class Wavefront:
    """Order and addresses for one shape.

    An *address* is an element's place in a flat array of N x C x padded height x padded width,
    with one more element at its end, which is always zero too.
    """

    def __init__(
        self, shape: Shape4, *, slope: int, delays: Sequence[int] | Ints, margin: Margin
    ) -> None:
        _, channels, height, width = shape
        self.shape = shape
        self.margin = margin
        fronts = (
            slope * np.arange(height)[:, np.newaxis]
            + np.arange(width)
            + np.asarray(delays)[:, np.newaxis, np.newaxis]
        )
        fronts = np.broadcast_to(fronts, shape).reshape(-1)
        self.order: Ints = np.argsort(fronts, kind="stable")
        sizes = np.bincount(fronts)
        # Delays can leave a front empty.
        self.starts: list[int] = [0, *np.cumsum(sizes[sizes > 0]).tolist()]
        self.channels: Ints = self.order // (height * width) % channels

    @property
    def padded(self) -> Shape4:
        """Shape of the array that the addresses are about, without its last element."""
        images, channels, height, width = self.shape
        margin = self.margin
        return images, channels, height + margin.top, width + margin.left + margin.right

    @property
    def plane(self) -> int:
        """Distance of two channels."""
        return self.padded[2] * self.padded[3]

    @property
    def row(self) -> int:
        """Distance of two rows."""
        return self.padded[3]

    @property
    def size(self) -> int:
        """Elements of the flat array."""
        return int(np.prod(self.padded)) + 1

    @cached_property
    def addresses(self) -> Ints:
        """Of the elements in coding order."""
        _, _, height, width = self.shape
        plane, rest = np.divmod(self.order, height * width)
        row, column = np.divmod(rest, width)
        margin = self.margin
        return (plane * self.padded[2] + row + margin.top) * self.row + column + margin.left

    @cached_property
    def places(self) -> Ints:
        """Of each address in the coding order; the number of elements for those outside."""
        places = np.full(self.size, self.order.size)
        places[self.addresses] = np.arange(self.order.size)
        return places

    def spans(self) -> list[slice]:
        """Of the fronts, in the coding order."""
        return [slice(a, b) for a, b in itertools.pairwise(self.starts)]
