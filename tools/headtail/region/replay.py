"""Frames through one contender in simulated time.

The device computes one frame at a time and takes the newest picture when it is free, at most one a
period: no frame waits for another. The edge serves it at once. A late answer counts as it comes;
nobody falls back, since what is compared is the choice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headtail.region.link import SimulatedLink
from headtail.region.samples import Sample
from headtail_device.controller import Controller
from headtail_device.decision import Decision, Experience
from headtail_device.placement import LOCAL, Observation, way_name
from headtail_fabric.emulator import LinkTrace
from headtail_fabric.link import LinkEstimate
from headtail_fabric.wire import Hints


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`order`: the photo of each frame. `period_s`: frames begin at least so far apart. `until_s`
    ends the run after that time instead of at the end of `order`, which then goes round."""

    trace: LinkTrace
    slowdown: float
    deadline_s: float
    period_s: float
    order: tuple[int, ...]
    seed: int = 1
    until_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one contender came to; arrays over frames."""

    latencies_s: NDArray[np.float64]
    bytes_up: NDArray[np.float64]
    begun_s: NDArray[np.float64]
    ways: tuple[str, ...]
    deadline_s: float
    changes: int = 0
    tries: int = 0

    @property
    def mean_s(self) -> float:
        return float(self.latencies_s.mean())

    def percentile_s(self, share: float) -> float:
        return float(np.percentile(self.latencies_s, share))

    @property
    def missed(self) -> float:
        """Share of the frames that came after their deadline."""
        return float((self.latencies_s > self.deadline_s).mean())

    @property
    def mean_bytes(self) -> float:
        return float(self.bytes_up.mean())

    @property
    def usual_way(self) -> str:
        """The way that most frames went."""
        return max(sorted(set(self.ways)), key=self.ways.count)


class Contender(Protocol):
    """Decides on the way of each frame."""

    def way(self, link: LinkEstimate, now: float, deadline_s: float) -> str: ...

    def ended(self, was: Experience, now: float) -> None: ...


class Fixed:
    """Always the same."""

    def __init__(self, way: str) -> None:
        self._way = way

    def way(self, link: LinkEstimate, now: float, deadline_s: float) -> str:
        return self._way

    def ended(self, was: Experience, now: float) -> None:
        pass


class Controlled:
    """A controller, shown what a runner would show it."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._decision: Decision | None = None

    def way(self, link: LinkEstimate, now: float, deadline_s: float) -> str:
        seen = Observation(
            now=now,
            edge_ready=True,
            free_window=1,
            in_flight=0,
            retry_in_s=0.0,
            remaining_s=deadline_s,
            hints=Hints(),
            link=link,
        )
        self._decision = self._controller.place(seen)
        return way_name(self._decision.placement)

    def ended(self, was: Experience, now: float) -> None:
        assert self._decision is not None, "a frame ends after its decision"
        self._controller.finished(self._decision, was, now)


def replay(contender: Contender, samples: Mapping[str, Sequence[Sample]], setting: Setting) -> Run:
    """All frames, one after the other."""
    link = SimulatedLink(setting.trace, seed=setting.seed)
    latencies: list[float] = []
    bytes_up: list[int] = []
    begun: list[float] = []
    chosen: list[str] = []
    now, frame = 0.0, 0
    while now < setting.until_s if setting.until_s is not None else frame < len(setting.order):
        way = contender.way(link.estimate(now), now, setting.deadline_s)
        sample = samples[way][setting.order[frame % len(setting.order)]]
        ended_at, sent_bytes, was = _frame(link, way, sample, setting.slowdown, now)
        contender.ended(was, ended_at)
        latencies.append(ended_at - now)
        bytes_up.append(sent_bytes)
        begun.append(now)
        chosen.append(way)
        now, frame = max(now + setting.period_s, ended_at), frame + 1
    return Run(
        latencies_s=np.array(latencies),
        bytes_up=np.array(bytes_up, dtype=np.float64),
        begun_s=np.array(begun),
        ways=tuple(chosen),
        deadline_s=setting.deadline_s,
    )


def _frame(
    link: SimulatedLink, way: str, sample: Sample, slowdown: float, now: float
) -> tuple[float, int, Experience]:
    """When a frame's answer is there, the bytes sent, and what is told of it."""
    device_s = sample.device_s * slowdown
    if way == LOCAL:
        return now + device_s, 0, Experience(device_s=device_s, total_s=device_s)
    exchange = link.request(
        sample.payload_bytes, sample.answer_bytes, server_s=sample.server_s, now=now + device_s
    )
    was = Experience(
        device_s=device_s,
        total_s=exchange.received_at - now,
        payload_bytes=sample.payload_bytes,
        wire_s=exchange.wire_s,
        server_s=sample.server_s,
    )
    return exchange.received_at, exchange.bytes_up, was
