"""The memory behind the scheduler's blocks: keys and values of every position, float32.

    memory[layer, block, position in block, keys of each head then values of each head, :]

A sequence whose blocks follow each other is read where it lies; of others, and of several together,
one layer's blocks at a time are gathered into a buffer.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from headtail_cloud.core.engine import StateError, StateRef
from headtail_cloud.engines.llm.shape import LlamaShape

_MAGIC: Final = b"HTKV"
_HEADER: Final = struct.Struct("<4s16sII")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Context:
    """Where the first `positions` positions of sequences lie: in `blocks` (sequences, blocks of
    each), or, of a single one, from block `first` on."""

    positions: int
    blocks: torch.Tensor
    first: int | None = None


class PagedCache:
    """Of one engine. `digest` names the model whose entries these are."""

    def __init__(self, shape: LlamaShape, *, blocks: int, block_tokens: int, digest: bytes) -> None:
        self.blocks = blocks
        self.block_tokens = block_tokens
        self._digest = digest
        self._kv_heads = shape.kv_heads
        # Pages of it come into being when they are first written to. What is read beyond the end of
        # a sequence counts nothing, but must be a number.
        self._memory = torch.zeros(
            shape.layers, blocks, block_tokens, 2 * shape.kv_heads, shape.head_width
        )
        row = 2 * shape.kv_width
        self._layers = list(self._memory.view(shape.layers, blocks, block_tokens * row))
        self._rows = list(self._memory.view(shape.layers, blocks * block_tokens, row))
        self._gathered = torch.empty(0, block_tokens * row)

    def __repr__(self) -> str:
        return f"<PagedCache {self.blocks} blocks of {self.block_tokens}>"

    def slots(self, blocks: Sequence[int], start: int, count: int) -> list[int]:
        """Rows of positions `start` to `start + count`. Raises StateError for positions that the
        blocks don't have."""
        size = self.block_tokens
        if start + count > len(blocks) * size or not all(0 <= b < self.blocks for b in blocks):
            raise StateError(f"{start + count} positions in {len(blocks)} blocks")
        return [blocks[at // size] * size + at % size for at in range(start, start + count)]

    def context(self, tables: Sequence[Sequence[int]], positions: int) -> Context:
        """Of sequences by their blocks; one that has fewer positions is filled up with its last
        block."""
        count = -(-positions // self.block_tokens)
        used = [[*blocks[:count], *[blocks[-1]] * (count - len(blocks))] for blocks in tables]
        adjacent = len(used) == 1 and all(b == used[0][0] + at for at, b in enumerate(used[0]))
        if not adjacent and len(self._gathered) < len(used) * count:
            self._gathered = torch.empty(2 * len(used) * count, self._gathered.shape[1])
        return Context(
            positions=positions,
            blocks=torch.tensor(used),
            first=used[0][0] if adjacent else None,
        )

    def write(self, layer: int, slots: torch.Tensor, entries: torch.Tensor) -> None:
        """`entries` (n, keys and values): one row for each slot."""
        self._rows[layer].index_copy_(0, slots, entries)

    def read(self, layer: int, context: Context) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values, each (sequences, heads, positions, head width). Good until the next
        `read`."""
        count, blocks = context.blocks.shape
        if context.first is not None:
            found = self._memory[layer, context.first : context.first + blocks]
        else:
            found = self._gathered[: count * blocks]
            torch.index_select(self._layers[layer], 0, context.blocks.view(-1), out=found)
        entries = found.view(count, -1, *self._memory.shape[3:])
        entries = entries[:, : context.positions].transpose(1, 2)
        return entries[:, : self._kv_heads], entries[:, self._kv_heads :]

    def export(self, state: StateRef) -> bytes:
        """All layers' entries. Raises StateError."""
        slots = torch.tensor(self.slots(state.blocks, 0, state.positions), dtype=torch.long)
        entries = torch.stack([rows[slots] for rows in self._rows])
        header = _HEADER.pack(_MAGIC, self._digest, len(self._rows), state.positions)
        return header + entries.numpy().tobytes()

    def import_(self, state: StateRef, data: bytes) -> None:
        """Raises StateError for entries of another model, or of other positions."""
        if len(data) < _HEADER.size:
            raise StateError("no exported state")
        magic, digest, layers, positions = _HEADER.unpack_from(data)
        expected = (_MAGIC, self._digest, len(self._rows), state.positions)
        size = 4 * layers * positions * self._rows[0].shape[1]
        if (magic, digest, layers, positions) != expected or len(data) - _HEADER.size != size:
            raise StateError("a state of another model, or of other positions")
        slots = torch.tensor(self.slots(state.blocks, 0, positions), dtype=torch.long)
        flat = torch.frombuffer(bytearray(data), dtype=torch.float32, offset=_HEADER.size)
        if not bool(flat.isfinite().all()):
            raise StateError("a state with entries that are no numbers")
        for rows, entries in zip(self._rows, flat.view(layers, positions, -1), strict=True):
            rows[slots] = entries
