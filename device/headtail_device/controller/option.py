"""One way to compute a frame."""

from dataclasses import dataclass
from typing import assert_never

from headtail_device.placement import Local, Offload, Placement, Split

LOCAL = "local"


def way_name(placement: Placement) -> str:
    """`local`, `L7 q4+zstd`, `input jpeg 75`: what costs are kept under."""
    match placement:
        case Local():
            return LOCAL
        case Split():
            return f"{placement.cut} {placement.codec}"
        case Offload():
            return f"{placement.cut} {placement.codec} {placement.quality}"
        case _:
            assert_never(placement)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A placement, with an operating point of the exits on the way, and what that cost when it was
    measured; `Forecaster` corrects it.

    Every frame takes `gates_s` and `gates_macs`; a share of 1 - `coverage` goes on and takes
    `device_s` and `device_macs` (head and encoding), then `server_s` on the edge. `drop` is the
    accuracy that the whole model has more, over all frames.
    """

    placement: Placement
    point: str = ""
    """Name of the exits' operating point; empty when there are no exits."""
    coverage: float = 0.0
    drop: float = 0.0
    gates_s: float = 0.0
    device_s: float
    server_s: float = 0.0
    payload_bytes: float = 0.0
    payload_deviation_bytes: float = 0.0
    gates_macs: int = 0
    device_macs: int = 0

    @property
    def way(self) -> str:
        return way_name(self.placement)

    @property
    def name(self) -> str:
        return f"{self.way} @{self.point}" if self.point else self.way

    @property
    def needs_edge(self) -> bool:
        """False as well where every frame leaves at an exit: the answer is always given here."""
        return not isinstance(self.placement, Local) and self.coverage < 1
