"""A random network of the Llama family, as the GGUF file that it would be published as."""

import struct
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from headtail_cloud.engines.llm.checkpoint import Checkpoint, open_checkpoint
from headtail_cloud.engines.llm.conversion import convert
from headtail_cloud.engines.llm.shape import LlamaShape

SHAPE: Final = LlamaShape(
    layers=3,
    width=32,
    heads=4,
    kv_heads=2,
    head_width=8,
    ffn=64,
    vocabulary=260,
    context=128,
    rope_base=10_000.0,
    norm_epsilon=2.0**-16,
)
END: Final = 257
TEMPLATE: Final = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

Floats = NDArray[np.float32]


def byte_words() -> list[str]:
    """GPT-2's letters for all bytes, in the order of the bytes."""
    visible = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return [chr(b) if b in visible else chr(256 + hidden.index(b)) for b in range(256)]


def words() -> list[str]:
    return [*byte_words(), "<|im_start|>", "<|im_end|>", "<|endoftext|>", "Ġt"]


def tensors(seed: int = 0) -> dict[str, Floats]:
    """By GGUF's names; rows are outputs."""
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> Floats:
        return rng.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

    def norm() -> Floats:
        return (1 + 0.1 * rng.normal(size=SHAPE.width)).astype(np.float32)

    found = {
        "token_embd.weight": matrix(SHAPE.vocabulary, SHAPE.width) * 3,
        "output_norm.weight": norm(),
    }
    for layer in range(SHAPE.layers):
        parts = {
            "attn_norm": norm(),
            "attn_q": matrix(SHAPE.query_width, SHAPE.width) * 2,
            "attn_k": matrix(SHAPE.kv_width, SHAPE.width) * 2,
            "attn_v": matrix(SHAPE.kv_width, SHAPE.width),
            "attn_output": matrix(SHAPE.width, SHAPE.query_width),
            "ffn_norm": norm(),
            "ffn_gate": matrix(SHAPE.ffn, SHAPE.width),
            "ffn_up": matrix(SHAPE.ffn, SHAPE.width),
            "ffn_down": matrix(SHAPE.width, SHAPE.ffn),
        }
        found |= {f"blk.{layer}.{part}.weight": value for part, value in parts.items()}
    return found


def write_gguf(path: Path, values: dict[str, Any], content: dict[str, Floats]) -> Path:
    """A file of version 3 with float32 tensors."""
    out = [b"GGUF", struct.pack("<IQQ", 3, len(content), len(values))]
    for key, value in values.items():
        out += [_text(key), *_value(value)]
    at = 0
    for name, tensor in content.items():
        sizes = tensor.shape[::-1]
        out += [_text(name), struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)]
        out.append(struct.pack("<IQ", 0, at))
        at += -(-tensor.nbytes // 32) * 32
    head = b"".join(out)
    body = b"".join(t.tobytes() + bytes(-t.nbytes % 32) for t in content.values())
    path.write_bytes(head + bytes(-len(head) % 32) + body)
    return path


def metadata() -> dict[str, Any]:
    return {
        "general.architecture": "llama",
        "llama.block_count": SHAPE.layers,
        "llama.embedding_length": SHAPE.width,
        "llama.attention.head_count": SHAPE.heads,
        "llama.attention.head_count_kv": SHAPE.kv_heads,
        "llama.rope.dimension_count": SHAPE.head_width,
        "llama.feed_forward_length": SHAPE.ffn,
        "llama.vocab_size": SHAPE.vocabulary,
        "llama.context_length": SHAPE.context,
        "llama.rope.freq_base": SHAPE.rope_base,
        "llama.attention.layer_norm_rms_epsilon": SHAPE.norm_epsilon,
        "tokenizer.ggml.tokens": words(),
        "tokenizer.ggml.token_type": [*[1] * 256, 3, 3, 3, 1],
        "tokenizer.ggml.merges": ["Ġ t"],
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.eos_token_id": END,
        "tokenizer.chat_template": TEMPLATE,
    }


def tiny_checkpoint(folder: Path, seed: int = 0) -> Checkpoint:
    """Written, converted and opened, as the model `tiny`."""
    if not folder.exists():
        source = write_gguf(folder.with_suffix(".gguf"), metadata(), tensors(seed))
        convert(source, folder)
    return open_checkpoint("tiny", folder)


def write_adapter(folder: Path, seed: int, *, rank: int = 4, **config: Any) -> Path:
    """A LoRA adapter as `peft` writes it, of all projections of the first and the last layer."""
    torch.manual_seed(seed)
    outputs = {
        "self_attn.q_proj": (SHAPE.width, SHAPE.query_width),
        "self_attn.k_proj": (SHAPE.width, SHAPE.kv_width),
        "self_attn.v_proj": (SHAPE.width, SHAPE.kv_width),
        "self_attn.o_proj": (SHAPE.query_width, SHAPE.width),
        "mlp.gate_proj": (SHAPE.width, SHAPE.ffn),
        "mlp.up_proj": (SHAPE.width, SHAPE.ffn),
        "mlp.down_proj": (SHAPE.ffn, SHAPE.width),
    }
    tensors = {}
    for layer in (0, SHAPE.layers - 1):
        for name, (width, out) in outputs.items():
            place = f"base_model.model.model.layers.{layer}.{name}"
            tensors[f"{place}.lora_A.weight"] = torch.randn(rank, width) * 0.2
            tensors[f"{place}.lora_B.weight"] = torch.randn(out, rank) * 0.2
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    content = {"r": rank, "lora_alpha": 8, "peft_type": "LORA", **config}
    (folder / "adapter_config.json").write_bytes(msgspec.json.encode(content))
    return folder


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> list[bytes]:
    match value:
        case str():
            return [struct.pack("<I", 8), _text(value)]
        case float():
            return [struct.pack("<If", 6, value)]
        case int():
            return [struct.pack("<II", 4, value)]
        case [str(), *_]:
            return [struct.pack("<IIQ", 9, 8, len(value)), *map(_text, value)]
        case _:
            return [struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)]
