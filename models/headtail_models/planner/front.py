"""Which of many options are worth knowing."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from headtail_models.planner.option import Link, Option, latency_s

NOISE: Final = 0.03
"""Two measurements of the same part differ by about this share of the whole model's time."""


def pareto(options: Iterable[Option]) -> tuple[Option, ...]:
    """The options that no other one beats in device time, payload and server time at once.

    Whatever the link, the fastest one is among them. Sorted by device time.
    """
    front: list[Option] = []
    for option in sorted(options, key=_costs):
        if not any(_beats(one, option) for one in front):
            front.append(option)
    return tuple(sorted(front, key=lambda option: (option.device_s, option.payload_bytes)))


def worth_showing(options: Sequence[Option], link: Link) -> tuple[Option, ...]:
    """Those that are the fastest, or the lightest for the device, of all that send no more; local;
    and the fastest on the link. Differences within the noise don't count.

    A much shorter list than `pareto` has, where every step of a chain of layers does a little more
    on the device and a little less on the server.
    """
    noise_s = NOISE * max((one.device_s for one in options if one.kind == "local"), default=0.0)
    kept = {
        *_leaders(options, lambda one: one.device_s + one.server_s, noise_s),
        *_leaders(options, lambda one: one.device_s, noise_s),
        *(one for one in options if one.kind == "local"),
        fastest(options, link),
    }
    return tuple(sorted(kept, key=lambda option: (option.device_s, option.payload_bytes)))


def _leaders(
    options: Sequence[Option], time_s: Callable[[Option], float], slack_s: float
) -> Iterator[Option]:
    """Going from small payloads to large ones, whatever takes less time than all before."""
    least = math.inf
    for option in sorted(options, key=lambda one: (one.payload_bytes, time_s(one))):
        if time_s(option) < least - slack_s:
            least = time_s(option)
            yield option


def fastest(options: Sequence[Option], link: Link) -> Option:
    """The option with the least latency; of equals the one that sends less.

    Raises ValueError when there are none.
    """
    return min(options, key=lambda option: (latency_s(option, link), option.payload_bytes))


def fastest_by_rate(
    options: Sequence[Option], rates_bps: Sequence[float], rtt_s: float
) -> tuple[Option, ...]:
    """The fastest at each rate."""
    return tuple(fastest(options, Link(rate_bps=rate, rtt_s=rtt_s)) for rate in rates_bps)


def _costs(option: Option) -> tuple[float, float, float]:
    return option.payload_bytes, option.device_s, option.server_s


def _beats(one: Option, other: Option) -> bool:
    """`one` sends no more, by the order in which they come."""
    # A local answer needs no link at all, so nothing that needs one replaces it.
    if other.kind == "local" and one.kind != "local":
        return False
    return one.device_s <= other.device_s and one.server_s <= other.server_s
