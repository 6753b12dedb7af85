"""The seam between the coder and what predicts: contexts, and their two views of a tensor."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.rans.wavefront import Ints, Shape4


class Reader(Protocol):
    """A decoder's view of some tensors at once: `bases`, `put` for each front in turn, then
    `symbols`."""

    def bases(self) -> Ints:
        """The tables of the next front's elements, times 2^14: a row a tensor."""
        ...

    def put(self, codes: Ints) -> None:
        """What the coder read for them."""
        ...

    def symbols(self) -> NDArray[np.int32]:
        """All elements, tensor by tensor (tensors N x C x H x W), after the last front."""
        ...


class Plan(Protocol):
    """A context laid out for tensors of one shape."""

    @property
    def starts(self) -> list[int]:
        """Where each front begins in the coding order, and the end."""
        ...

    def survey(self, symbols: NDArray[np.int32]) -> tuple[Ints, Ints]:
        """An encoder's view: table and code of each element (N x C x H x W), in coding order."""
        ...

    def reader(self, tensors: int) -> Reader:
        """For so many tensors of the shape."""
        ...


class Context(Protocol):
    """What picks an element's frequency table from those coded before it, in integers only.

    A *code* is what the coder writes for a symbol; both lie in the same alphabet.
    """

    @property
    def channels(self) -> int: ...

    def check(self, *, tables: int, symbols: int) -> None:
        """Raises ValueError unless it works with that many frequency tables and symbols."""
        ...

    def plan(self, shape: Shape4) -> Plan:
        """Raises ValueError when the channels are not the context's."""
        ...
