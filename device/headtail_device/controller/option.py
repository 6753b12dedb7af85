"""One way to compute a frame."""

from dataclasses import dataclass

from headtail_device.decision import option_name
from headtail_device.placement import Local, Placement, way_name


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
        return option_name(self.placement, self.point)

    @property
    def needs_edge(self) -> bool:
        """False as well where every frame leaves at an exit: the answer is always given here."""
        return not isinstance(self.placement, Local) and self.coverage < 1
