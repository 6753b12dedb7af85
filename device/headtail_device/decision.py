"""What is decided for one frame, and what became of it."""

import enum
from dataclasses import dataclass

from headtail_device.placement import Local, Placement, way_name


class Reason(enum.Enum):
    """Why a decision came out as it did."""

    FIXED = "as configured"
    """There was nothing to choose."""
    BEST = "best"
    """It costs the goal least, or so little more that leaving what works is not worth it."""
    NO_EDGE = "no edge"
    """Something on the edge would be better, but the edge can't be had."""
    TRIED = "tried"
    """To learn how it is now."""
    ADVISED = "advised"
    """The edge refused another way and offered this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Means over frames, but `upper_s`, which 95 % of the frames that go on should keep to.

    `queue_s`: waiting at the edge. `hoped_s`, `hoped_j`: were everything that has not been looked
    at for a while as good as it can be. `feared_s`: as `upper_s`, a link not heard of for long
    being taken for an average one.
    """

    gates_s: float
    device_s: float
    transfer_s: float
    rtt_s: float
    queue_s: float
    server_s: float
    payload_bytes: float
    latency_s: float
    upper_s: float
    hoped_s: float
    feared_s: float
    sent_bytes: float
    energy_j: float
    hoped_j: float
    drop: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """For one frame; whoever decided is told by `Policy.finished` what became of it.

    A local `placement` is marked degraded when the edge is missed. `exit_point` names the operating
    point for the exits on the way; empty is what the device is configured with. `forecast` is None
    where nothing was compared; its `drop` is the accuracy that the choice costs. `usual_s`: the
    mean latency of what would be done if nothing was tried.
    """

    placement: Placement
    exit_point: str = ""
    reason: Reason = Reason.FIXED
    forecast: Forecast | None = None
    usual_s: float = 0.0
    decided_at: float

    @property
    def option(self) -> str:
        """The option's name."""
        return option_name(self.placement, self.exit_point)

    @property
    def needs_edge(self) -> bool:
        return not isinstance(self.placement, Local)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """What became of a frame. `device_s`: gates, head and encoding, or the whole model; 0 when it
    was not computed.

    `total_s` runs from the decision to the answer, or, with `answered` False, until that way was
    given up. `fault`: not for lack of time, but because something failed. The parts of the edge's
    answer are None where there was none.
    """

    device_s: float
    total_s: float
    answered: bool = True
    exited: bool = False
    fault: bool = False
    payload_bytes: int | None = None
    wire_s: float | None = None
    queue_s: float | None = None
    server_s: float | None = None


def option_name(placement: Placement, point: str) -> str:
    """`local`, `L7 q4+zstd`, `gated rans @eager`."""
    way = way_name(placement)
    return f"{way} @{point}" if point else way
