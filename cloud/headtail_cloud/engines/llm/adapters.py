"""LoRA (Hu et al., 2021): small additions to projections, by request, over one base.

Rows of a batch lie in the order of their adapters, so that each adapter is applied once to all of
its rows; the base's projections see the whole batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
import torch
from msgspec import Meta
from safetensors import SafetensorError
from safetensors.torch import load_file

from headtail_cloud.engines.llm.shape import LlamaShape
from headtail_fabric.errors import ConfigError

_CONFIG: Final = "adapter_config.json"
_WEIGHTS: Final = "adapter_model.safetensors"
_KIND: Final = "LORA"
_PREFIX: Final = "base_model.model.model.layers"
_PARTS: Final = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "output": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}


class BadAdapterError(ConfigError):
    """A LoRA adapter can't be read, or is not one for this model. It is a folder as the package
    `peft` writes it: adapter_config.json and adapter_model.safetensors."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Delta:
    """Adds `x @ down @ up`: (input, rank) and (rank, output), the scale in `up`."""

    down: torch.Tensor
    up: torch.Tensor

    def add(self, out: torch.Tensor, x: torch.Tensor) -> None:
        out.addmm_(x @ self.down, self.up)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Adapter:
    """`deltas` by layer and projection, as `LlamaShape.tensors` names them."""

    name: str
    deltas: Mapping[tuple[int, str], Delta]

    def __repr__(self) -> str:
        return f"<Adapter {self.name} of {len(self.deltas)} projections>"


class _Config(msgspec.Struct, frozen=True, kw_only=True):
    r: Annotated[int, Meta(ge=1, le=1024)]
    lora_alpha: float
    peft_type: str = _KIND
    use_rslora: bool = False
    use_dora: bool = False
    rank_pattern: dict[str, int] = {}
    alpha_pattern: dict[str, float] = {}

    @property
    def scale(self) -> float:
        return self.lora_alpha / (self.r**0.5 if self.use_rslora else self.r)

    @property
    def unknown(self) -> str:
        """What it asks for that is not done here, or nothing."""
        if self.peft_type != _KIND:
            return f"{self.peft_type[:40]} is not {_KIND}"
        if self.use_dora:
            return "DoRA is not LoRA"
        if self.rank_pattern or self.alpha_pattern:
            return "its ranks or scales differ between projections"
        return ""


def load_adapter(name: str, folder: Path, shape: LlamaShape) -> Adapter:
    """Raises BadAdapterError."""
    try:
        config = msgspec.json.decode((folder / _CONFIG).read_bytes(), type=_Config)
        tensors = load_file(folder / _WEIGHTS)
    except (OSError, SafetensorError, msgspec.MsgspecError) as error:
        raise BadAdapterError(f"{folder}: {error}") from None
    if config.unknown:
        raise BadAdapterError(f"{folder}: {config.unknown}")
    try:
        deltas = {
            (layer, part): delta
            for layer in range(shape.layers)
            for part in _PARTS
            if (delta := _delta(tensors, layer, part, config, shape)) is not None
        }
    except (KeyError, RuntimeError, ValueError) as error:
        raise BadAdapterError(f"{folder}: {error}") from None
    if 2 * sum(len(_present(tensors, *key)) for key in deltas) != len(tensors):
        raise BadAdapterError(f"{folder}: tensors that this network has no place for")
    return Adapter(name=name, deltas=deltas)


def _present(tensors: Mapping[str, torch.Tensor], layer: int, part: str) -> list[str]:
    names = [f"{_PREFIX}.{layer}.{source}" for source in _PARTS[part]]
    return [name for name in names if f"{name}.lora_A.weight" in tensors]


def _delta(
    tensors: Mapping[str, torch.Tensor], layer: int, part: str, config: _Config, shape: LlamaShape
) -> Delta | None:
    """Of projections that lie in one matrix: their inputs' factors side by side, their outputs'
    each in its own columns."""
    present = _present(tensors, layer, part)
    if not present:
        return None
    widths = _widths(shape, part)
    downs = [tensors[f"{name}.lora_A.weight"].float() for name in present]
    if any(len(down) != config.r for down in downs):
        raise ValueError(f"{part} of layer {layer} is not of rank {config.r}")
    rank = config.r * len(downs)
    up = torch.zeros(rank, sum(widths.values()))
    row = 0
    for name, down in zip(present, downs, strict=True):
        source = name.removeprefix(f"{_PREFIX}.{layer}.")
        factor = tensors[f"{name}.lora_B.weight"].float() * config.scale
        if source in ("self_attn.q_proj", "self_attn.k_proj"):
            factor = neighbouring(factor, shape.head_width)
        column = sum(list(widths.values())[: list(widths).index(source)])
        up[row : row + len(down), column : column + widths[source]] = factor.T
        row += len(down)
    down = torch.cat(downs).T.contiguous()
    if down.shape[0] != shape.tensors()[f"layers.{layer}.{part}"][0]:
        raise ValueError(f"{part} of layer {layer} has another width")
    return Delta(down=down, up=up)


def _widths(shape: LlamaShape, part: str) -> dict[str, int]:
    widths = {
        "qkv": (shape.query_width, shape.kv_width, shape.kv_width),
        "output": (shape.width,),
        "gate_up": (shape.ffn, shape.ffn),
        "down": (shape.width,),
    }
    return dict(zip(_PARTS[part], widths[part], strict=True))


def neighbouring(rows: torch.Tensor, head_width: int) -> torch.Tensor:
    """Rows of a query or key projection (heads * width, n) in which a rotary pair is half a head
    apart, as `transformers` has them, so that pairs are neighbours."""
    heads = rows.view(-1, 2, head_width // 2, rows.shape[1])
    return heads.transpose(1, 2).reshape(rows.shape)
