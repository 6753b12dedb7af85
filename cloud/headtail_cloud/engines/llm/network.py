"""The layers of a Llama network (Touvron et al., 2023), over any mix of decodes and prompt chunks.

    tokens -> embedding -> layers -> norm -> head -> logits
                     layer: x += output(attention(qkv(norm(x)))); x += down(silu(gate) * up)

All rows of a batch go through a projection at once. Attention looks at one chunk at a time, and at
decodes of about the same length together. A network may hold only some of the layers: the hidden
states that one part leaves are what the next begins with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch.nn import functional

from headtail_cloud.engines.llm.adapters import Adapter
from headtail_cloud.engines.llm.paged_cache import Context, PagedCache
from headtail_cloud.engines.llm.shape import LlamaShape

_PACK_FOR: Final = 16
"""Rows that packed matrices are laid out for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """One sequence's rows `start` to `end`, the last of its `context`. `mask` (rows, positions) is
    added to the scores of a chunk that has something before it."""

    start: int
    end: int
    context: Context
    mask: torch.Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decodes:
    """Rows, each the last position of a sequence of `context`. `mask` (rows, 1, 1, positions) is
    added to their scores where they are not all of one length."""

    rows: torch.Tensor
    context: Context
    mask: torch.Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """What the rows are: `positions` (n), `slots` (n) in the cache, the sequences that they belong
    to, and the adapters of rows `start` to `end`."""

    positions: torch.Tensor
    slots: torch.Tensor
    chunks: Sequence[Chunk] = ()
    decodes: Sequence[Decodes] = ()
    adapted: Sequence[tuple[int, int, Adapter]] = ()


class Projection:
    """`x @ weight`. A single row is multiplied from the mapped weights, which reads each once;
    more rows from a copy that oneDNN has packed, if there is one."""

    def __init__(self, weight: torch.Tensor, *, packed: bool) -> None:
        self._weight = weight
        self._packed = None
        if packed:
            rows = weight.t().contiguous()
            self._packed = torch.ops.mkldnn._reorder_linear_weight(rows, _PACK_FOR)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self._packed is None or len(x) == 1:
            return torch.mm(x, self._weight)
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self._packed, None, "none", [], ""
        )
        return out


class LlamaNetwork:
    """Layers `first` to `end` of a checkpoint's. Not thread-safe: it shares the cache's buffers."""

    def __init__(
        self,
        shape: LlamaShape,
        weights: Mapping[str, torch.Tensor],
        *,
        first: int = 0,
        end: int | None = None,
        packed: bool = False,
    ) -> None:
        self.shape = shape
        end = shape.layers if end is None else end
        if not 0 <= first < end <= shape.layers:
            raise ValueError(f"layers {first} to {end} of {shape.layers}")
        packed = packed and torch._C._has_mkldnn
        self._layers = [_Layer(at, shape, weights, packed=packed) for at in range(first, end)]
        self._embedding = weights["embedding"]
        self._norm = weights["norm"]
        self._head = Projection(weights["head"], packed=packed) if end == shape.layers else None
        self._turns = _rotations(shape)

    def __repr__(self) -> str:
        first, last = self._layers[0].number, self._layers[-1].number
        return f"<LlamaNetwork layers {first} to {last} of {self.shape.layers}>"

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """(n) -> (n, width)."""
        return self._embedding[tokens]

    def forward(self, hidden: torch.Tensor, batch: Batch, cache: PagedCache) -> torch.Tensor:
        """(n, width) -> (n, width), through its layers; `hidden` is overwritten."""
        turns = self._turns[batch.positions].unsqueeze(1)
        for layer in self._layers:
            layer.run(hidden, turns, batch, cache)
        return hidden

    def finish(self, hidden: torch.Tensor) -> torch.Tensor:
        """The last layer's hidden states (n, width), normed: what the head and embeddings take."""
        return functional.rms_norm(hidden, (self.shape.width,), self._norm, self.shape.norm_epsilon)

    def logits(self, finished: torch.Tensor) -> torch.Tensor:
        """(n, width) -> (n, vocabulary). Raises ValueError for a part without the last layer."""
        if self._head is None:
            raise ValueError("this part of the network has no head")
        return self._head(finished)


class _Layer:
    def __init__(
        self, number: int, shape: LlamaShape, weights: Mapping[str, torch.Tensor], *, packed: bool
    ) -> None:
        self.number = number
        self._shape = shape
        self._shared = shape.heads // shape.kv_heads
        name = f"layers.{number}"
        self._attention_norm = weights[f"{name}.attention_norm"]
        self._ffn_norm = weights[f"{name}.ffn_norm"]
        self._projections = {
            part: Projection(weights[f"{name}.{part}"], packed=packed)
            for part in ("qkv", "output", "gate_up", "down")
        }

    def run(
        self, hidden: torch.Tensor, turns: torch.Tensor, batch: Batch, cache: PagedCache
    ) -> None:
        shape = self._shape
        normed = self._normed(hidden, self._attention_norm)
        qkv = self._project("qkv", normed, batch)
        turned = qkv[:, : shape.query_width + shape.kv_width]
        pairs = turned.view(len(turned), -1, shape.head_width // 2, 2)
        torch.view_as_complex(pairs).mul_(turns)
        cache.write(self.number, batch.slots, qkv[:, shape.query_width :])
        attended = self._attend(qkv[:, : shape.query_width], batch, cache)
        hidden += self._project("output", attended, batch)
        normed = self._normed(hidden, self._ffn_norm)
        gate, up = self._project("gate_up", normed, batch).chunk(2, dim=1)
        hidden += self._project("down", functional.silu(gate).mul_(up), batch)

    def _normed(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(hidden, (self._shape.width,), weight, self._shape.norm_epsilon)

    def _project(self, part: str, x: torch.Tensor, batch: Batch) -> torch.Tensor:
        out = self._projections[part](x)
        for start, end, adapter in batch.adapted:
            delta = adapter.deltas.get((self.number, part))
            if delta is not None:
                delta.add(out[start:end], x[start:end])
        return out

    def _attend(self, queries: torch.Tensor, batch: Batch, cache: PagedCache) -> torch.Tensor:
        shape = self._shape
        attended = torch.empty(len(queries), shape.query_width)
        for decodes in batch.decodes:
            keys, values = cache.read(self.number, decodes.context)
            # The queries that share keys stand where rows of a chunk would.
            rows = queries[decodes.rows].view(-1, shape.kv_heads, self._shared, shape.head_width)
            found = functional.scaled_dot_product_attention(rows, keys, values, decodes.mask)
            attended[decodes.rows] = found.view(-1, shape.query_width)
        for chunk in batch.chunks:
            keys, values = cache.read(self.number, chunk.context)
            rows = queries[chunk.start : chunk.end].view(-1, shape.heads, shape.head_width)
            found = functional.scaled_dot_product_attention(
                rows.transpose(0, 1).unsqueeze(0),
                keys,
                values,
                attn_mask=chunk.mask,
                is_causal=chunk.mask is None,
                enable_gqa=True,
            )
            attended[chunk.start : chunk.end] = found[0].transpose(0, 1).flatten(1)
        return attended


def _rotations(shape: LlamaShape) -> torch.Tensor:
    """(context, head width / 2), complex: by how much each pair turns at each position."""
    powers = torch.arange(0, shape.head_width, 2, dtype=torch.float32) / shape.head_width
    angles = torch.outer(torch.arange(shape.context, dtype=torch.float32), shape.rope_base**-powers)
    return torch.polar(torch.ones_like(angles), angles)
