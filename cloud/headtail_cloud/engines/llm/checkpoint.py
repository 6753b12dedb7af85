"""An opened checkpoint: weights that lie in the file until they are used, and are shared by all
processes that map it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from headtail_cloud.engines.llm.conversion import END_KEY, SHAPE_KEY, TEMPLATE, TOKENISER, WEIGHTS
from headtail_cloud.engines.llm.shape import LlamaShape
from headtail_cloud.engines.llm.tokeniser import Tokeniser
from headtail_fabric.errors import ConfigError


class BadCheckpointError(ConfigError):
    """A model's checkpoint is damaged or was written by another release. Remove its folder: it is
    made again from the model's archive."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checkpoint:
    """`digest`: of the shape and of what tells this model's weights from others'."""

    name: str
    shape: LlamaShape
    weights: Mapping[str, torch.Tensor]
    tokeniser: Tokeniser
    digest: bytes

    def __repr__(self) -> str:
        return f"<Checkpoint {self.name}, {self.shape.layers} layers>"


def open_checkpoint(name: str, folder: Path) -> Checkpoint:
    """Raises BadCheckpointError."""
    try:
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            header = file.metadata() or {}
            shape = msgspec.json.decode(header[SHAPE_KEY], type=LlamaShape)
            end_tokens = msgspec.json.decode(header[END_KEY], type=list[int])
            weights = {name: file.get_tensor(name) for name in shape.tensors()}
        tokeniser = Tokenizer.from_str((folder / TOKENISER).read_text(encoding="utf-8"))
        template = folder / TEMPLATE
        chat = template.read_text(encoding="utf-8") if template.exists() else None
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise BadCheckpointError(f"{folder}: {error}") from None
    for key, expected in shape.tensors().items():
        if tuple(weights[key].shape) != expected or weights[key].dtype != torch.float32:
            raise BadCheckpointError(f"{folder}: {key} is {tuple(weights[key].shape)}")
    return Checkpoint(
        name=name,
        shape=shape,
        weights=weights,
        tokeniser=Tokeniser(tokeniser, template=chat, end_tokens=end_tokens),
        digest=fingerprint(shape, weights),
    )


def fingerprint(shape: LlamaShape, weights: Mapping[str, torch.Tensor]) -> bytes:
    """16 bytes that tell models apart: of the sizes and the norms' weights, which are small and
    differ between any two trained networks."""
    state = hashlib.blake2b(msgspec.json.encode(shape), digest_size=16)
    for name, tensor in weights.items():
        if tensor.ndim == 1:
            state.update(name.encode() + tensor.numpy().tobytes())
    return state.digest()
