"""Finished frames are booked and leave in the order in which the frames came."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headtail_device.ledger import Ledger
from headtail_device.record import FrameRecord
from headtail_fabric.clock import Clock
from headtail_models.task import Picture


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Finished:
    """A record and the picture it is about; None when there was none to read."""

    record: FrameRecord
    picture: Picture | None


class InOrder:
    """A reorder buffer. It holds at most what is in flight: every frame ends by its deadline or
    is computed on the device, so nothing waits longer than that for its predecessors."""

    def __init__(self) -> None:
        self._expected: deque[int] = deque()
        self._finished: dict[int, Finished] = {}

    def __repr__(self) -> str:
        return f"<InOrder expected={list(self._expected)} waiting={sorted(self._finished)}>"

    def expect(self, index: int) -> None:
        """A frame came."""
        self._expected.append(index)

    def finish(self, finished: Finished) -> Iterator[Finished]:
        """A frame has its outcome; yields those that may leave now, in order."""
        self._finished[finished.record.index] = finished
        while self._expected and self._expected[0] in self._finished:
            yield self._finished.pop(self._expected.popleft())


class Checkout:
    """The one way out: what is booked in the ledger is what `deliver` is given, once each. A frame
    that went to the spool is given twice: SPOOLED in its place, and late its final outcome."""

    def __init__(
        self, *, ledger: Ledger, deliver: Callable[[Finished], None], clock: Clock
    ) -> None:
        self._ledger = ledger
        self._deliver = deliver
        self._clock = clock
        self._order = InOrder()
        self._began_at: float | None = None
        self._ended_at = 0.0

    @property
    def busy_s(self) -> float:
        """From the first frame's coming to the last outcome."""
        return 0.0 if self._began_at is None else self._ended_at - self._began_at

    def accept(self, index: int) -> None:
        """A frame came; from now on it must leave."""
        now = self._clock.now()
        self._ledger.open(index, now)
        self._began_at = now if self._began_at is None else self._began_at
        self._ended_at = now
        self._order.expect(index)

    def leave(self, record: FrameRecord, picture: Picture | None) -> None:
        """A frame has its outcome. Raises LedgerError when it has one already."""
        self._ended_at = self._clock.now()
        self._ledger.settle(
            record.index,
            record.outcome,
            self._ended_at,
            latency=record.latency,
            bytes_up=record.bytes_up,
            bytes_down=record.bytes_down,
            payload_bytes=record.payload_bytes,
            macs=record.macs,
            gate=record.gate,
        )
        for ready in self._order.finish(Finished(record=record, picture=picture)):
            self._deliver(ready)

    def inherit(self, count: int) -> None:
        """That many frames of earlier runs wait in the spool."""
        self._ledger.inherit(count)

    def conclude(self, record: FrameRecord) -> None:
        """A frame that was SPOOLED has its final outcome. Raises LedgerError when none is."""
        self._ledger.conclude(
            record.outcome,
            bytes_up=record.bytes_up,
            bytes_down=record.bytes_down,
            payload_bytes=record.payload_bytes,
        )
        self._deliver(Finished(record=record, picture=None))
