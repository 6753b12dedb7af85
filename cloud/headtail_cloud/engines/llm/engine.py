"""The engine for texts: one iteration's decodes and prompt chunks as one batch.

Between iterations it keeps nothing of a request but the entries in its blocks; sampling comes with
each task. A request's own mistakes fail it alone.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import torch

from headtail_cloud.core.engine import Capacity, StateError, StateRef
from headtail_cloud.core.exit_policy import Evidence
from headtail_cloud.core.prices import TextPrices
from headtail_cloud.core.task import (
    DecodeStep,
    Fault,
    PrefillChunk,
    TailItem,
    Task,
    TaskFailed,
    TaskResult,
    TextOutput,
)
from headtail_cloud.core.work import Work
from headtail_cloud.engines.llm.adapters import Adapter
from headtail_cloud.engines.llm.batching import Piece, batch_of
from headtail_cloud.engines.llm.checkpoint import Checkpoint
from headtail_cloud.engines.llm.choice import choose
from headtail_cloud.engines.llm.network import LlamaNetwork
from headtail_cloud.engines.llm.paged_cache import PagedCache
from headtail_cloud.engines.llm.sampling import Sampling

_READ_BYTES_S: Final = 8e9
"""How fast entries are read, guessed: what a position to look back on costs at first."""

_WARM_CHUNK: Final = 64
_WARM_DECODES: Final = 8
_WARM_RUNS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmOptions:
    """`packed`: hold a second copy of the weights, laid out for batches: faster from two rows on,
    for as much memory again, which processes don't share."""

    max_batch: int = 16
    block_tokens: int = 16
    blocks: int = 1024
    packed: bool = True


