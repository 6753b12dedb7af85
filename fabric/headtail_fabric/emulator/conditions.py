"""What a link is like at one time, as a value."""

import enum
from dataclasses import dataclass
from typing import Final

from headtail_fabric.emulator.quantity import RATE, SHARE, SIZE, TIME
from headtail_fabric.errors import ConfigError

PACKET_BYTES: Final = 1448
"""What a TCP segment carries on Ethernet: 1500, less 20 for IP, 20 for TCP, 12 for time stamps."""

_MIN_RATE_BITS_S: Final = 100.0
_MAX_RATE_BITS_S: Final = 100e9
_MAX_TIME_S: Final = 60.0
_MAX_LOSS: Final = 0.5
_MAX_BURST_BYTES: Final = 64 * 1024 * 1024
_SOONEST_PROBE_S: Final = 0.01
_LEAST_TIMEOUT_S: Final = 0.2


class LinkConditionsError(ConfigError):
    """A property of the emulated link is out of its range. Correct the value that the message
    names."""


class Direction(enum.Enum):
    """Which way bytes go: UP from the side that connects, DOWN to it."""

    UP = "up"
    DOWN = "down"

    @property
    def back(self) -> "Direction":
        return Direction.DOWN if self is Direction.UP else Direction.UP


class Outage(enum.Enum):
    """What becomes of open connections while the link is down; new ones are refused either way."""

    STALL = "stall"
    """They stand still and go on afterwards, as over a radio that comes back in time."""
    CUT = "cut"
    """They are reset, as by a router that restarts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConditions:
    """Rate, delay, jitter and loss of a link; its own values are those of no link at all.

    Rates count the bytes of the TCP stream, not headers. Raises LinkConditionsError.
    """

    up_bits_s: float | None = None
    """100 bit/s to 100 Gbit/s; None: without limit."""
    down_bits_s: float | None = None
    rtt_s: float = 0.0
    """Propagation alone, there and back, half each way: up to a minute."""
    jitter_s: float = 0.0
    """A round trip takes `rtt_s` give or take this, uniformly each way; at most `rtt_s`."""
    loss: float = 0.0
    """Share of packets lost, 0 to 0.5."""
    burst_bytes: int = PACKET_BYTES
    """Depth of the token bucket: what passes at once after a rest. Up to 64 MiB."""
    outage: Outage | None = None
    """Set while the link is down; nothing else matters then."""

    def __post_init__(self) -> None:
        for name in ("up_bits_s", "down_bits_s"):
            rate_bits_s: float | None = getattr(self, name)
            if rate_bits_s is not None:
                _check(name, rate_bits_s, _MIN_RATE_BITS_S, _MAX_RATE_BITS_S)
        _check("rtt_s", self.rtt_s, 0.0, _MAX_TIME_S)
        _check("jitter_s", self.jitter_s, 0.0, self.rtt_s)
        _check("loss", self.loss, 0.0, _MAX_LOSS)
        _check("burst_bytes", self.burst_bytes, 0, _MAX_BURST_BYTES)

    def rate_bytes_s(self, direction: Direction) -> float:
        """0.0 in an outage, infinity without a limit."""
        if self.outage is not None:
            return 0.0
        bits_s = self.up_bits_s if direction is Direction.UP else self.down_bits_s
        return float("inf") if bits_s is None else bits_s / 8

    def delay_s(self, chance: float) -> float:
        """Propagation one way, for a `chance` drawn uniformly from [0, 1)."""
        return (self.rtt_s + (2 * chance - 1) * self.jitter_s) / 2

    def stall_s(self, losses: int) -> float:
        """How much later a packet arrives that was lost `losses` times in a row.

        As TCP on Linux recovers: the first time by a probe after two round trips (RFC 8985, 7.2;
        at least 10 ms), then by a time-out of a round trip and 200 ms, doubled each time
        (RFC 6298, 5.5; the floor is Linux's).
        """
        if losses == 0:
            return 0.0
        probe_s = max(2 * self.rtt_s, _SOONEST_PROBE_S)
        timeout_s = self.rtt_s + self.jitter_s + _LEAST_TIMEOUT_S
        return float(probe_s + timeout_s * (2 ** (losses - 1) - 1))

    def __str__(self) -> str:
        """As `parse_link` reads it."""
        if self.outage is not None:
            return f"outage/{self.outage.value}"
        up, down = (
            "unlimited" if rate is None else RATE.text(rate)
            for rate in (self.up_bits_s, self.down_bits_s)
        )
        words = [f"rate={up}"] if up == down else [f"up={up}", f"down={down}"]
        words += [f"rtt={TIME.text(self.rtt_s)}"]
        words += [f"jitter={TIME.text(self.jitter_s)}"] if self.jitter_s else []
        words += [f"loss={SHARE.text(self.loss)}"] if self.loss else []
        words += [f"burst={SIZE.text(self.burst_bytes)}"] * (self.burst_bytes != PACKET_BYTES)
        return " ".join(words)


def _check(name: str, value: float, low: float, high: float) -> None:
    # Written so that NaN fails, too.
    if not low <= value <= high:
        raise LinkConditionsError(
            f"{name} is {value:g}, which is not in {low:g} to {high:g}", name=name, value=value
        )
