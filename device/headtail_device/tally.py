"""How frames were placed, and how well that was foreseen."""

from collections.abc import Iterable
from dataclasses import dataclass

from headtail_device.record import FrameRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedCount:
    """Frames that were decided to go one way. `answered` of them were answered by it; over those
    the means of what was forecast and observed from decision to answer, and of the difference,
    whatever its sign. `drop`: the accuracy that the way costs, by the bundle."""

    option: str
    frames: int
    answered: int
    forecast_s: float
    observed_s: float
    error_s: float
    drop: float


@dataclass(slots=True)
class _Sums:
    frames: int = 0
    answered: int = 0
    forecast_s: float = 0.0
    observed_s: float = 0.0
    error_s: float = 0.0
    drop: float = 0.0


class PlacementTally:
    """Fed with finished frames; those without a forecast, or spooled before, are passed over."""

    def __init__(self) -> None:
        self._sums: dict[str, _Sums] = {}

    def add(self, record: FrameRecord) -> None:
        """A frame has its outcome."""
        decision = record.decision
        if decision is None or decision.forecast is None or record.late:
            return
        sums = self._sums.setdefault(decision.option, _Sums())
        sums.frames += 1
        sums.drop += decision.forecast.drop
        if record.latency is None or not _as_decided(record):
            return
        assert record.captured_at is not None, "what was decided on was captured"
        observed_s = record.captured_at + record.latency.total_s - decision.decided_at
        sums.answered += 1
        sums.forecast_s += decision.forecast.latency_s
        sums.observed_s += observed_s
        sums.error_s += abs(observed_s - decision.forecast.latency_s)

    def counts(self) -> tuple[PlacedCount, ...]:
        """The most frequent first."""
        order = sorted(self._sums.items(), key=lambda item: -item[1].frames)
        return tuple(_count(option, sums) for option, sums in order)


def mean_drop(counts: Iterable[PlacedCount]) -> float:
    """The accuracy that the choices cost, over all frames."""
    placed = list(counts)
    frames = sum(count.frames for count in placed)
    return sum(count.frames * count.drop for count in placed) / frames if frames else 0.0


def _as_decided(record: FrameRecord) -> bool:
    """Whether the way that was decided gave the answer."""
    assert record.decision is not None, "checked by the caller"
    if record.decision.needs_edge:
        return record.outcome.as_sent
    return record.outcome.answered


def _count(option: str, sums: _Sums) -> PlacedCount:
    answered = max(sums.answered, 1)
    return PlacedCount(
        option=option,
        frames=sums.frames,
        answered=sums.answered,
        forecast_s=sums.forecast_s / answered,
        observed_s=sums.observed_s / answered,
        error_s=sums.error_s / answered,
        drop=sums.drop / sums.frames,
    )