class LlmEngine:
    """Serves the model `checkpoint.name`, and `name:adapter` for each of its adapters. For one
    thread, and for one thread of torch: several of them in several processes get in each other's
    way."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        options: LlmOptions | None = None,
        adapters: Sequence[Adapter] = (),
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        torch.set_num_threads(1)
        options = options or LlmOptions()
        self._options = options
        self._shape = checkpoint.shape
        self._models: dict[str, Adapter | None] = {checkpoint.name: None}
        self._models |= {f"{checkpoint.name}:{adapter.name}": adapter for adapter in adapters}
        with torch.inference_mode():
            self._network = LlamaNetwork(
                checkpoint.shape, checkpoint.weights, packed=options.packed
            )
            self._cache = PagedCache(
                checkpoint.shape,
                blocks=options.blocks,
                block_tokens=options.block_tokens,
                digest=checkpoint.digest,
            )
        self._prices = self._measured(timer)

    def __repr__(self) -> str:
        return f"<LlmEngine {', '.join(self._models)}, {self._cache!r}>"

    @property
    def models(self) -> tuple[str, ...]:
        """Names that requests may ask for."""
        return tuple(self._models)

    def capacity(self) -> Capacity:
        return Capacity(
            max_batch=self._options.max_batch,
            blocks=self._options.blocks,
            block_tokens=self._options.block_tokens,
        )

    def estimate(self, work: Work) -> float:
        return self._prices.of(work)

    def step(self, tasks: Sequence[Task]) -> list[TaskResult]:
        pieces: list[Piece] = []
        results: list[TaskResult] = []
        for task in tasks:
            piece = self._piece(task)
            if isinstance(piece, TaskFailed):
                results.append(piece)
            else:
                pieces.append(piece)
        if pieces:
            with torch.inference_mode():
                results += self._run(pieces)
        return results

    def export(self, state: StateRef) -> bytes:
        with torch.inference_mode():
            return self._cache.export(state)

    def import_(self, state: StateRef, data: bytes) -> None:
        with torch.inference_mode():
            self._cache.import_(state, data)

    def _piece(self, task: Task) -> Piece | TaskFailed:
        if isinstance(task, TailItem):
            return TaskFailed(request_id=task.request_id, message="not a text")
        if task.model not in self._models:
            message = f"no model {task.model[:80]!r}"
            return TaskFailed(request_id=task.request_id, message=message)
        if isinstance(task, PrefillChunk):
            tokens, start, last = task.tokens, task.start, task.last
        else:
            tokens, start, last = (task.token,), task.position, True
        try:
            sampling = msgspec.convert(task.input or {}, Sampling, strict=False)
            slots = self._cache.slots(task.blocks, start, len(tokens))
        except (msgspec.ValidationError, StateError) as error:
            return TaskFailed(request_id=task.request_id, message=str(error), fault=Fault.INPUT)
        if start + len(tokens) > self._shape.context or not all(
            0 <= token < self._shape.vocabulary for token in tokens
        ):
            message = "more tokens than its context, or unknown ones"
            return TaskFailed(request_id=task.request_id, message=message, fault=Fault.INPUT)
        return Piece(
            task=task,
            tokens=tokens,
            start=start,
            slots=slots,
            sampling=sampling,
            adapter=self._models[task.model],
            last=last,
        )

    def _run(self, pieces: list[Piece]) -> list[TaskResult]:
        pieces.sort(key=lambda piece: piece.adapter.name if piece.adapter else "")
        batch = batch_of(pieces, self._cache)
        tokens = torch.tensor([token for piece in pieces for token in piece.tokens])
        hidden = self._network.forward(self._network.embed(tokens), batch, self._cache)
        ends = itertools.accumulate(len(piece.tokens) for piece in pieces)
        wanted = {end - 1: piece for end, piece in zip(ends, pieces, strict=True) if piece.last}
        results: list[TaskResult] = [
            TextOutput(request_id=piece.task.request_id) for piece in pieces if not piece.last
        ]
        if wanted:
            finished = self._network.finish(hidden[list(wanted)])
            logits = self._network.logits(finished)
            results += map(self._said, wanted.values(), logits, finished)
        return results

    def _said(self, piece: Piece, logits: torch.Tensor, finished: torch.Tensor) -> TextOutput:
        chosen = choose(logits, piece.sampling, piece.end)
        output: object = None
        if piece.sampling.embed:
            output = finished.numpy().copy()
        elif chosen.logprob is not None:
            output = msgspec.to_builtins(chosen)
        return TextOutput(
            request_id=piece.task.request_id,
            token=chosen.token,
            output=output,
            evidence=Evidence(token=chosen.token),
        )

    def _measured(self, timer: Callable[[], float]) -> TextPrices:
        """What an iteration costs, from a few of them on blocks that nobody holds yet."""
        model = next(iter(self._models))
        per_block = self._options.block_tokens
        most = min(_WARM_DECODES, self._options.blocks, self._options.max_batch)
        chunk = min(_WARM_CHUNK, self._options.blocks * per_block, self._shape.context)

        def decodes(count: int) -> list[Task]:
            return [
                DecodeStep(request_id=str(at), model=model, token=0, position=0, blocks=(at,))
                for at in range(count)
            ]

        prefill = PrefillChunk(
            request_id="0",
            model=model,
            tokens=(0,) * chunk,
            start=0,
            blocks=tuple(range(-(-chunk // per_block))),
            last=True,
        )
        one_s = self._timed(decodes(1), timer)
        two_s = self._timed(decodes(min(2, most)), timer)
        many_s = self._timed(decodes(most), timer)
        prefill_s = self._timed([prefill], timer)
        decode_s = max(0.0, many_s - two_s) / max(1, most - 2)
        several_s = max(0.0, two_s - one_s - decode_s)
        run_s = max(one_s - decode_s, 1e-6)
        return TextPrices(
            run_s=run_s,
            several_s=several_s,
            first_s=decode_s,
            decode_s=decode_s,
            prefill_s=max(0.0, prefill_s - run_s - several_s - decode_s) / chunk,
            context_s=self._shape.kv_bytes() / _READ_BYTES_S,
        )

    def _timed(self, tasks: Sequence[Task], timer: Callable[[], float]) -> float:
        took_s = 0.0
        for _ in range(_WARM_RUNS):
            started = timer()
            self.step(tasks)
            took_s = timer() - started
        return took_s


def options_for(
    checkpoint: Checkpoint, *, kv_mb: float, max_batch: int, packed: bool = True
) -> LlmOptions:
    """As many blocks as that many MiB hold, and no more than a full batch at full length needs."""
    size = LlmOptions().block_tokens
    blocks = int(kv_mb * (1 << 20) / (size * checkpoint.shape.kv_bytes()))
    most = max_batch * -(-checkpoint.shape.context // size)
    return LlmOptions(max_batch=max_batch, blocks=max(1, min(blocks, most)), packed=packed)
