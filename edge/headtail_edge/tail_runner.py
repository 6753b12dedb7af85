"""A batch of jobs in, an answer or a failure for each of them out."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headtail_edge.job import Job
from headtail_edge.plan import PlanKey, TailPlan
from headtail_fabric.clock import Clock
from headtail_fabric.codec import CodecError, TensorCodec, codec_for
from headtail_fabric.codec.base import CODES, Array
from headtail_fabric.logs import fields
from headtail_fabric.wire import Buffer, ErrorCode, TensorInfo, Timings

log = logging.getLogger(__name__)

_Tensors = dict[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
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


class TailRunner:
    """Decodes, stacks, runs and finishes. Codecs hold state, so each worker has its own runner.

    A bad payload fails its own job only. When a batch fails as a whole its jobs are tried again,
    each alone: what one job's content brought about does not reach the others.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._codecs: dict[tuple[PlanKey, str], TensorCodec] = {}

    def run(self, jobs: Sequence[Job]) -> Iterator[Answer | Failure]:
        """One outcome for each of `jobs`, which all have the same plan."""
        plan, taken_at = jobs[0].plan, self._clock.now()
        good: list[Job] = []
        inputs: list[Array] = []
        for job in jobs:
            try:
                inputs.append(self._decode(job))
            except CodecError as error:
                yield Failure(job=job, code=ErrorCode.BAD_PAYLOAD, message=error.message)
            except Exception:  # whatever a hostile payload brings about stays its sender's affair
                log.exception(
                    "payload not decoded", extra=fields(plan=plan.key, session=job.session)
                )
                yield Failure(job=job, code=ErrorCode.INTERNAL, message="decoding failed")
            else:
                good.append(job)
        if not good:
            return
        run = _Run(taken_at=taken_at, decoded_at=self._clock.now())
        try:
            answers = self._compute(plan, good, inputs, run)
        except Exception:  # a stage may raise anything; the worker must live on
            log.exception("batch failed", extra=fields(plan=plan.key, jobs=len(good)))
            yield from self._each_alone(plan, good, inputs, run)
        else:
            yield from answers

    def _decode(self, job: Job) -> Array:
        known = (job.key, job.tensor.codec)
        codec = self._codecs.get(known)
        if codec is None:
            codec = self._codecs[known] = job.plan.codecs.new(job.tensor.codec)
        return job.plan.decode(codec, job.payload, job.tensor.shape)

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
        results = [_encoded(tensors) for tensors in plan.task.finish(outputs)]
        post_us = _us(self._clock.now() - computed_at)
        return [
            Answer(
                job=job,
                tensors=tensors,
                payloads=payloads,
                timings=Timings(
                    queue_us=_us(run.taken_at - job.arrived_at),
                    decode_us=_us(run.decoded_at - run.taken_at),
                    compute_us=_us(computed_at - started_at),
                    post_us=post_us,
                ),
            )
            for job, (tensors, payloads) in zip(jobs, results, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """When a batch's phases began."""

    taken_at: float
    decoded_at: float


def _stacked(inputs: Sequence[Array]) -> Array:
    """One array (N, ...) of N arrays (1, ...); a single one is passed on as it is, a view of the
    received buffer included, unless that is out of step with its type's alignment."""
    if len(inputs) == 1:
        return np.require(inputs[0], requirements=["C", "A"])
    return np.concatenate(inputs)


def _encoded(tensors: _Tensors) -> tuple[tuple[TensorInfo, ...], tuple[Buffer, ...]]:
    infos, payloads = [], []
    for name, tensor in tensors.items():
        dtype = CODES[tensor.dtype]
        infos.append(TensorInfo(name=name, dtype=dtype, shape=tensor.shape, codec="raw"))
        payloads.append(codec_for("raw", dtype=dtype).encode(tensor))
    return tuple(infos), tuple(payloads)


def _us(seconds: float) -> int:
    return max(0, round(seconds * 1e6))
