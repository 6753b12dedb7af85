"""From an iteration's pieces to the tensors that a network takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from headtail_cloud.core.task import DecodeStep, PrefillChunk
from headtail_cloud.engines.llm.adapters import Adapter
from headtail_cloud.engines.llm.network import Batch, Chunk, Decodes
from headtail_cloud.engines.llm.paged_cache import PagedCache
from headtail_cloud.engines.llm.sampling import Sampling

_PADDING: Final = 1.25
"""How much longer than the shortest decode of a group its longest may be: what is read in vain
costs more than another call from there on."""

_ROOM: Final = 2
"""Blocks by which it may be longer in any case."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """What a task asks for: `tokens` from position `start` on, into `slots` of the cache. The next
    token is wanted where `last`."""

    task: PrefillChunk | DecodeStep
    tokens: tuple[int, ...]
    start: int
    slots: list[int]
    sampling: Sampling
    adapter: Adapter | None
    last: bool

    @property
    def end(self) -> int:
        """Positions of its sequence, with this piece."""
        return self.start + len(self.tokens)


def batch_of(pieces: Sequence[Piece], cache: PagedCache) -> Batch:
    """Rows in the order of the pieces, of which those with the same adapter follow each other."""
    chunks: list[Chunk] = []
    decodes: list[tuple[int, Piece]] = []
    positions: list[int] = []
    for piece in pieces:
        row = len(positions)
        positions += range(piece.start, piece.end)
        if len(piece.tokens) == 1:
            decodes.append((row, piece))
            continue
        chunks.append(
            Chunk(
                start=row,
                end=len(positions),
                context=cache.context([piece.task.blocks], piece.end),
                mask=_causal(len(piece.tokens), piece.end) if piece.start else None,
            )
        )
    return Batch(
        positions=torch.tensor(positions),
        slots=torch.tensor([slot for piece in pieces for slot in piece.slots]),
        chunks=chunks,
        decodes=[_together(group, cache) for group in _groups(decodes, cache.block_tokens)],
        adapted=_adapted(pieces),
    )


def _groups(
    decodes: Sequence[tuple[int, Piece]], block_tokens: int
) -> list[list[tuple[int, Piece]]]:
    groups: list[list[tuple[int, Piece]]] = []
    limit = 0.0
    for row, piece in sorted(decodes, key=lambda decode: decode[1].end):
        if not groups or piece.end > limit:
            groups.append([])
            limit = max(_PADDING * piece.end, piece.end + _ROOM * block_tokens)
        groups[-1].append((row, piece))
    return groups


def _together(group: Sequence[tuple[int, Piece]], cache: PagedCache) -> Decodes:
    ends = torch.tensor([piece.end for _, piece in group])
    longest = int(ends.max())
    mask = None
    if int(ends.min()) < longest:
        behind = torch.arange(longest) >= ends.unsqueeze(1)
        mask = torch.zeros(behind.shape).masked_fill_(behind, float("-inf"))[:, None, None]
    return Decodes(
        rows=torch.tensor([row for row, _ in group]),
        context=cache.context([piece.task.blocks for _, piece in group], longest),
        mask=mask,
    )


def _causal(rows: int, positions: int) -> torch.Tensor:
    """(rows, positions): the last row looks back on all of them."""
    mask = torch.full((rows, positions), float("-inf"))
    return mask.triu_(positions - rows + 1)


def _adapted(pieces: Sequence[Piece]) -> list[tuple[int, int, Adapter]]:
    found: list[tuple[int, int, Adapter]] = []
    row = 0
    for piece in pieces:
        end = row + len(piece.tokens)
        if found and found[-1][2] is piece.adapter:
            found[-1] = (found[-1][0], end, found[-1][2])
        elif piece.adapter is not None:
            found.append((row, end, piece.adapter))
        row = end
    return found
