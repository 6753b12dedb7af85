"""A batch of jobs in, an answer or a failure for each of them out."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from headtail_edge.job import Job
from headtail_edge.plan import TailPlan
from headtail_fabric.clock import Clock
from headtail_fabric.codec import BatchCodec, CodecError, TensorCodec, codec_for
from headtail_fabric.codec.base import CODES, Array
from headtail_fabric.logs import fields
from headtail_fabric.wire import Buffer, DType, ErrorCode, TensorInfo, Timings

log = logging.getLogger(__name__)

_RAW: Final = {dtype: codec_for("raw", dtype=dtype) for dtype in DType}
"""Answers go as they are: these hold no state."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a job's session gets. `timings` are what the job lived through: the phases of its
    batch, so that they add up to its time on this edge."""

    job: Job
    tensors: tuple[TensorInfo, ...]
    payloads: tuple[Buffer, ...]
    timings: Timings


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a job has no answer."""

    job: Job
    code: ErrorCode
    message: str


@dataclass(slots=True, kw_only=True)
class Spent:
    """What a batch took, for what is to be expected of the next.

    `decoding` is codec and time (s) of payloads, each alone or of some on average; the rest is of
    the batch if it was computed as a whole, the time and the number of jobs.
    """

    decoding: list[tuple[str, float]] = field(default_factory=list)
    computing_s: float | None = None
    jobs: int = 0

    def decoding_each_s(self) -> dict[str, float]:
        """What a payload of each codec took on average."""
        taken: dict[str, list[float]] = {}
        for codec, seconds in self.decoding:
            taken.setdefault(codec, []).append(seconds)
        return {codec: sum(times) / len(times) for codec, times in taken.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What became of a batch: one outcome for each job, in any order."""

    outcomes: list[Answer | Failure] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)


class Runner(Protocol):
    """Computes batches, one at a time, for one worker."""

    def run(self, jobs: Sequence[Job]) -> Ran:
        """Deal with `jobs`, which all have the same plan. Raises WorkerDiedError."""
        ...

    def close(self) -> None: ...


class TailRunner:
    """Decodes, stacks, runs and finishes. Codecs hold state, so each worker has its own runner.

    A bad payload fails its own job only. When a batch fails as a whole its jobs are tried again,
    each alone: what one job's content brought about does not reach the others.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._codecs: WeakKeyDictionary[TailPlan, dict[str, TensorCodec]] = WeakKeyDictionary()

    def run(self, jobs: Sequence[Job]) -> Ran:
        """Deal with `jobs`, which all have the same plan."""
        ran, plan, taken_at = Ran(), jobs[0].plan, self._clock.now()
        good, inputs = self._decoded(jobs, ran)
        if not good:
            return ran
        decoded_at = self._clock.now()
        try:
            plan.stage.get()
        except Exception:  # a model may fail to load in any way; the next one may be better
            log.exception("stage not opened", extra=fields(plan=plan.key))
            ran.outcomes.extend(
                Failure(job=job, code=ErrorCode.INTERNAL, message="the tail can't be loaded")
                for job in good
            )
            return ran
        # Where the stage had to be opened they have waited for it.
        ready_at = self._clock.now()
        run = _Run(taken_at=taken_at + ready_at - decoded_at, decode_s=decoded_at - taken_at)
        try:
            ran.outcomes.extend(self._compute(plan, good, inputs, run))
        except Exception:  # a stage may raise anything; the worker must live on
            log.exception("batch failed", extra=fields(plan=plan.key, jobs=len(good)))
            ran.outcomes.extend(self._each_alone(plan, good, inputs, run))
        else:
            ran.spent.computing_s = self._clock.now() - ready_at
            ran.spent.jobs = len(good)
        return ran

    def close(self) -> None:
        """Nothing is held that would not go by itself."""

    def _decoded(self, jobs: Sequence[Job], ran: Ran) -> tuple[Sequence[Job], Array]:
        """The jobs whose payload is good, and their tensors (N, ...)."""
        plan, codec_id, shape = jobs[0].plan, jobs[0].codec, jobs[0].plan.expected.shape
        codecs = self._codecs.setdefault(plan, {})
        alike = len(jobs) > 1 and all(job.codec == codec_id for job in jobs)
        if alike and shape is not None and isinstance(codec := codecs.get(codec_id), BatchCodec):
            began_at = self._clock.now()
            try:
                tensors = codec.decode_all([job.payload for job in jobs], shape)
            except Exception:  # which of them it was shows when they are decoded one by one
                log.debug("batch decoded one by one", exc_info=True, extra=fields(plan=plan.key))
            else:
                each_s = (self._clock.now() - began_at) / len(jobs)
                ran.spent.decoding.append((codec_id, each_s))
                return jobs, tensors
        return self._decoded_one_by_one(jobs, codecs, ran)

    def _decoded_one_by_one(
        self, jobs: Sequence[Job], codecs: dict[str, TensorCodec], ran: Ran
    ) -> tuple[list[Job], Array]:
        good: list[Job] = []
        tensors: list[Array] = []
        for job in jobs:
            began_at = self._clock.now()
            try:
                codec = codecs.get(job.codec)
                if codec is None:
                    codec = codecs[job.codec] = job.plan.codecs.new(job.codec)
                tensors.append(job.plan.decode(codec, job.payload, job.tensor.shape))
            except CodecError as error:
                failure = Failure(job=job, code=ErrorCode.BAD_PAYLOAD, message=error.message)
                ran.outcomes.append(failure)
            except Exception:  # whatever a hostile payload brings about stays its sender's affair
                log.exception(
                    "payload not decoded", extra=fields(plan=job.key, session=job.session)
                )
                failure = Failure(job=job, code=ErrorCode.INTERNAL, message="decoding failed")
                ran.outcomes.append(failure)
            else:
                good.append(job)
                ran.spent.decoding.append((job.codec, self._clock.now() - began_at))
        return good, _stacked(tensors)

    def _each_alone(
        self, plan: TailPlan, jobs: Sequence[Job], inputs: Array, run: "_Run"
    ) -> Iterator[Answer | Failure]:
        for number, job in enumerate(jobs):
            try:
                yield from self._compute(plan, [job], inputs[number : number + 1], run)
            except Exception:  # as above
                log.exception("job failed", extra=fields(plan=plan.key, session=job.session))
                yield Failure(job=job, code=ErrorCode.INTERNAL, message="the tail failed")

    def _compute(
        self, plan: TailPlan, jobs: Sequence[Job], inputs: Array, run: "_Run"
    ) -> list[Answer]:
        started_at = self._clock.now()
        outputs = plan.stage.get().run({plan.input_name: inputs})
        computed_at = self._clock.now()
        results = list(_encoded(plan.task.finish(outputs)))
        decode_us, compute_us = _us(run.decode_s), _us(computed_at - started_at)
        post_us = _us(self._clock.now() - computed_at)
        return [
            Answer(
                job=job,
                tensors=tensors,
                payloads=payloads,
                timings=Timings(
                    queue_us=_us(run.taken_at - job.arrived_at),
                    decode_us=decode_us,
                    compute_us=compute_us,
                    post_us=post_us,
                ),
            )
            for job, (tensors, payloads) in zip(jobs, results, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """When a batch had waited enough, and how long its payloads took to decode."""

    taken_at: float
    decode_s: float


def _stacked(inputs: Sequence[Array]) -> Array:
    """One array (N, ...) of N arrays (1, ...); a single one is passed on as it is, a view of the
    received buffer included, unless that is out of step with its type's alignment."""
    if len(inputs) == 1:
        return np.require(inputs[0], requirements=["C", "A"])
    return np.concatenate(inputs) if inputs else np.empty(0)


def _encoded(
    answers: Iterable[Mapping[str, Array]],
) -> Iterator[tuple[tuple[TensorInfo, ...], tuple[Buffer, ...]]]:
    """The answers of one batch: most have one shape, and share what describes it."""
    described: dict[tuple[str, tuple[int, ...]], TensorInfo] = {}
    for tensors in answers:
        infos, payloads = [], []
        for name, tensor in tensors.items():
            info = described.get((name, tensor.shape))
            if info is None:
                info = described[name, tensor.shape] = TensorInfo(
                    name=name, dtype=CODES[tensor.dtype], shape=tensor.shape, codec="raw"
                )
            infos.append(info)
            payloads.append(_RAW[info.dtype].encode(tensor))
        yield tuple(infos), tuple(payloads)


def _us(seconds: float) -> int:
    return max(0, round(seconds * 1e6))
