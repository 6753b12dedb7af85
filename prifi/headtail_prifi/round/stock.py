"""The pads that guards sent ahead, and how many more to ask for."""

import numpy as np
from numpy.typing import NDArray

from headtail_prifi.core.errors import FrameError
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.round.pads import batch_rounds

Bytes = NDArray[np.uint8]


def ahead_rounds(geometry: Geometry, ahead_batches: int) -> int:
    """How far ahead of the next round guards are granted rounds, but for one batch."""
    return max(ahead_batches * batch_rounds(geometry), 2 * geometry.window)


class PadStock:
    """Rows by guard and round, of one membership. The relay pulls: a guard sends what it was
    granted, so it can neither flood the relay nor fall behind unnoticed."""

    def __init__(
        self, *, geometry: Geometry, guards: int, ahead_batches: int, first_round: int
    ) -> None:
        self._batch = batch_rounds(geometry)
        self._ahead = ahead_rounds(geometry, ahead_batches)
        self._rows: list[dict[int, Bytes]] = [{} for _ in range(guards)]
        self._granted = [first_round] * guards
        self._began_at = first_round
        self._wanted_from = first_round

    def wanted(self, next_round: int) -> list[tuple[int, int, int]]:
        """What to grant now that `next_round` is about to open: (guard, first round, count)."""
        grants = []
        for guard, granted in enumerate(self._granted):
            batches = (next_round + self._ahead - granted) // self._batch
            if batches > 0:
                grants.append((guard, granted, batches * self._batch))
                self._granted[guard] = granted + batches * self._batch
        return grants

    def again(self, guard: int, round_: int) -> tuple[int, int, int]:
        """What to grant a guard once more, whose row of a round is missing."""
        return guard, round_, min(self._batch, max(1, self._granted[guard] - round_))

    def store(self, guard: int, first: int, rows: Bytes) -> None:
        """Keep rows; those of rounds that are taken or here already are ignored.

        Raises FrameError for rounds that were not granted.
        """
        if first < self._began_at or first + len(rows) > self._granted[guard]:
            raise FrameError(f"pads of guard {guard} from round {first} on were not granted")
        known = self._rows[guard]
        for offset, row in enumerate(rows):
            if first + offset >= self._wanted_from:
                known.setdefault(first + offset, row)

    def lacking(self, round_: int) -> list[int]:
        """Guards whose row of the round is not here."""
        return [guard for guard, rows in enumerate(self._rows) if round_ not in rows]

    def take(self, round_: int) -> tuple[Bytes, ...]:
        """Every guard's row of the round, which is then gone; rounds go up."""
        self._wanted_from = max(self._wanted_from, round_ + 1)
        return tuple(rows.pop(round_) for rows in self._rows)
