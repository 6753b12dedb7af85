"""What every way really cost on this machine, photo by photo."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean, median, pstdev
from typing import Final

import numpy as np

from headtail_device.controller import Option, StageCosts, WayCost, menu, ways
from headtail_device.controller.menu import drop_of
from headtail_device.head import HeadRunner
from headtail_device.placement import LOCAL, Offload, Remote, way_name
from headtail_fabric.codec.base import Array
from headtail_fabric.wire import Buffer
from headtail_models.bundle import Bundle
from headtail_models.bundle.codecs import PictureCodecs
from headtail_models.bundle.cut_rules import OFF
from headtail_models.bundle.manifest import Manifest
from headtail_models.head_chain import GateSettings
from headtail_models.task import Picture, Task, task_for

_WARM_UP: Final = 2
REPEATS: Final = 3
"""Runs of each way on each photo, the least of which counts: a machine that does other work as well
makes a run take longer, never shorter."""

GATES: Final = GateSettings(exit_point=OFF, filter=False)
"""Every frame is to cross: what is compared is where it is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One photo by one way: processor seconds on this machine, bytes of payload and answer."""

    device_s: float
    server_s: float = 0.0
    payload_bytes: int = 0
    answer_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """`by_way`: a sample of each photo, in the same order for all ways. `offloads`: the drop of
    each picture codec."""

    manifest: Manifest
    offloads: Mapping[Offload, float]
    by_way: Mapping[str, tuple[Sample, ...]]

    @property
    def costs(self) -> StageCosts:
        """What a device as fast as this machine finds when it measures itself."""
        return StageCosts(ways={way: _cost(samples) for way, samples in self.by_way.items()})

    def options(self, slowdown: float = 1.0) -> tuple[Option, ...]:
        """What there is to choose from on a device that takes `slowdown` times as long."""
        remotes = ways(self.manifest, self.offloads)
        costs = self.costs.slowed(slowdown)
        return menu(self.manifest, costs, remotes, self.offloads, gates=GATES)

    def mean_bytes(self, way: str) -> float:
        """Of the payload."""
        return self.means(way)[2]

    def mean_seconds(self, way: str) -> float:
        """Of device and edge together."""
        return sum(self.means(way)[:2])

    def means(self, way: str) -> tuple[float, float, float]:
        """Device and edge seconds, payload bytes."""
        taken = self.by_way[way]
        return (
            fmean(sample.device_s for sample in taken),
            fmean(sample.server_s for sample in taken),
            fmean(sample.payload_bytes for sample in taken),
        )


class ProcessorClock:
    """The processor time of the calling thread: what other jobs take is left out."""

    def now(self) -> float:
        return time.thread_time()


def take_samples(
    bundle: Bundle,
    pictures: Sequence[Picture],
    offloads: Mapping[Offload, float],
    *,
    max_drop: float,
    edge_speedup: float = 1.0,
    on_way: Callable[[str], None],
) -> Samples:
    """Run local, every cut in every codec and every picture codec that loses at most `max_drop`,
    each on every picture, with one thread. `offloads` gives the drop of each picture codec. The
    edge's times are divided by `edge_speedup`."""
    clock = ProcessorClock()
    head = HeadRunner(bundle, threads=1, clock=clock, gates=GATES)
    edge = _Edge(bundle, clock)
    by_way = {LOCAL: _local(head, pictures, clock)}
    on_way(LOCAL)
    for remote in ways(bundle.manifest, offloads):
        if drop_of(bundle.manifest, remote, offloads) > max_drop:
            continue
        way = way_name(remote)
        by_way[way] = _remote(head, edge, pictures, remote, edge_speedup)
        on_way(way)
    return Samples(manifest=bundle.manifest, offloads=offloads, by_way=by_way)


class _Edge:
    """What an edge does with a payload: decode, compute, find the boxes."""

    def __init__(self, bundle: Bundle, clock: ProcessorClock) -> None:
        self._bundle = bundle
        self._clock = clock
        self._task: Task = task_for(bundle.manifest)

    def server(self, remote: Remote) -> Callable[[Buffer, tuple[int, ...]], tuple[float, int]]:
        """From a payload and its tensor's shape to seconds and the answer's bytes."""
        if isinstance(remote, Offload):
            decoder = PictureCodecs().new(remote.codec)
            entry = self._bundle.full()
        else:
            decoder = self._bundle.codecs(remote.cut).new(remote.codec)
            entry = self._bundle.cut(remote.cut).tail
        stage = self._bundle.open_stage(entry, threads=1)

        def serve(payload: Buffer, shape: tuple[int, ...]) -> tuple[float, int]:
            began_at = self._clock.now()
            tensor: Array = decoder.decode(payload, shape)
            if isinstance(remote, Offload):
                tensor, _ = self._task.prepare(tensor[0].astype(np.uint8, copy=False))
            found = self._task.finish(stage.run({entry.inputs[0].name: tensor}))[0]
            spent_s = self._clock.now() - began_at
            return spent_s, sum(one.nbytes for one in found.values())

        return serve


def _local(
    head: HeadRunner, pictures: Sequence[Picture], clock: ProcessorClock
) -> tuple[Sample, ...]:
    for picture in pictures[:_WARM_UP]:
        head.whole(picture)
    samples = []
    for picture in pictures:
        least_s = inf
        for _ in range(REPEATS):
            began_at = clock.now()
            head.whole(picture)
            least_s = min(least_s, clock.now() - began_at)
        samples.append(Sample(device_s=least_s))
    return tuple(samples)


def _remote(
    head: HeadRunner,
    edge: _Edge,
    pictures: Sequence[Picture],
    remote: Remote,
    edge_speedup: float,
) -> tuple[Sample, ...]:
    serve = edge.server(remote)

    def sample(picture: Picture) -> Sample:
        encoded = head.encode(picture, remote)
        server_s, answer_bytes = serve(encoded.payloads[0], encoded.tensors[0].shape)
        return Sample(
            device_s=encoded.head_s,
            server_s=server_s / edge_speedup,
            payload_bytes=encoded.payload_bytes,
            answer_bytes=answer_bytes,
        )

    for picture in pictures[:_WARM_UP]:
        sample(picture)
    return tuple(_least([sample(picture) for _ in range(REPEATS)]) for picture in pictures)


def _least(runs: Sequence[Sample]) -> Sample:
    """Of the same photo by the same way."""
    return replace(
        runs[0],
        device_s=min(run.device_s for run in runs),
        server_s=min(run.server_s for run in runs),
    )


def _cost(samples: Sequence[Sample]) -> WayCost:
    sizes = [sample.payload_bytes for sample in samples]
    return WayCost(
        compute_s=median(sample.device_s for sample in samples),
        payload_bytes=fmean(sizes),
        payload_deviation_bytes=pstdev(sizes),
    )
