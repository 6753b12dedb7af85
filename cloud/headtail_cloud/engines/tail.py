"""The engine for tails: a segment's items are decoded, stacked and run at once.

What can't be decoded fails its own request. When a stage raises, the whole iteration has failed,
and the scheduler tries each of its requests alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from headtail_cloud.core.engine import Capacity, StateError, StateRef
from headtail_cloud.core.request import Segment
from headtail_cloud.core.task import Fault, TailItem, TailOutput, Task, TaskFailed, TaskResult
from headtail_cloud.core.work import Work
from headtail_cloud.engines.served_tail import ServedTail, TailInput
from headtail_fabric.codec import CodecError, TensorCodec
from headtail_fabric.codec.base import Array

_STEP_S: Final = 0.0002
"""An iteration's own cost, guessed."""


class TailEngine:
    """Runs in one thread: codecs hold state."""

    def __init__(self, tails: Iterable[ServedTail], *, max_batch: int) -> None:
        self._tails = {tail.segment: tail for tail in tails}
        self._max_batch = max_batch
        self._codecs: dict[tuple[Segment, str], TensorCodec] = {}

    def __repr__(self) -> str:
        return f"<TailEngine {', '.join(str(segment) for segment in self._tails)}>"

    @property
    def segments(self) -> tuple[Segment, ...]:
        """What it runs."""
        return tuple(self._tails)

    def capacity(self) -> Capacity:
        return Capacity(max_batch=self._max_batch)

    def estimate(self, work: Work) -> float:
        return _STEP_S + sum(
            tail.run_s + tail.item_s * count
            for segment, count in work.items.items()
            if count and (tail := self._tails.get(segment))
        )

    def step(self, tasks: Sequence[Task]) -> list[TaskResult]:
        """Raises StageError; ValueError for a network that gives what its task does not take."""
        by_segment: dict[Segment, list[TailItem]] = defaultdict(list)
        results: list[TaskResult] = []
        for task in tasks:
            if not (isinstance(task, TailItem) and isinstance(task.input, TailInput)):
                results.append(TaskFailed(request_id=task.request_id, message="not a tail"))
            elif task.segment not in self._tails:
                message = f"no segment {task.segment}"
                results.append(TaskFailed(request_id=task.request_id, message=message))
            else:
                by_segment[task.segment].append(task)
        for segment, items in by_segment.items():
            results += self._run(self._tails[segment], items)
        return results

    def export(self, state: StateRef) -> bytes:
        raise StateError("tails leave nothing behind between iterations")

    def import_(self, state: StateRef, data: bytes) -> None:
        raise StateError("tails leave nothing behind between iterations")

    def _run(self, tail: ServedTail, items: Sequence[TailItem]) -> list[TaskResult]:
        results: list[TaskResult] = []
        tensors: list[Array] = []
        wanted: list[tuple[str, ...]] = []
        good: list[str] = []
        for item in items:
            assert isinstance(item.input, TailInput)
            try:
                tensors.append(self._decode(tail, item.input))
            except CodecError as error:
                results.append(_refused(item, error))
            else:
                wanted.append(item.input.outputs)
                good.append(item.request_id)
        if good:
            outputs = tail.run(tensors, wanted)
            results += (
                TailOutput(request_id=request_id, output=output)
                for request_id, output in zip(good, outputs, strict=True)
            )
        return results

    def _decode(self, tail: ServedTail, request: TailInput) -> Array:
        known = (tail.segment, request.codec)
        codec = self._codecs.get(known)
        if codec is None:
            codec = self._codecs[known] = tail.new_codec(request.codec)
        return tail.decode(codec, request)


def _refused(item: TailItem, error: CodecError) -> TaskFailed:
    return TaskFailed(request_id=item.request_id, message=error.message, fault=Fault.INPUT)
