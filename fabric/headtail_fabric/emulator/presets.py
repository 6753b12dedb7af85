"""Links by name.

The values are ours: round figures that are typical of each kind of link as a device in daily use
meets it, between the best that a data sheet says and the worst of a bad day. They copy no single
measurement and no other tool's table; whoever has measured a link should write its conditions out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from headtail_fabric.emulator.conditions import LinkConditions


@dataclass(frozen=True, slots=True)
class Preset:
    """A link's conditions and what they stand for."""

    what: str
    conditions: LinkConditions


def _preset(
    what: str,
    *,
    up_mbit_s: float,
    down_mbit_s: float,
    rtt_ms: float,
    jitter_ms: float = 0.0,
    loss_percent: float = 0.0,
) -> Preset:
    return Preset(
        what,
        LinkConditions(
            up_bits_s=up_mbit_s * 1e6,
            down_bits_s=down_mbit_s * 1e6,
            rtt_s=rtt_ms / 1e3,
            jitter_s=jitter_ms / 1e3,
            loss=loss_percent / 100,
        ),
    )


_Table = Mapping[str, Preset]
PRESETS: Final[_Table] = MappingProxyType(
    {
        "lan": _preset("wired, one switch away", up_mbit_s=1000, down_mbit_s=1000, rtt_ms=0.4),
        "wifi-good": _preset(
            "the same room as the access point",
            up_mbit_s=50,
            down_mbit_s=50,
            rtt_ms=4,
            jitter_ms=2,
        ),
        "wifi-bad": _preset(
            "at the edge of its reach, other networks around",
            up_mbit_s=2,
            down_mbit_s=4,
            rtt_ms=30,
            jitter_ms=20,
            loss_percent=1,
        ),
        "5g": _preset("mid-band, outdoors", up_mbit_s=30, down_mbit_s=150, rtt_ms=20, jitter_ms=5),
        "lte": _preset(
            "a good cell",
            up_mbit_s=8,
            down_mbit_s=25,
            rtt_ms=45,
            jitter_ms=15,
            loss_percent=0.1,
        ),
        "lte-bad": _preset(
            "a full cell, or the edge of one",
            up_mbit_s=0.5,
            down_mbit_s=2,
            rtt_ms=100,
            jitter_ms=60,
            loss_percent=1,
        ),
        "3g": _preset(
            "HSPA on the move",
            up_mbit_s=0.7,
            down_mbit_s=1.6,
            rtt_ms=150,
            jitter_ms=50,
            loss_percent=0.5,
        ),
        "leo": _preset(
            "a satellite in low orbit",
            up_mbit_s=10,
            down_mbit_s=80,
            rtt_ms=45,
            jitter_ms=20,
            loss_percent=0.5,
        ),
        "satellite": _preset(
            "a geostationary satellite",
            up_mbit_s=3,
            down_mbit_s=20,
            rtt_ms=600,
            jitter_ms=20,
            loss_percent=0.2,
        ),
    }
)
