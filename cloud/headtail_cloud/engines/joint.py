"""Tails and texts in one engine: one iteration runs both, under one time budget."""

from collections.abc import Sequence

from headtail_cloud.core.engine import Capacity, Engine, StateRef
from headtail_cloud.core.task import TailItem, Task, TaskResult
from headtail_cloud.core.work import Work


class JointEngine:
    """Tails first: they are due sooner."""

    def __init__(self, tails: Engine, texts: Engine) -> None:
        self._tails = tails
        self._texts = texts

    def __repr__(self) -> str:
        return f"<JointEngine {self._tails!r}, {self._texts!r}>"

    def capacity(self) -> Capacity:
        tails, texts = self._tails.capacity(), self._texts.capacity()
        return Capacity(
            max_batch=max(tails.max_batch, texts.max_batch),
            blocks=texts.blocks,
            block_tokens=texts.block_tokens,
        )

    def estimate(self, work: Work) -> float:
        texts = Work(
            prefill_tokens=work.prefill_tokens,
            first_tokens=work.first_tokens,
            decodes=work.decodes,
            context_tokens=work.context_tokens,
        )
        tails_s = self._tails.estimate(Work(items=work.items))
        return tails_s + (self._texts.estimate(texts) if texts.tokens else 0.0)

    def step(self, tasks: Sequence[Task]) -> list[TaskResult]:
        tails = [task for task in tasks if isinstance(task, TailItem)]
        texts = [task for task in tasks if not isinstance(task, TailItem)]
        results = self._tails.step(tails) if tails else []
        return results + (self._texts.step(texts) if texts else [])

    def export(self, state: StateRef) -> bytes:
        return self._texts.export(state)

    def import_(self, state: StateRef, data: bytes) -> None:
        self._texts.import_(state, data)
