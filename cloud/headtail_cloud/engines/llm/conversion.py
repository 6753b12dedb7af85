"""From a GGUF file to a checkpoint: a folder that can be mapped into memory as it is.

    model.safetensors    the tensors of `LlamaShape.tensors`, float32, the shape in its header
    tokenizer.json       for the `tokenizers` package
    chat.jinja           the chat template, if the model has one

It appears whole or not at all: it is written beside its place, and then moved there.
"""

import errno
import json
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from headtail_cloud.engines.llm.gguf import BadGgufError, Floats, GgufFile, Value
from headtail_cloud.engines.llm.shape import LlamaShape
from headtail_fabric.errors import ResourceError

WEIGHTS: Final = "model.safetensors"
TOKENISER: Final = "tokenizer.json"
TEMPLATE: Final = "chat.jinja"
SHAPE_KEY: Final = "headtail.shape"
END_KEY: Final = "headtail.end_tokens"
_ALIGNMENT: Final = 64
_CONTROL: Final = 3
"""The type of tokens that are no text."""

_PRE_TOKENISERS: Final[dict[str, Callable[[], pre_tokenizers.PreTokenizer]]] = {
    "smollm": lambda: pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    ),
    "gpt-2": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
}


class CheckpointStorageError(ResourceError):
    """A model's checkpoint could not be written: the disk is full, or the folder may not be
    written to. Free some space, or point XDG_CACHE_HOME to a disk that has some; nothing half
    written was left."""


def convert(source: Path, folder: Path) -> None:
    """Write the checkpoint `folder`; one that is there already stays. Raises BadGgufError,
    CheckpointStorageError."""
    file = GgufFile(source)
    shape = _shape(file)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        size = sum(4 * int(np.prod(shape)) for shape in shape.tensors().values())
        if shutil.disk_usage(folder.parent).free < size:
            raise CheckpointStorageError(f"{folder.parent} has no {size / 1e6:.0f} MB left")
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}-new-") as new:
            checkpoint = Path(new) / "checkpoint"
            checkpoint.mkdir()
            _write(file, shape, checkpoint)
            if not folder.exists():
                _move(checkpoint, folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CheckpointStorageError(f"{folder}: {reason}") from None


def _move(checkpoint: Path, folder: Path) -> None:
    try:
        checkpoint.rename(folder)
    except OSError as error:
        # Another process was quicker, and has written the same.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _write(file: GgufFile, shape: LlamaShape, folder: Path) -> None:
    header = {
        SHAPE_KEY: msgspec.json.encode(shape).decode(),
        END_KEY: json.dumps(_end_tokens(file)),
    }
    tensors = ((name, _tensor(file, shape, name)) for name in shape.tensors())
    write_safetensors(folder / WEIGHTS, shape.tensors(), tensors, header)
    (folder / TOKENISER).write_text(_tokeniser(file).to_str(), encoding="utf-8")
    template = file.metadata.get("tokenizer.chat_template")
    if isinstance(template, str):
        (folder / TEMPLATE).write_text(template, encoding="utf-8")


def write_safetensors(
    path: Path,
    shapes: dict[str, tuple[int, ...]],
    tensors: Iterable[tuple[str, Floats]],
    metadata: dict[str, str],
) -> None:
    """float32 tensors in the order of `shapes`, one in memory at a time, each aligned to 64 bytes.
    Raises OSError."""
    layout: dict[str, object] = {"__metadata__": metadata}
    at = 0
    for name, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        layout[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(layout).encode()
    header += b" " * (-(len(header) + 8) % _ALIGNMENT)
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(header)) + header)
        for name, tensor in tensors:
            assert tensor.shape == shapes[name]
            out.write(np.ascontiguousarray(tensor, dtype="<f4").data)


def _shape(file: GgufFile) -> LlamaShape:
    if file.metadata.get("general.architecture") != "llama":
        raise BadGgufError(f"{file!r} is no network of the Llama family")
    values = {
        "layers": _number(file, "llama.block_count"),
        "width": _number(file, "llama.embedding_length"),
        "heads": _number(file, "llama.attention.head_count"),
        "kv_heads": _number(file, "llama.attention.head_count_kv"),
        "head_width": _number(file, "llama.rope.dimension_count"),
        "ffn": _number(file, "llama.feed_forward_length"),
        "vocabulary": _number(file, "llama.vocab_size"),
        "context": _number(file, "llama.context_length"),
        "rope_base": _number(file, "llama.rope.freq_base"),
        "norm_epsilon": _number(file, "llama.attention.layer_norm_rms_epsilon"),
    }
    try:
        shape = msgspec.convert(values, LlamaShape)
    except (msgspec.ValidationError, ValueError) as error:
        raise BadGgufError(f"{file!r}: {error}") from None
    return shape


def _number(file: GgufFile, key: str) -> Value | None:
    return file.metadata.get(key)


def _tensor(file: GgufFile, shape: LlamaShape, name: str) -> Floats:
    tensor = _joined(file, name)
    if tensor.shape != shape.tensors()[name]:
        raise BadGgufError(f"{file!r}: {name} is {tensor.shape}, not {shape.tensors()[name]}")
    return tensor


def _joined(file: GgufFile, name: str) -> Floats:
    match name.split("."):
        case ["embedding"]:
            return file.tensor("token_embd.weight")
        case ["norm"]:
            return file.tensor("output_norm.weight")
        case ["head"]:
            own = "output.weight"
            return file.tensor(own if own in file else "token_embd.weight").T
        case [_, layer, part]:
            sources = [f"blk.{layer}.{source}.weight" for source in _SOURCES[part]]
            return np.concatenate([file.tensor(source) for source in sources]).T
    raise AssertionError(name)


_SOURCES: Final = {
    "attention_norm": ("attn_norm",),
    "qkv": ("attn_q", "attn_k", "attn_v"),
    "output": ("attn_output",),
    "ffn_norm": ("ffn_norm",),
    "gate_up": ("ffn_gate", "ffn_up"),
    "down": ("ffn_down",),
}
"""llama.cpp keeps rotary pairs next to each other, too: nothing is to be reordered."""


def _end_tokens(file: GgufFile) -> list[int]:
    """What ends a text: the end of a turn, and that of a document."""
    words = _words(file)
    ends = {file.metadata.get("tokenizer.ggml.eos_token_id")}
    ends |= {words.index(word) for word in ("<|endoftext|>", "<|im_end|>") if word in words}
    return sorted(end for end in ends if isinstance(end, int))


def _words(file: GgufFile) -> list[str]:
    words = file.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(words, list):
        raise BadGgufError(f"{file!r} has no vocabulary")
    return [str(word) for word in words]


def _tokeniser(file: GgufFile) -> Tokenizer:
    words = _words(file)
    kinds = file.metadata.get("tokenizer.ggml.token_type")
    merges = file.metadata.get("tokenizer.ggml.merges")
    pre = _PRE_TOKENISERS.get(str(file.metadata.get("tokenizer.ggml.pre")))
    if pre is None or not isinstance(kinds, list) or not isinstance(merges, list):
        raise BadGgufError(f"{file!r} has a tokeniser that is not known here")
    pairs = [(left, right) for left, _, right in (str(merge).partition(" ") for merge in merges)]
    tokeniser = Tokenizer(BPE(vocab={word: at for at, word in enumerate(words)}, merges=pairs))
    tokeniser.pre_tokenizer = pre()
    tokeniser.decoder = decoders.ByteLevel()
    controls = [word for word, kind in zip(words, kinds, strict=True) if kind == _CONTROL]
    tokeniser.add_special_tokens([AddedToken(word, special=True) for word in controls])
    return tokeniser
