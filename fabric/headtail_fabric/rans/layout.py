"""A coding model laid out for tensors of one shape, ready to code them: in numpy.

`headtail_fabric.rans.native` has the same in C, where it could be compiled; both make and read the
same bytes.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.rans import lanes
from headtail_fabric.rans.model import CodingModel
from headtail_fabric.rans.wavefront import Shape4

Int32s = NDArray[np.int32]


class Layout(Protocol):
    """May be used by one thread at a time."""

    def encode(self, symbols: Int32s, *, seed: int) -> bytes:
        """The body, as in `lanes`, for one tensor (N x C x H x W); `seed`: 32 bits."""
        ...

    def decode(self, bodies: Sequence[memoryview]) -> tuple[Int32s, list[int]]:
        """The tensors of some bodies, joined on the first axis, and the seed of each.

        Raises CodecError when any of them is bad.
        """
        ...


class NumpyLayout:
    """Raises ValueError when the shape's channels are not the context's."""

    def __init__(self, model: CodingModel, shape: Shape4) -> None:
        self._tables = model.tables
        self._plan = model.context.plan(shape)

    def encode(self, symbols: Int32s, *, seed: int) -> bytes:
        chosen, codes = self._plan.survey(symbols)
        return lanes.encode(self._tables, chosen, codes, self._plan.starts, seed=seed)

    def decode(self, bodies: Sequence[memoryview]) -> tuple[Int32s, list[int]]:
        # Most of the time goes into a row of small steps; the bodies take them together.
        fronts = len(self._plan.starts) - 1
        coder = lanes.LaneDecoder(self._tables, bodies, fronts)
        reader = self._plan.reader(len(bodies))
        for _ in range(fronts):
            reader.put(coder.front(reader.bases()))
        seeds = coder.finish()
        return reader.symbols(), seeds
