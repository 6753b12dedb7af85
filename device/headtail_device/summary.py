"""What a run came to, as one value, and how far it is while it goes on."""

from collections.abc import Mapping
from dataclasses import dataclass

from headtail_device.hedges import NO_HEDGES, HedgeCount
from headtail_device.ledger import Outcome, Percentiles, Totals
from headtail_device.spool import NO_SPOOL, SpoolCount
from headtail_device.tally import PlacedCount, mean_drop
from headtail_fabric.errors import HeadtailError
from headtail_fabric.peer.ports import TrafficCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A run in the middle. `frame_count` is what the source expects, roughly, or None."""

    frames: int
    frame_count: int | None
    outcomes: Mapping[Outcome, int]
    in_flight: int
    edge_ready: bool
    busy_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run at its end. `frames` is the sum of `totals.outcomes`, always.

    `cut` and `codec` are what was configured, empty when no edge was; with a `goal` a controller
    chose frame by frame, see `placements`. `faults` are what went
    wrong without ending the run early: outputs that failed, a source that broke; with any of them
    the command exits with 1.
    """

    source: str
    bundle: str
    edge: str
    cut: str
    codec: str
    totals: Totals
    traffic: TrafficCount
    pushed_bytes: int
    outputs: tuple[str, ...]
    faults: tuple[HeadtailError, ...]
    wall_s: float
    """From the first frame's coming to the last outcome."""
    goal: str = ""
    late_answers: int = 0
    """Answers of the edge that were dropped, for the frame had been answered here in time."""
    spool: SpoolCount = NO_SPOOL
    placements: tuple[PlacedCount, ...] = ()
    """How a controller placed the frames; none without one."""
    hedges: HedgeCount = NO_HEDGES

    @property
    def frames(self) -> int:
        return self.totals.frames

    @property
    def frames_per_s(self) -> float:
        """Frames answered a second, by whomever; those dropped or lost are not in it."""
        return self.totals.answered / self.wall_s if self.wall_s > 0 else 0.0

    @property
    def latency_ms(self) -> Mapping[str, Percentiles]:
        """By part: `total`, `head`, `wire`, `queue`, `tail`, `wait` (`ledger.Latency`)."""
        return {
            part: Percentiles(
                p50=kept.p50 * 1000, p95=kept.p95 * 1000, p99=kept.p99 * 1000, count=kept.count
            )
            for part, kept in self.totals.latency.items()
        }

    @property
    def placed_drop(self) -> float | None:
        """The accuracy that the placements cost, over all frames; None without a controller."""
        return mean_drop(self.placements) if self.placements else None

    @property
    def macs_per_frame(self) -> float:
        """Multiply-adds computed on the device, by all frames: those of gates and heads, and of
        the whole model where it ran."""
        return self.totals.macs / self.frames if self.frames else 0.0

    @property
    def bytes_up_per_frame(self) -> float | None:
        """At the socket: all that was sent, handshakes, heartbeats and repeats included but for
        pushed bundles, by frames the edge answered. None without such frames."""
        up = self.traffic.socket_bytes_up
        return self._per_edge_frame(
            (self.traffic.message_bytes_up if up is None else up) - self.pushed_bytes
        )

    @property
    def bytes_down_per_frame(self) -> float | None:
        """At the socket, as `bytes_up_per_frame`."""
        down = self.traffic.socket_bytes_down
        return self._per_edge_frame(self.traffic.message_bytes_down if down is None else down)

    @property
    def payload_bytes_per_frame(self) -> float | None:
        """The encoded tensors alone, of the frames the edge answered."""
        return self._per_edge_frame(self.totals.payload_bytes)

    @property
    def jpeg_bytes_per_frame(self) -> float | None:
        """Those same frames as JPEG of quality 75 in their own size. None when not measured."""
        measured = self.totals.pictures_measured
        return self.totals.picture_bytes / measured if measured else None

    def _per_edge_frame(self, size_bytes: int) -> float | None:
        answered = self.totals[Outcome.EDGE]
        return size_bytes / answered if answered else None
