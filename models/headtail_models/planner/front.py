"""Which of many options are worth knowing."""

from collections.abc import Iterable, Sequence

from headtail_models.planner.option import Link, Option, latency_s


def pareto(options: Iterable[Option]) -> tuple[Option, ...]:
    """The options that no other one beats in device time, payload and server time at once.

    Whatever the link, the fastest is among them. Sorted by device time.
    """
    front: list[Option] = []
    for option in sorted(options, key=_costs):
        # Sorted, so what beats it comes earlier; of two equal ones the first stays.
        if not any(_beats(better, option) for better in front):
            front.append(option)
    return tuple(front)


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
    return option.device_s, option.payload_bytes, option.server_s


def _beats(one: Option, other: Option) -> bool:
    # A local answer needs no link at all, so nothing that needs one replaces it.
    if other.kind == "local" and one.kind != "local":
        return False
    return all(a <= b for a, b in zip(_costs(one), _costs(other), strict=True))
