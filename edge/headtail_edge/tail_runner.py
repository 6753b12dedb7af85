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
from headtail_fabric.codec import CodecError, TensorCodec, codec_for
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
    """What a batch took, for what is to be expected of the next: the codec and time (s) of each
    payload that was decoded, and of the rest, if it was computed as a whole, the time and the
    number of jobs."""

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
        good, inputs = self._decode_all(jobs, ran)
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

    def _decode_all(self, jobs: Sequence[Job], ran: Ran) -> tuple[list[Job], list[Array]]:
        good: list[Job] = []
        inputs: list[Array] = []
        plan = jobs[0].plan
        codecs = self._codecs.setdefault(plan, {})
        ended_at = self._clock.now()
        for job in jobs:
            began_at = ended_at
            try:
                codec = codecs.get(job.codec)
                if codec is None:
                    codec = codecs[job.codec] = plan.codecs.new(job.codec)
                inputs.append(plan.decode(codec, job.payload, job.tensor.shape))
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
                ended_at = self._clock.now()
                ran.spent.decoding.append((job.codec, ended_at - began_at))
        return good, inputs

    def _each_alone(
        self, plan: TailPlan, jobs: Sequence[Job], inputs: Sequence[Array], run: "_Run"
    ) -> Iterator[Answer | Failure]:
        for job, tensor in zip(jobs, inputs, strict=True):
            try:
                yield from self._compute(plan, [job], [tensor], run)
            except Exception:  # as above
                log.exception("job failed", extra=fields(plan=plan.key, session=job.session))
                yield Failure(job=job, code=ErrorCode.INTERNAL, message="the tail failed")

    def _compute(
        self, plan: TailPlan, jobs: Sequence[Job], inputs: Sequence[Array], run: "_Run"
    ) -> list[Answer]:
        started_at = self._clock.now()
        outputs = plan.stage.get().run({plan.input_name: _stacked(inputs)})
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
    return np.concatenate(inputs)


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
