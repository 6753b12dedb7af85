"""A checkpoint's network in the `transformers` package: what ours is held against."""

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import logging as transformers_logging

from headtail_cloud.engines.llm.checkpoint import Checkpoint


def in_transformers(checkpoint: Checkpoint) -> Any:
    """In float32. A rotary pair is half a head apart there."""
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    shape, weights = checkpoint.shape, checkpoint.weights
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.ffn,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_width,
        max_position_embeddings=shape.context,
        rms_norm_eps=shape.norm_epsilon,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_base},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    state = {
        "model.embed_tokens.weight": weights["embedding"],
        "lm_head.weight": weights["head"].T,
        "model.norm.weight": weights["norm"],
    }
    for layer in range(shape.layers):
        state |= _layer(checkpoint, layer)
    model = LlamaForCausalLM(config).train(False)
    model.load_state_dict({name: tensor.contiguous() for name, tensor in state.items()})
    return model


def _layer(checkpoint: Checkpoint, layer: int) -> dict[str, torch.Tensor]:
    shape, weights = checkpoint.shape, checkpoint.weights
    own, theirs = f"layers.{layer}", f"model.layers.{layer}"
    qkv = weights[f"{own}.qkv"].T
    keys_at, values_at = shape.query_width, shape.query_width + shape.kv_width
    query, key, value = qkv[:keys_at], qkv[keys_at:values_at], qkv[values_at:]
    gate, up = weights[f"{own}.gate_up"].T.chunk(2)

    def half(rows: torch.Tensor) -> torch.Tensor:
        pairs = rows.reshape(-1, shape.head_width // 2, 2, rows.shape[1])
        return pairs.transpose(1, 2).reshape(rows.shape)

    return {
        f"{theirs}.input_layernorm.weight": weights[f"{own}.attention_norm"],
        f"{theirs}.post_attention_layernorm.weight": weights[f"{own}.ffn_norm"],
        f"{theirs}.self_attn.q_proj.weight": half(query),
        f"{theirs}.self_attn.k_proj.weight": half(key),
        f"{theirs}.self_attn.v_proj.weight": value,
        f"{theirs}.self_attn.o_proj.weight": weights[f"{own}.output"].T,
        f"{theirs}.mlp.gate_proj.weight": gate,
        f"{theirs}.mlp.up_proj.weight": up,
        f"{theirs}.mlp.down_proj.weight": weights[f"{own}.down"].T,
    }
