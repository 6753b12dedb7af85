"""Changes to an input: each one a value, so that a test may draw them and a run repeat them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

_LARGEST: Final = 200_000
_NUMBERS: Final = (0, 1, 2, 16, 127, 128, 255, 256, 1024, 32767, 32768, 65535, 65536, 2**24)
_LARGE: Final = (2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
INTERESTING: Final = tuple(
    number.to_bytes(size, order)
    for number in (*_NUMBERS, *_LARGE)
    for size in (1, 2, 4, 8)
    for order in ("big", "little")
    if number < 256**size
)
"""Numbers at which lengths, offsets and counts turn over, in all widths and both orders."""


class Operation(Enum):
    """What an edit does at its place; `size` bytes are meant where it takes away or repeats."""

    FLIP = "flip a bit"
    WRITE = "write over"
    INSERT = "insert"
    REMOVE = "remove"
    REPEAT = "repeat"
    CUT = "cut off the rest"
    GRAFT = "take the rest of another"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change. `at` is taken modulo the input's length; `data` is what to write or insert, or
    for GRAFT another input."""

    operation: Operation
    at: int
    size: int = 1
    data: bytes = b""


def apply(edits: Sequence[Edit], seed: bytes) -> bytes:
    """The input that the edits make of `seed`."""
    found = bytearray(seed)
    for edit in edits:
        _apply(edit, found)
        del found[_LARGEST:]
    return bytes(found)


def _apply(edit: Edit, found: bytearray) -> None:
    at = edit.at % (len(found) + 1)
    match edit.operation:
        case Operation.FLIP:
            if at < len(found):
                found[at] ^= 1 << edit.size % 8
        case Operation.WRITE:
            found[at : at + len(edit.data)] = edit.data
        case Operation.INSERT:
            found[at:at] = edit.data
        case Operation.REMOVE:
            del found[at : at + edit.size]
        case Operation.REPEAT:
            found[at:at] = found[at : at + edit.size] * 2
        case Operation.CUT:
            del found[at:]
        case Operation.GRAFT:
            found[at:] = edit.data[edit.size % (len(edit.data) + 1) :]


class Engine:
    """Draws edits; the same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def input(self, corpus: Sequence[bytes]) -> bytes:
        """A changed copy of one of the corpus; now and then it is noise."""
        draw = self._draw
        if draw.random() < 0.01:
            return draw.randbytes(draw.randrange(64))
        seed = draw.choice(corpus)
        return apply([self._edit(corpus, seed) for _ in range(draw.choice((1, 1, 2, 3, 5)))], seed)

    def chance(self) -> bool:
        """One time in two."""
        return self._draw.random() < 0.5

    def _edit(self, corpus: Sequence[bytes], seed: bytes) -> Edit:
        draw = self._draw
        operation = draw.choices(list(Operation), (4, 8, 3, 3, 2, 1, 2))[0]
        data = b""
        if operation is Operation.GRAFT:
            data = draw.choice(corpus)
        elif draw.random() < 0.6:
            data = draw.choice(INTERESTING)
        else:
            data = draw.randbytes(draw.choice((1, 1, 2, 4, 8)))
        # Headers lie in front: half of the edits go there.
        reach = min(len(seed), 64) if draw.random() < 0.5 else len(seed)
        return Edit(
            operation=operation,
            at=draw.randrange(reach + 1),
            size=draw.choice((1, 1, 2, 4, 8, 16, 64)),
            data=data,
        )
