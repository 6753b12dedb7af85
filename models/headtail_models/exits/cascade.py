"""Every exit and the end of a network on the same inputs, all of them computed.

That is what thresholds are chosen on; on a device `head_chain.HeadChain` computes only what a frame
needs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headtail_models.bundle.manifest import Cut, StageEntry
from headtail_models.exits.errors import CalibrationError
from headtail_models.stage import Stage

BATCH = 250


@dataclass(frozen=True, slots=True)
class Piece:
    """A stage of one tensor in and one out."""

    stage: Stage
    takes: str
    gives: str

    def run(self, tensor: NDArray[Any]) -> NDArray[Any]:
        """(N, ...) to (N, ...). Raises StageInputError, StageRunError."""
        found: NDArray[Any] = self.stage.run({self.takes: tensor})[self.gives]
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CascadeLogits:
    """Logits (N, K) of each exit and of the end; `tensors` (N, ...) are those that cross."""

    exits: tuple[NDArray[np.float32], ...]
    end: NDArray[np.float32]
    tensors: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """Exits as trunk and branch, then head and tail. An exit without a trunk looks at what the one
    before looked at."""

    exits: tuple[tuple[Piece | None, Piece], ...]
    head: Piece
    tail: Piece

    @classmethod
    def of(cls, cut: Cut, open_stage: Callable[[StageEntry], Stage]) -> "Cascade":
        """The exits of a bundle's cut; its filters are passed over. Raises CalibrationError when it
        has no exits, and what `open_stage` raises."""

        def piece(entry: StageEntry) -> Piece:
            return Piece(open_stage(entry), entry.inputs[0].name, entry.outputs[0].name)

        if len(cut.exits()) != len(cut.gates) or not cut.gates:
            raise CalibrationError(f"cut {cut.name!r} has {len(cut.exits())} exits to calibrate")
        return cls(
            exits=tuple(
                (piece(gate.trunk) if gate.trunk is not None else None, piece(gate.branch))
                for gate in cut.gates
            ),
            head=piece(cut.head),
            tail=piece(cut.tail),
        )

    def logits(self, inputs: NDArray[np.float32]) -> CascadeLogits:
        """Of inputs (N, ...), N at least 1. Raises StageInputError, StageRunError."""
        starts = range(0, max(len(inputs), 1), BATCH)
        parts = [self._some(inputs[start : start + BATCH]) for start in starts]
        *exits, end, tensors = (np.concatenate(rows) for rows in zip(*parts, strict=True))
        return CascadeLogits(exits=tuple(exits), end=end, tensors=tensors)

    def _some(self, tensor: NDArray[Any]) -> Sequence[NDArray[Any]]:
        found = []
        for trunk, branch in self.exits:
            if trunk is not None:
                tensor = trunk.run(tensor)
            found.append(branch.run(tensor))
        crossing = self.head.run(tensor)
        return (*found, self.tail.run(crossing), crossing)
