"""An engine for texts, driven by hand: what the parts of the benchmark have in common."""

import time
from collections.abc import Callable, Sequence
from statistics import median

from headtail_cloud.core.task import DecodeStep, PrefillChunk, Task, TextOutput
from headtail_cloud.engines.llm.engine import LlmEngine

GREEDY = {"temperature": 0}


def prompt(number: int, size: int) -> tuple[int, ...]:
    """Token ids; different for each number."""
    return tuple(100 + (31 * number + 7 * at) % 40_000 for at in range(size))


class Sequences:
    """Texts that run side by side, each with blocks of its own for `room` positions."""

    def __init__(self, engine: LlmEngine, models: Sequence[str], room: int) -> None:
        self._engine = engine
        self._models = models
        self._blocks = -(-room // engine.capacity().block_tokens)
        self._positions = [0] * len(models)
        self._tokens = [0] * len(models)

    def chunk(self, at: int, tokens: tuple[int, ...], *, last: bool = True) -> Task:
        """The next tokens of a prompt."""
        task = PrefillChunk(
            request_id=str(at),
            model=self._models[at],
            tokens=tokens,
            start=self._positions[at],
            blocks=self._held(at),
            last=last,
            input=GREEDY,
        )
        self._positions[at] += len(tokens)
        return task

    def decode(self, at: int) -> Task:
        """One more token."""
        task = DecodeStep(
            request_id=str(at),
            model=self._models[at],
            token=self._tokens[at],
            position=self._positions[at],
            blocks=self._held(at),
            input=GREEDY,
        )
        self._positions[at] += 1
        return task

    def step(self, tasks: Sequence[Task]) -> None:
        for result in self._engine.step(tasks):
            if isinstance(result, TextOutput) and result.token is not None:
                self._tokens[int(result.request_id)] = result.token

    def rewind(self, positions: int, *, of: int | None = None) -> None:
        """One of them, or all."""
        for at in range(len(self._positions)) if of is None else (of,):
            self._positions[at] = positions

    def _held(self, at: int) -> tuple[int, ...]:
        return tuple(range(at * self._blocks, (at + 1) * self._blocks))


def cpu_s(work: Callable[[], object]) -> float:
    """Processor time that it takes, in seconds."""
    started = time.process_time()
    work()
    return time.process_time() - started


def middle_s(work: Callable[[], object], turns: int) -> float:
    """The median of some turns, after one that does not count."""
    work()
    return median(cpu_s(work) for _ in range(turns))
