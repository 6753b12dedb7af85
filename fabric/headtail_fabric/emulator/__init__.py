"""A link of chosen rate, delay, jitter, loss and outages, between two programs on one machine.

    trace = parse_link("wifi-bad outage=5s/60s")
    with LinkProxy(trace, target="tcp://127.0.0.1:5557") as link:
        ...  # connect to link.endpoint

`shaper` holds the rules and knows no socket; `proxy` moves the bytes.
"""

from headtail_fabric.emulator.conditions import (
    Direction,
    LinkConditions,
    LinkConditionsError,
    Outage,
)
from headtail_fabric.emulator.parser import LinkTextError, parse_link
from headtail_fabric.emulator.presets import PRESETS
from headtail_fabric.emulator.proxy import LinkProxy, LinkTally
from headtail_fabric.emulator.shaper import Shaper
from headtail_fabric.emulator.trace import LinkTrace, TraceStep

__all__ = [
    "PRESETS",
    "Direction",
    "LinkConditions",
    "LinkConditionsError",
    "LinkProxy",
    "LinkTally",
    "LinkTextError",
    "LinkTrace",
    "Outage",
    "Shaper",
    "TraceStep",
    "parse_link",
]
