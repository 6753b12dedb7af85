"""(a) Prompt and answer tokens per second of processor time, against `transformers`' generate."""

import argparse
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import torch
from rich.progress import Progress

from headtail.bench.cloud.texts import Sequences, cpu_s, prompt
from headtail.bench.report import Report
from headtail_cloud.engines.llm import model_store
from headtail_cloud.engines.llm.engine import LlmEngine, options_for

_PROMPT: Final = 64
_ANSWER: Final = 24
_BATCHES: Final = (1, 8, 16)

Speeds = tuple[float, float]
"""Prompt tokens, answer tokens, a second."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def measure(report: Report, options: argparse.Namespace) -> None:
    # Only this part needs `transformers`, which takes seconds to load.
    from headtail.bench.cloud.twin import in_transformers

    checkpoint = model_store.checkpoint(options.model)
    theirs = in_transformers(checkpoint)
    ours = LlmEngine(checkpoint, options=options_for(checkpoint, kv_mb=512, max_batch=16))
    rows: list[list[str | float]] = []
    ratios: list[float] = []
    with Progress(transient=True) as progress:
        task = progress.add_task("texts", total=len(_BATCHES) * options.turns)
        for batch in _BATCHES:
            turns: list[tuple[Speeds, Speeds]] = []
            for _ in range(options.turns):
                turns.append((_ours(ours, options.model, batch), _theirs(theirs, batch)))
                progress.advance(task)
            for at, what in enumerate(("prefill", "decode")):
                own, other = (median(turn[side][at] for turn in turns) for side in (0, 1))
                ratio = median(turn[0][at] / turn[1][at] for turn in turns)
                rows.append([f"{what}, batch {batch}", own, other, ratio])
                report.figure(f"llm_{what}_bs{batch}", own)
                report.figure(f"transformers_{what}_bs{batch}", other)
                report.figure(f"llm_vs_transformers_{what}_bs{batch}", ratio)
                ratios.append(ratio)
    report.table(
        "Texts: tokens per second of processor time",
        ["", "Headtail", "transformers", "ratio"],
        rows,
    )
    report.note(f"prompts of {_PROMPT} tokens, answers of {_ANSWER}, float32, greedy")
    report.target("llm_vs_transformers_min", min(ratios), ">=", 1.0)


def _ours(engine: LlmEngine, model: str, batch: int) -> Speeds:
    texts = Sequences(engine, [model] * batch, _PROMPT + _ANSWER)
    chunks = [texts.chunk(at, prompt(at, _PROMPT)) for at in range(batch)]
    prefill_s = cpu_s(lambda: texts.step(chunks))

    def answer() -> None:
        for _ in range(_ANSWER):
            texts.step([texts.decode(at) for at in range(batch)])

    return batch * _PROMPT / prefill_s, batch * _ANSWER / cpu_s(answer)


def _theirs(model: Any, batch: int) -> Speeds:
    tokens = torch.tensor([prompt(at, _PROMPT) for at in range(batch)])
    mask = torch.ones_like(tokens)

    def generate(count: int) -> Callable[[], object]:
        return lambda: model.generate(
            tokens,
            attention_mask=mask,
            min_new_tokens=count,
            max_new_tokens=count,
            do_sample=False,
        )

    with torch.inference_mode():
        prefill_s = cpu_s(generate(1))
        answer_s = cpu_s(generate(_ANSWER + 1)) - prefill_s
    return batch * _PROMPT / prefill_s, batch * _ANSWER / answer_s
