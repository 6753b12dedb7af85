"""The book in which every frame ends in exactly one outcome.

open(index) -> settle(index, outcome)        frames == sum of the outcomes + open_count, always
                                             `-> SPOOLED -> conclude(outcome)

A frame in the spool is SPOOLED until it is concluded, in this run or a later one. What a run finds
in its spool it takes over as `inherited`: those frames are among its `frames`, SPOOLED to begin
with. So the sums hold in each run, and over all runs frames less those inherited are the final
outcomes and what waits in the spool now.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import ceil
from typing import Final

from headtail_fabric.errors import LocalError

KEPT_SAMPLES: Final = 65_536


class Outcome(Enum):
    """How a frame ended."""

    EDGE = "edge"
    """Answered by the edge."""
    EXIT = "exit"
    """Answered on the device by an early exit that was sure enough."""
    FILTERED = "filtered"
    """Answered on the device with nothing: its filter saw nothing of interest."""
    LOCAL = "local"
    """Answered on the device, by choice."""
    DEGRADED = "degraded"
    """Answered on the device because the edge did not answer."""
    DROPPED = "dropped"
    """Left out by policy: for a newer one, as not one of every k, or for room in the spool."""
    EXPIRED = "expired"
    """Not answered by its deadline."""
    UNREADABLE = "unreadable"
    """The source could not decode it."""
    FAILED = "failed"
    """Nothing could answer it."""
    SPOOLED = "spooled"
    """It waits on disk for the edge: its final outcome is still to come."""

    @property
    def answered(self) -> bool:
        """Whether there is an answer; that there is nothing to see is one."""
        return self in _ANSWERED

    @property
    def as_sent(self) -> bool:
        """Whether a frame for the edge was answered on its way: there, or by a gate before it."""
        return self in _AS_SENT


_ANSWERED: Final = frozenset(
    {Outcome.EDGE, Outcome.EXIT, Outcome.FILTERED, Outcome.LOCAL, Outcome.DEGRADED}
)

_AS_SENT: Final = frozenset({Outcome.EDGE, Outcome.EXIT, Outcome.FILTERED})


class LedgerError(LocalError):
    """A frame was booked twice, or settled without having been opened. Please report this bug."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Where the time of one answered frame went, in seconds.

    `head_s`: computing and encoding on the device (the whole model, when it ran there);
    `wire_s`: both ways; `queue_s`: waiting at the edge; `tail_s`: decoding and computing there;
    `total_s`: from capture to answer. What remains is waiting on the device.
    """

    head_s: float
    wire_s: float = 0.0
    queue_s: float = 0.0
    tail_s: float = 0.0
    total_s: float

    @property
    def wait_s(self) -> float:
        """Waiting on the device: for its turn, for the window, for another attempt to be sent."""
        return max(0.0, self.total_s - self.head_s - self.wire_s - self.queue_s - self.tail_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Of `count` samples, by the nearest-rank definition; zeros when there are none."""

    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The book's sums. Byte counts are of the frames that were sent and answered by the edge.
    `inherited` of the `frames` were found in the spool."""

    frames: int
    open: int
    inherited: int
    outcomes: Mapping[Outcome, int]
    latency: Mapping[str, Percentiles]
    """By part (`head`, `wire`, `queue`, `tail`, `wait`, `total`), in seconds: head, wait and total
    of all answered frames, the others of those the edge answered."""
    bytes_up: int
    bytes_down: int
    payload_bytes: int
    macs: int
    """Multiply-adds computed on the device, for all frames."""
    gates: Mapping[str, int]
    """How many frames each gate ended, by its name."""
    picture_bytes: int
    """The same frames as JPEG pictures, of as many as were measured."""
    pictures_measured: int

    def __getitem__(self, outcome: Outcome) -> int:
        return self.outcomes[outcome]

    @property
    def answered(self) -> int:
        return sum(count for outcome, count in self.outcomes.items() if outcome.answered)


class Samples:
    """Percentiles of the newest `KEPT_SAMPLES` values, exact over those."""

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=KEPT_SAMPLES)

    def add(self, value: float) -> None:
        self._values.append(value)

    def percentiles(self) -> Percentiles:
        ranked = sorted(self._values)
        if not ranked:
            return Percentiles()
        p50, p95, p99 = (ranked[ceil(share * len(ranked) / 100) - 1] for share in (50, 95, 99))
        return Percentiles(p50=p50, p95=p95, p99=p99, count=len(ranked))


_EVERYWHERE: Final = ("head", "wait", "total")
_AT_THE_EDGE: Final = ("wire", "queue", "tail")


@dataclass(slots=True)
class _Sums:
    bytes_up: int = 0
    bytes_down: int = 0
    payload_bytes: int = 0
    macs: int = 0
    picture_bytes: int = 0
    pictures_measured: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    gates: Counter[str] = field(default_factory=Counter)


class Ledger:
    """Frames are opened in the order of their indexes; the memory of settled ones is constant."""

    def __init__(self) -> None:
        self._open: dict[int, float] = {}
        self._frames = 0
        self._inherited = 0
        self._last_index = -1
        self._sums = _Sums()
        self._samples = {part: Samples() for part in (*_EVERYWHERE, *_AT_THE_EDGE)}

    def __repr__(self) -> str:
        settled = {outcome.value: n for outcome, n in self._sums.outcomes.items()}
        return f"<Ledger frames={self._frames} open={len(self._open)} {settled}>"

    @property
    def open_count(self) -> int:
        """Frames without an outcome yet."""
        return len(self._open)

    @property
    def frame_count(self) -> int:
        """Frames opened so far, without those inherited."""
        return self._frames

    def count(self, outcome: Outcome) -> int:
        """Frames that ended so."""
        return self._sums.outcomes[outcome]

    def open(self, index: int, now: float) -> None:
        """A frame is there. Raises LedgerError unless its index is higher than all before."""
        if index <= self._last_index:
            raise LedgerError(f"frame {index} opened after frame {self._last_index}", index=index)
        self._last_index = index
        self._open[index] = now
        self._frames += 1

    def settle(
        self,
        index: int,
        outcome: Outcome,
        now: float,
        *,
        latency: Latency | None = None,
        bytes_up: int = 0,
        bytes_down: int = 0,
        payload_bytes: int = 0,
        macs: int = 0,
        gate: str = "",
    ) -> float:
        """A frame ended, at `gate` if at one; returns for how long it was open. Raises LedgerError
        when it is not."""
        opened_at = self._open.pop(index, None)
        if opened_at is None:
            raise LedgerError(
                f"frame {index} can't be {outcome.value}: it is not open", index=index
            )
        self._sums.outcomes[outcome] += 1
        self._sums.bytes_up += bytes_up
        self._sums.bytes_down += bytes_down
        self._sums.payload_bytes += payload_bytes
        self._sums.macs += macs
        if gate:
            self._sums.gates[gate] += 1
        if latency is not None:
            self._sample(latency, of_edge=outcome is Outcome.EDGE)
        return now - opened_at

    def inherit(self, count: int) -> None:
        """That many frames of earlier runs wait in the spool."""
        self._inherited += count
        self._sums.outcomes[Outcome.SPOOLED] += count

    def conclude(
        self, outcome: Outcome, *, bytes_up: int = 0, bytes_down: int = 0, payload_bytes: int = 0
    ) -> None:
        """A frame that was SPOOLED has its final outcome. Its latency is no part of the
        percentiles, which are of live frames. Raises LedgerError when none is SPOOLED."""
        if not self._sums.outcomes[Outcome.SPOOLED]:
            raise LedgerError(f"no spooled frame can be {outcome.value}: there is none")
        self._sums.outcomes[Outcome.SPOOLED] -= 1
        self._sums.outcomes[outcome] += 1
        self._sums.bytes_up += bytes_up
        self._sums.bytes_down += bytes_down
        self._sums.payload_bytes += payload_bytes

    def measure_picture(self, size_bytes: int) -> None:
        """What one of the frames would have weighed as a JPEG."""
        self._sums.picture_bytes += size_bytes
        self._sums.pictures_measured += 1

    def totals(self) -> Totals:
        """The sums so far. Sorts all samples, so it's for a report, not for each frame."""
        sums = self._sums
        return Totals(
            frames=self._frames + self._inherited,
            open=len(self._open),
            inherited=self._inherited,
            outcomes={outcome: sums.outcomes[outcome] for outcome in Outcome},
            latency={part: kept.percentiles() for part, kept in self._samples.items()},
            bytes_up=sums.bytes_up,
            bytes_down=sums.bytes_down,
            payload_bytes=sums.payload_bytes,
            macs=sums.macs,
            gates=dict(sums.gates),
            picture_bytes=sums.picture_bytes,
            pictures_measured=sums.pictures_measured,
        )

    def _sample(self, latency: Latency, *, of_edge: bool) -> None:
        for part in _EVERYWHERE + (_AT_THE_EDGE if of_edge else ()):
            self._samples[part].add(getattr(latency, f"{part}_s"))
