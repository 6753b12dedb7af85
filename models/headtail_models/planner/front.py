"""Which of many options are worth knowing."""

from collections.abc import Iterable, Sequence
from typing import Final

from headtail_models.planner.option import Link, Option, latency_s

NOISE: Final = 0.03
"""Two measurements of the same part differ by about this share of the whole model's time."""


def pareto(
    options: Iterable[Option], *, device_slack_s: float = 0.0, server_slack_s: float = 0.0
) -> tuple[Option, ...]:
    """The options that no other one beats in device time, payload and server time at once.

    Without slack the fastest one is among them, whatever the link. With slack an option goes, too,
    when another one sends no more and is slower by no more than that; so what is fastest on some
    link may be missing, by at most both slacks. Sorted by device time.
    """
    front: list[Option] = []
    for option in sorted(options, key=_costs):
        if not any(_beats(one, option, device_slack_s, server_slack_s) for one in front):
            front.append(option)
    return tuple(sorted(front, key=lambda option: (option.device_s, option.payload_bytes)))


def worth_showing(options: Sequence[Option], link: Link) -> tuple[Option, ...]:
    """The front without differences that are noise, and the fastest on the link."""
    local = next((one for one in options if one.kind == "local"), None)
    offload = next((one for one in options if one.kind == "offload"), None)
    front = pareto(
        options,
        device_slack_s=NOISE * local.device_s if local else 0.0,
        server_slack_s=NOISE * offload.server_s if offload else 0.0,
    )
    kept = {*front, fastest(options, link)}
    return tuple(sorted(kept, key=lambda option: (option.device_s, option.payload_bytes)))


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


def _beats(one: Option, other: Option, device_slack_s: float, server_slack_s: float) -> bool:
    """`one` sends no more, by the order in which they come."""
    # A local answer needs no link at all, so nothing that needs one replaces it.
    if other.kind == "local" and one.kind != "local":
        return False
    return (
        one.device_s <= other.device_s + device_slack_s
        and one.server_s <= other.server_s + server_slack_s
    )
