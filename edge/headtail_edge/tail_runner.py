"""A batch of jobs in, an answer or a failure for each of them out."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from headtail_edge.job import Job
from headtail_edge.plan import PlanKey, TailPlan, meeting, segments_to
from headtail_edge.spent import Spent, Took
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What became of a batch: one outcome for each job, in any order."""

    outcomes: list[Answer | Failure] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)


class Runner(Protocol):
    """Computes batches, one at a time, for one worker."""

    def run(self, jobs: Sequence[Job]) -> Ran:
        """Deal with `jobs`, which have the same plan, or plans of one bundle whose ways meet.
        Raises WorkerDiedError."""
        ...

    def close(self) -> None: ...


class TailRunner:
    """Decodes, stacks, runs and finishes. Codecs hold state, so each worker has its own runner.

    A bad payload fails its own job only. Jobs of several plans go through their segments to where
    their ways meet, and from there on together; when anything of that fails, each plan's are
    computed by themselves. When those fail as a whole they are tried again, each job alone: what
    one job's content brought about does not reach the others.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._codecs: WeakKeyDictionary[TailPlan, dict[str, TensorCodec]] = WeakKeyDictionary()

    def run(self, jobs: Sequence[Job]) -> Ran:
        """Deal with `jobs`, which have the same plan, or plans of one bundle whose ways meet."""
        ran, taken_at = Ran(), self._clock.now()
        by_plan: dict[PlanKey, list[Job]] = {}
        for job in jobs:
            by_plan.setdefault(job.key, []).append(job)
        groups = [group for alike in by_plan.values() if (group := self._decoded(alike, ran)).jobs]
        decode_s = self._clock.now() - taken_at
        if len(groups) < 2 or not self._mixed(groups, decode_s, ran):
            for group in groups:
                self._alike(group, decode_s, ran)
        return ran

    def close(self) -> None:
        """Nothing is held that would not go by itself."""

    def _alike(self, group: "_Group", decode_s: float, ran: Ran) -> None:
        """Compute jobs of one plan."""
        plan = group.plan
        try:
            plan.stage.get()
        except Exception:  # a model may fail to load in any way; the next one may be better
            log.exception("stage not opened", extra=fields(plan=plan.key))
            ran.outcomes.extend(
                Failure(job=job, code=ErrorCode.INTERNAL, message="the tail can't be loaded")
                for job in group.jobs
            )
            return
        # Where the stage had to be opened they have waited for it.
        times = _Times(ready_at=self._clock.now(), decode_s=decode_s)
        try:
            answers = self._compute(group, times)
        except Exception:  # a stage may raise anything; the worker must live on
            log.exception("batch failed", extra=fields(plan=plan.key, jobs=len(group.jobs)))
            ran.outcomes.extend(self._each_alone(group, times))
        else:
            ran.outcomes.extend(answers)
            ran.spent.runs.append(self._took(group, times.ready_at))

    def _mixed(self, groups: Sequence["_Group"], decode_s: float, ran: Ran) -> bool:
        """Compute jobs of several plans, from where their ways meet on together; false when that
        failed, and nothing came of it."""
        goal = meeting([group.plan for group in groups])
        if goal is None:
            return False
        try:
            segments = segments_to(goal, [group.plan for group in groups])
            stages = [segment.stage.get() for segment in segments]
            goal.stage.get()
            times = _Times(ready_at=self._clock.now(), decode_s=decode_s)
            at = {group.plan.key: group for group in groups}
            runs = []
            for segment, stage in zip(segments, stages, strict=True):
                began_at, group = self._clock.now(), at.pop(segment.key.start)
                outputs = stage.run({segment.input_name: group.tensors})
                passed = _Group(segment.plan, group.jobs, outputs[segment.output_name])
                there = at.get(segment.plan.key)
                at[segment.plan.key] = passed if there is None else there.joined_by(passed)
                runs.append(
                    Took(
                        plan=segment.key.start,
                        until=segment.key.until,
                        jobs=len(group.jobs),
                        gmacs=segment.gmacs,
                        seconds=self._clock.now() - began_at,
                    )
                )
            began_at = self._clock.now()
            answers = self._compute(at[goal.key], times)
            runs.append(self._took(at[goal.key], began_at))
        except Exception:  # whatever it was, each plan's jobs may do without the others'
            log.exception("mixed batch failed", extra=fields(plan=goal.key))
            return False
        ran.outcomes.extend(answers)
        ran.spent.runs.extend(runs)
        return True

    def _decoded(self, jobs: Sequence[Job], ran: Ran) -> "_Group":
        """Of jobs of one plan, those whose payload is good, and their tensors."""
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
                ran.spent.decoding.append((plan.key, codec_id, each_s))
                return _Group(plan, jobs, tensors)
        good, tensors = self._decoded_one_by_one(jobs, codecs, ran)
        return _Group(plan, good, tensors)

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
                ran.spent.decoding.append((job.key, job.codec, self._clock.now() - began_at))
        return good, _stacked(tensors)

    def _each_alone(self, group: "_Group", times: "_Times") -> Iterator[Answer | Failure]:
        plan = group.plan
        for number, job in enumerate(group.jobs):
            alone = _Group(plan, [job], group.tensors[number : number + 1])
            began_at = self._clock.now()
            try:
                yield from self._compute(alone, replace(times, ready_at=began_at))
            except Exception:  # as above
                log.exception("job failed", extra=fields(plan=plan.key, session=job.session))
                yield Failure(job=job, code=ErrorCode.INTERNAL, message="the tail failed")

    def _took(self, group: "_Group", began_at: float) -> Took:
        plan, seconds = group.plan, self._clock.now() - began_at
        return Took(plan=plan.key, jobs=len(group.jobs), gmacs=plan.gmacs, seconds=seconds)

    def _compute(self, group: "_Group", times: "_Times") -> list[Answer]:
        plan = group.plan
        outputs = plan.stage.get().run({plan.input_name: group.tensors})
        computed_at = self._clock.now()
        results = list(_encoded(plan.task.finish(outputs)))
        decode_us, compute_us = _us(times.decode_s), _us(computed_at - times.ready_at)
        post_us = _us(self._clock.now() - computed_at)
        return [
            Answer(
                job=job,
                tensors=tensors,
                payloads=payloads,
                timings=Timings(
                    queue_us=_us(times.ready_at - times.decode_s - job.arrived_at),
                    decode_us=decode_us,
                    compute_us=compute_us,
                    post_us=post_us,
                ),
            )
            for job, (tensors, payloads) in zip(group.jobs, results, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Group:
    """Jobs that stand at the cut of `plan`, and their tensors there (N, ...)."""

    plan: TailPlan
    jobs: Sequence[Job]
    tensors: Array

    def joined_by(self, other: "_Group") -> "_Group":
        """With those of another one that came to the same cut."""
        tensors = np.concatenate([self.tensors, other.tensors])
        return _Group(self.plan, [*self.jobs, *other.jobs], tensors)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """When a batch began to be computed, and how long its payloads took to decode."""

    ready_at: float
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
