"""(e) What need not be computed, waited for, or computed one by one: shared beginnings, prompts in
chunks, adapters in one batch. Each against the same without it."""

import argparse
from functools import partial
from statistics import median
from typing import Final

import torch

from headtail.bench.cloud.texts import Sequences, cpu_s, middle_s, prompt
from headtail.bench.report import Report
from headtail_cloud.engines.llm import model_store
from headtail_cloud.engines.llm.adapters import Adapter, Delta
from headtail_cloud.engines.llm.engine import LlmEngine, options_for
from headtail_cloud.engines.llm.shape import LlamaShape

_SHARED: Final = 256
_OWN: Final = 16
_DECODES: Final = 8
_LONG: Final = 512
_CHUNK: Final = 64
_ADAPTERS: Final = 4
_RANK: Final = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def measure(report: Report, options: argparse.Namespace) -> None:
    checkpoint = model_store.checkpoint(options.model)
    adapters = [_random_adapter(f"a{at}", checkpoint.shape, at) for at in range(_ADAPTERS)]
    engine = LlmEngine(
        checkpoint,
        options=options_for(checkpoint, kv_mb=512, max_batch=16),
        adapters=adapters,
    )
    rows = [
        _prefix(engine, report, options),
        _chunked(engine, report, options),
        _lora(engine, report, options),
    ]
    report.table(
        "What is saved: milliseconds of processor time", ["", "with", "without", "ratio"], rows
    )


def _prefix(engine: LlmEngine, report: Report, options: argparse.Namespace) -> list[str | float]:
    """A prompt whose beginning another one has left in the cache."""
    texts = Sequences(engine, [options.model], _SHARED + _OWN)
    tokens = prompt(0, _SHARED + _OWN)

    def whole() -> None:
        texts.rewind(0)
        texts.step([texts.chunk(0, tokens)])

    def shared() -> None:
        texts.rewind(_SHARED)
        texts.step([texts.chunk(0, tokens[_SHARED:])])

    without, with_it = middle_s(whole, options.turns), middle_s(shared, options.turns)
    report.figure("prefix_sharing_speedup", without / with_it)
    name = f"first token, {_SHARED} of {_SHARED + _OWN} tokens shared"
    return [name, 1000 * with_it, 1000 * without, without / with_it]


def _chunked(engine: LlmEngine, report: Report, options: argparse.Namespace) -> list[str | float]:
    """The longest time between two tokens of texts that run when a long prompt comes."""
    models = [options.model] * (_DECODES + 1)
    texts = Sequences(engine, models, _LONG + 64)
    for at in range(_DECODES):
        texts.step([texts.chunk(at, prompt(at, 32))])
    tokens = prompt(_DECODES, _LONG)

    def stall_s(size: int) -> float:
        texts.rewind(32)
        texts.rewind(0, of=_DECODES)
        worst = 0.0
        for start in range(0, _LONG, size):
            part, last = tokens[start : start + size], start + size == _LONG
            tasks = [texts.decode(at) for at in range(_DECODES)]
            tasks.append(texts.chunk(_DECODES, part, last=last))
            worst = max(worst, cpu_s(partial(texts.step, tasks)))
        return worst

    stalls = [(stall_s(_CHUNK), stall_s(_LONG)) for _ in range(options.turns)]
    with_it, without = (median(side) for side in zip(*stalls, strict=True))
    report.target("chunked_prefill_stall_ratio", without / with_it, ">=", 3.0)
    name = f"worst stall of {_DECODES} decodes, a prompt of {_LONG} in chunks of {_CHUNK}"
    return [name, 1000 * with_it, 1000 * without, without / with_it]


def _lora(engine: LlmEngine, report: Report, options: argparse.Namespace) -> list[str | float]:
    """One token of texts with different adapters."""
    base, *adapted = engine.models
    texts = Sequences(engine, adapted, 64)
    plain = Sequences(engine, [base] * _ADAPTERS, 64)
    every = range(_ADAPTERS)
    for at in every:
        texts.step([texts.chunk(at, prompt(at, 32))])

    def together() -> None:
        texts.rewind(32)
        texts.step([texts.decode(at) for at in every])

    def one_by_one() -> None:
        texts.rewind(32)
        for at in every:
            texts.step([texts.decode(at)])

    def without_adapters() -> None:
        plain.rewind(32)
        plain.step([plain.decode(at) for at in every])

    turns = 3 * options.turns
    with_it, without = middle_s(together, turns), middle_s(one_by_one, turns)
    report.target("lora_batch_speedup", without / with_it, ">=", 1.5)
    report.figure("lora_batch_cost", with_it / middle_s(without_adapters, turns))
    name = f"a token of {_ADAPTERS} texts, each with its own adapter, in one batch"
    return [name, 1000 * with_it, 1000 * without, without / with_it]


def _random_adapter(name: str, shape: LlamaShape, seed: int) -> Adapter:
    generator = torch.Generator().manual_seed(seed)
    deltas: dict[tuple[int, str], Delta] = {}
    for layer in range(shape.layers):
        for part in ("qkv", "output", "gate_up", "down"):
            width, out = shape.tensors()[f"layers.{layer}.{part}"]
            down = torch.randn(width, _RANK, generator=generator) * 0.01
            up = torch.randn(_RANK, out, generator=generator) * 0.01
            deltas[layer, part] = Delta(down=down, up=up)
    return Adapter(name=name, deltas=deltas)
