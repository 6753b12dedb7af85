"""The sizes of a network of the Llama family."""

from typing import Annotated

import msgspec
from msgspec import Meta

_Size = Annotated[int, Meta(ge=1, le=1 << 20)]


class LlamaShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a checkpoint's header holds. Raises ValueError for sizes that don't fit together."""

    layers: Annotated[int, Meta(ge=1, le=512)]
    width: _Size
    heads: _Size
    kv_heads: _Size
    head_width: Annotated[int, Meta(ge=2, le=1024, multiple_of=2)]
    ffn: _Size
    vocabulary: _Size
    context: _Size
    """Positions that it was trained on."""
    rope_base: Annotated[float, Meta(gt=0)]
    norm_epsilon: Annotated[float, Meta(gt=0)]

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads over {self.kv_heads} of keys and values")

    @property
    def query_width(self) -> int:
        return self.heads * self.head_width

    @property
    def kv_width(self) -> int:
        """Of the keys, and of the values, of a position."""
        return self.kv_heads * self.head_width

    @property
    def qkv_width(self) -> int:
        return self.query_width + 2 * self.kv_width

    def kv_bytes(self, layers: int | None = None) -> int:
        """What a position's keys and values take in that many layers, in float32."""
        return (self.layers if layers is None else layers) * 2 * self.kv_width * 4

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Every tensor of a checkpoint by name. Matrices are input by output: `x @ matrix`.

        Rotary pairs lie next to each other (`qkv`'s queries and keys), and projections of the same
        input in one matrix: `qkv` is queries, keys, values; `gate_up` is gate, up.
        """
        shapes: dict[str, tuple[int, ...]] = {
            "embedding": (self.vocabulary, self.width),
            "norm": (self.width,),
            "head": (self.width, self.vocabulary),
        }
        for layer in range(self.layers):
            shapes |= {
                f"layers.{layer}.attention_norm": (self.width,),
                f"layers.{layer}.qkv": (self.width, self.qkv_width),
                f"layers.{layer}.output": (self.query_width, self.width),
                f"layers.{layer}.ffn_norm": (self.width,),
                f"layers.{layer}.gate_up": (self.width, 2 * self.ffn),
                f"layers.{layer}.down": (self.ffn, self.width),
            }
        return shapes
