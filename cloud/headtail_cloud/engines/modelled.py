"""An engine that computes nothing, at a price: for simulations and tests.

Its answers depend on all that a real engine's would. A text's next token is a hash of the tokens
that lie in its blocks, so a block that was shared, moved or used again wrongly shows in the text.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from headtail_cloud.core.engine import Capacity, EngineFailedError, StateError, StateRef
from headtail_cloud.core.exit_policy import Evidence
from headtail_cloud.core.task import (
    DecodeStep,
    PrefillChunk,
    TailItem,
    TailOutput,
    Task,
    TaskResult,
    TextOutput,
)
from headtail_cloud.core.work import Work

VOCABULARY: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Seconds. `context_s` is for each position that a token looks back on; `run_s` and `item_s`
    for a segment's batch."""

    step_s: float = 0.001
    prefill_s: float = 0.0005
    decode_s: float = 0.0005
    context_s: float = 0.0
    run_s: float = 0.0015
    item_s: float = 0.00025

    def of(self, work: Work) -> float:
        """Of that much work in one iteration."""
        runs = sum(1 for count in work.items.values() if count)
        return (
            self.step_s
            + self.prefill_s * work.prefill_tokens
            + self.decode_s * work.decodes
            + self.context_s * work.context_tokens
            + self.run_s * runs
            + self.item_s * sum(work.items.values())
        )


@dataclass(slots=True, kw_only=True)
class ModelledEngine:
    """`breaks`: requests that make the whole iteration fail. `confidence`: of a tail's answer
    after a segment."""

    limits: Capacity
    prices: Prices = Prices()
    breaks: Collection[str] = ()
    confidence: Callable[[TailItem], float] | None = None
    _memory: dict[int, list[int]] = field(default_factory=dict)

    def capacity(self) -> Capacity:
        return self.limits

    def estimate(self, work: Work) -> float:
        return self.prices.of(work)

    def step(self, tasks: Sequence[Task]) -> list[TaskResult]:
        broken = sorted({task.request_id for task in tasks} & set(self.breaks))
        if broken:
            raise EngineFailedError(f"{broken[0]} broke the engine")
        return [self._do(task) for task in tasks]

    def export(self, state: StateRef) -> bytes:
        return msgspec.json.encode(self._read(state))

    def import_(self, state: StateRef, data: bytes) -> None:
        try:
            tokens = msgspec.json.decode(data, type=list[int])
        except msgspec.MsgspecError as error:
            raise StateError(f"not an exported state: {error}") from None
        if len(tokens) != state.positions:
            raise StateError(f"{len(tokens)} positions for {state.positions}")
        self._write(state.blocks, 0, tokens)

    def _do(self, task: Task) -> TaskResult:
        match task:
            case TailItem():
                return self._tail(task)
            case PrefillChunk(tokens=tokens, start=start):
                self._write(task.blocks, start, tokens)
                token = self._next(task.blocks, start + len(tokens)) if task.last else None
                return TextOutput(request_id=task.request_id, token=token)
            case DecodeStep():
                self._write(task.blocks, task.position, [task.token])
                token = self._next(task.blocks, task.position + 1)
                return TextOutput(request_id=task.request_id, token=token)

    def _tail(self, item: TailItem) -> TailOutput:
        ran = (item.input, str(item.segment))
        evidence = Evidence(confidence=self.confidence(item)) if self.confidence else None
        return TailOutput(request_id=item.request_id, output=ran, carry=ran, evidence=evidence)

    def _next(self, blocks: Sequence[int], positions: int) -> int:
        return next_token(self._read(StateRef(blocks=tuple(blocks), positions=positions)))

    def _write(self, blocks: Sequence[int], start: int, tokens: Sequence[int]) -> None:
        size = self.limits.block_tokens
        for position, token in enumerate(tokens, start):
            block = self._memory.setdefault(blocks[position // size], [-1] * size)
            block[position % size] = token

    def _read(self, state: StateRef) -> list[int]:
        tokens: list[int] = []
        for block in state.blocks:
            tokens += self._memory.get(block, [-1] * self.limits.block_tokens)
        if len(tokens) < state.positions:
            raise StateError(f"{state.positions} positions in {len(state.blocks)} blocks")
        return tokens[: state.positions]


def next_token(tokens: Sequence[int]) -> int:
    """What this engine says after those tokens."""
    digest = hashlib.blake2b(repr(list(tokens)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") % VOCABULARY
