"""Every contender on every link and device, and how they compare."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from headtail.region.replay import Controlled, Fixed, Run, Setting, replay
from headtail.region.samples import Samples
from headtail_device.controller import Controller, Goal, undominated
from headtail_device.placement import LOCAL, Offload
from headtail_fabric.emulator import LinkConditions, LinkTrace

CONTROLLER: Final = "controller"
_CLEARLY: Final = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Links and devices: up and down at the same rate, and how many times as slow as this machine
    the device is."""

    rates_bits_s: tuple[float, ...]
    rtts_s: tuple[float, ...]
    slowdowns: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.rates_bits_s) * len(self.rtts_s) * len(self.slowdowns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How frames come: `frames` a run, at least `period_s` apart, wanted within `deadline_s`."""

    frames: int
    period_s: float
    deadline_s: float
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One link and device. `fixed` by way; all saw the same photos equally often."""

    rate_bits_s: float
    rtt_s: float
    slowdown: float
    fixed: Mapping[str, Run]
    controller: Run

    @property
    def best(self) -> str:
        """The fixed way with the least mean latency."""
        return min(self.fixed, key=lambda way: self.fixed[way].mean_s)

    @property
    def regret(self) -> float:
        """The controller's mean latency over that of the best fixed way, which nobody knows
        beforehand. The first frames and those that were sent to learn count."""
        return self.controller.mean_s / self.fixed[self.best].mean_s

    def regret_at(self, share: float) -> float:
        """The same of a percentile, against the way that is best in it."""
        least = min(run.percentile_s(share) for run in self.fixed.values())
        return self.controller.percentile_s(share) / least

    def beats(self, ways: Sequence[str]) -> bool:
        """Whether the controller's mean is at least 2 % less than that of each of `ways`."""
        return all(self.controller.mean_s <= _CLEARLY * self.fixed[way].mean_s for way in ways)


def contenders(samples: Samples) -> tuple[str, ...]:
    """Local, each cut in the codec with the fewest bytes and in the one that is quickest to make
    and to read, each picture codec; without those that another remote way beats in the device's
    time, the edge's time and bytes at once, and so on every link."""
    by_place: dict[str, list[str]] = {}
    for option in samples.options():
        place = option.way if isinstance(option.placement, Offload) else option.way.split(" ")[0]
        by_place.setdefault(place, []).append(option.way)
    kept: dict[str, tuple[float, ...]] = {}
    for ways in by_place.values():
        for way in (min(ways, key=samples.mean_bytes), min(ways, key=samples.mean_seconds)):
            kept[way] = samples.means(way)
    remote = [mean for way, mean in kept.items() if way != LOCAL]
    return tuple(
        way
        for way, mean in kept.items()
        if way == LOCAL or not any(_beats(other, mean) for other in remote)
    )


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(mine < theirs for mine, theirs in zip(one, other, strict=True))


def survey(
    samples: Samples, make: Callable[[float], Controller], grid: Grid, pace: Pace
) -> Iterator[Cell]:
    """Cell by cell. `make` gives a fresh controller for a device's slow-down.

    A fixed way sees every photo once: on a link that does not change, a photo takes as long each
    time.
    """
    order = photo_order(samples, pace)
    once = tuple(range(len(samples.by_way[LOCAL])))
    ways = contenders(samples)
    for slowdown in grid.slowdowns:
        for rtt_s in grid.rtts_s:
            for rate in grid.rates_bits_s:
                conditions = LinkConditions(up_bits_s=rate, down_bits_s=rate, rtt_s=rtt_s)
                setting = Setting(
                    trace=LinkTrace.constant(conditions),
                    slowdown=slowdown,
                    deadline_s=pace.deadline_s,
                    period_s=pace.period_s,
                    order=order,
                    seed=pace.seed,
                )
                yield Cell(
                    rate_bits_s=rate,
                    rtt_s=rtt_s,
                    slowdown=slowdown,
                    fixed={
                        way: replay(Fixed(way), samples.by_way, replace(setting, order=once))
                        for way in ways
                    },
                    controller=run_controller(make(slowdown), samples, setting),
                )


def run_controller(controller: Controller, samples: Samples, setting: Setting) -> Run:
    """A controller's run, with what it did."""
    run = replay(Controlled(controller), samples.by_way, setting)
    return replace(run, changes=controller.changes, tries=controller.tries)


def controllers(samples: Samples, goal: Goal) -> Callable[[float], Controller]:
    """Controllers that know what the device measures of itself, and nothing of link and edge."""

    def make(slowdown: float) -> Controller:
        return Controller(undominated(samples.options(slowdown)), goal=goal)

    return make


def photo_order(samples: Samples, pace: Pace) -> tuple[int, ...]:
    """At least `pace.frames` photos in random order, each equally often."""
    count = len(samples.by_way[LOCAL])
    draw = random.Random(pace.seed)  # noqa: S311 (a simulation)
    order: list[int] = []
    while len(order) < pace.frames:
        order.extend(draw.sample(range(count), count))
    return tuple(order)


def at_any_time_s(run: Run, period_s: float) -> float:
    """Mean latency over time rather than over frames: who is slow handles fewer frames, and fewest
    where it is slowest."""
    lasting = np.maximum(run.latencies_s, period_s)
    return float((run.latencies_s * lasting).sum() / lasting.sum())


def in_time_hz(run: Run) -> float:
    """Frames answered within their deadline, a second."""
    lasted_s = run.begun_s[-1] + run.latencies_s[-1]
    return float((run.latencies_s <= run.deadline_s).sum() / lasted_s)
