"""Measure a model's cuts on this machine."""

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnxruntime

from headtail_models.planner.costs import Crossing, CutCost, Machine, ModelCosts, PayloadCost
from headtail_models.planner.payloads import (
    measured_payloads,
    picture_payloads,
    static_payloads,
)
from headtail_models.planner.timing import REPEATS, median_s
from headtail_models.splitting.cuts import Cut
from headtail_models.splitting.inputs import random_inputs
from headtail_models.splitting.macs import MacCounter
from headtail_models.splitting.model import FULL, HEAD, TAIL, OnnxModel
from headtail_models.splitting.samples import Sample, picture_input

MAX_MEASURED: Final = 16
MAX_SENT_BYTES: Final = 2**28
"""What crosses one cut on all samples is kept in memory; fewer samples count beyond that."""
JPEG_QUALITY: Final = 90

Progress = Callable[[int, int], None]
"""Told how many of how many cuts have been measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveySettings:
    """How thoroughly to measure. Beyond `max_measured` cuts the times are interpolated."""

    max_measured: int = MAX_MEASURED
    repeats: int = REPEATS
    jpeg_quality: int = JPEG_QUALITY


def survey(
    model: OnnxModel,
    cuts: Sequence[Cut],
    *,
    name: str,
    samples: Sequence[Sample] = (),
    settings: SurveySettings | None = None,
    progress: Progress | None = None,
) -> ModelCosts:
    """What the whole model and each of the `cuts` cost here, one thread.

    Without `samples` sizes follow from the shapes, and the picture would go as plain bytes. Raises
    RefusedModelError.
    """
    return _Survey(
        model=model,
        cuts=tuple(cuts),
        samples=tuple(samples),
        settings=settings or SurveySettings(),
        counter=model.macs,
    ).costs(name, progress or (lambda _done, _total: None))


def worth_measuring(cuts: Sequence[Cut], macs: Sequence[int], limit: int) -> frozenset[int]:
    """Which of the cuts, by their place: first those that none beats in multiply-adds and bytes,
    then those where the fewest tensors cross, the smallest first.

    Of several that cost the same the last goes first: behind an activation zeros are many.
    """
    order = sorted(range(len(cuts)), key=lambda at: (macs[at], cuts[at].size_bytes, -at))
    front: list[int] = []
    rest: list[tuple[bool, int, int, int]] = []
    seen: set[tuple[int, int]] = set()
    for at in order:
        size = cuts[at].size_bytes
        if not front or size < cuts[front[-1]].size_bytes:
            front.append(at)
        else:
            rest.append(((macs[at], size) in seen, len(cuts[at].sent), size, at))
        seen.add((macs[at], size))
    return frozenset([*front, *(at for *_, at in sorted(rest))][:limit])


@dataclass(frozen=True, kw_only=True)
class _Survey:
    model: OnnxModel
    cuts: tuple[Cut, ...]
    samples: tuple[Sample, ...]
    settings: SurveySettings
    counter: MacCounter

    def costs(self, name: str, progress: Progress) -> ModelCosts:
        inputs = self.samples[0].inputs if self.samples else random_inputs(self.model.specs)
        by_node = self.counter.by_node
        full_macs = sum(by_node.values())
        macs = [sum(by_node[label] for label in cut.head) for cut in self.cuts]
        chosen = worth_measuring(self.cuts, macs, self.settings.max_measured)
        whole = self.model.load(self.model.proto, FULL)
        before = self._time(lambda: whole.run(inputs))
        measured = {}
        for done, at in enumerate(sorted(chosen)):
            progress(done, len(chosen))
            measured[at] = self._measure(self.cuts[at], macs[at], inputs)
        progress(len(chosen), len(chosen))
        # Before and after, so that a machine that grew slower meanwhile is half told.
        full_s = (before + self._time(lambda: whole.run(inputs))) / 2
        known = sorted((cut.head_macs, cut.head_s, cut.tail_s) for cut in measured.values())
        return ModelCosts(
            model=name,
            sha256=self.model.sha256,
            machine=_machine(),
            samples=len(self.samples),
            full_macs=full_macs,
            full_s=full_s,
            cuts=tuple(
                measured[at]
                if at in measured
                else self._interpolated(
                    cut, macs[at], [(0, 0.0, full_s), *known, (full_macs, full_s, 0.0)]
                )
                for at, cut in enumerate(self.cuts)
            ),
            offload=self._offload(),
            uncounted=self.counter.uncounted,
        )

    def _measure(self, cut: Cut, macs: int, inputs: dict[str, np.ndarray]) -> CutCost:
        split = self.model.split(cut)
        head = self.model.load(split.head, HEAD)
        tail = self.model.load(split.tail, TAIL)
        sent = [tensor.name for tensor in cut.sent]

        def crossing(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            found = {**given, **head.run(given)}
            return {name: found[name] for name in sent}

        arrived = crossing(inputs)
        head_s = self._time(lambda: head.run(inputs))
        tail_s = self._time(lambda: tail.run(arrived))
        kept = self.samples[: max(1, MAX_SENT_BYTES // max(1, cut.size_bytes))]
        frames = [crossing(sample.inputs) for sample in kept] or [arrived]
        return CutCost(
            name=cut.name,
            tensors=_crossings(cut),
            head_macs=macs,
            head_s=head_s,
            tail_s=tail_s,
            measured=True,
            payloads=measured_payloads(cut.sent, frames, real=bool(kept)),
        )

    def _interpolated(
        self, cut: Cut, macs: int, known: Sequence[tuple[int, float, float]]
    ) -> CutCost:
        at, heads, tails = zip(*known, strict=True)
        return CutCost(
            name=cut.name,
            tensors=_crossings(cut),
            head_macs=macs,
            head_s=float(np.interp(macs, at, heads)),
            tail_s=float(np.interp(macs, at, tails)),
            measured=False,
            payloads=static_payloads(cut.sent),
        )

    def _offload(self) -> tuple[PayloadCost, ...]:
        pictures = [one.picture for one in self.samples if one.picture is not None]
        found = list(picture_payloads(pictures, self.settings.jpeg_quality))
        spec = picture_input(self.model.specs)
        if spec is not None:
            # A float picture came of 8-bit pixels; nobody would send the floats.
            pixels = int(np.prod(spec.shape))
            found.append(PayloadCost(codec="uint8", mean_bytes=pixels))
        else:
            tensors = self.model.census.tensors
            raw = sum(tensors[one.name].size_bytes for one in self.model.specs)
            found.append(PayloadCost(codec="raw", mean_bytes=raw))
        return tuple(found)

    def _time(self, work: Callable[[], object]) -> float:
        return median_s(work, repeats=self.settings.repeats)


def _crossings(cut: Cut) -> tuple[Crossing, ...]:
    return tuple(Crossing(name=one.name, dtype=one.dtype, shape=one.shape) for one in cut.sent)


def _machine() -> Machine:
    return Machine(
        processor=platform.processor() or platform.machine(),
        cores=os.cpu_count() or 1,
        load=round(os.getloadavg()[0], 2),
        onnxruntime=onnxruntime.__version__,
    )
