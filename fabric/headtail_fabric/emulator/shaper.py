"""One direction of an emulated link, without sockets, threads or clocks.

    bytes of all connections -> one queue -> token bucket -> propagation, jitter, loss -> in order,
                                (bounded)   (shared rate)    (of each piece)             each

Bytes go in with the time at which they come, and are given out at the time at which they would
have arrived. All connections share the rate, first come first served. What TCP promises holds:
nothing is lost, changed or reordered within a connection. So a lost packet shows as the stall until
its repetition has come, for all bytes behind it on its connection and for no other's. The
repetition itself takes no rate, and a sender is not slowed down as congestion control would.
"""

import enum
import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from headtail_fabric.emulator.conditions import PACKET_BYTES, Direction, LinkConditions
from headtail_fabric.emulator.token_bucket import TokenBucket
from headtail_fabric.emulator.trace import LinkTrace

QUEUE_S: Final = 0.02
"""How much the queue holds, as the time that it takes to serve it."""

_TURN_S: Final = 0.01
_PIECE_S: Final = 0.002
_MAX_TURN_BYTES: Final = 64 * 1024
_MAX_LOSSES: Final = 6


class Signal(enum.Enum):
    """What passes between the ends of a connection besides bytes, and as slowly."""

    OPEN = "open"
    END = "end"
    RESET = "reset"


Content = memoryview | Signal


@dataclass(frozen=True, slots=True)
class Arrival:
    """What came through, and on which connection."""

    flow: int
    content: Content


class Shaper:
    """See the module. `draw` gives uniform numbers from [0, 1); times never go back."""

    def __init__(
        self, trace: LinkTrace, direction: Direction, *, draw: Callable[[], float], now: float
    ) -> None:
        self._trace = trace
        self._direction = direction
        self._draw = draw
        self._begun_at = now
        self._bucket = TokenBucket(trace, direction)
        self._on_the_way: list[tuple[float, int, int, Content]] = []
        self._sequence = itertools.count()
        self._latest_at: dict[int, float] = {}
        self.stalls = 0
        """Pieces that were lost and came later."""

    def __repr__(self) -> str:
        return f"Shaper({self._direction.value}, on_the_way={len(self._on_the_way)})"

    @property
    def room_at(self) -> float:
        """When the queue takes more bytes; some earlier time if it does so now."""
        return self._begun_at + self._bucket.free_at_s - QUEUE_S

    @property
    def next_arrival_at(self) -> float:
        """When `arrived` has something to give; infinity if nothing is on the way."""
        return self._on_the_way[0][0] if self._on_the_way else float("inf")

    def turn_bytes(self, now: float) -> int:
        """How much to take from one connection before it is another's turn: 10 ms of the rate, at
        least a packet and at most 64 KiB."""
        return self._of_the_rate(_TURN_S, now)

    def send(self, flow: int, content: bytes | Signal, now: float) -> None:
        """These bytes enter, at once even if there is no room: the caller keeps to `room_at`."""
        if isinstance(content, Signal):
            self._send_piece(flow, content, 0, now)
            return
        view, piece_bytes = memoryview(content), self._of_the_rate(_PIECE_S, now)
        for start in range(0, len(view), piece_bytes):
            piece = view[start : start + piece_bytes]
            self._send_piece(flow, piece, len(piece), now)

    def arrived(self, now: float) -> Iterator[Arrival]:
        """What has come through by now, in order of its arrival."""
        while self._on_the_way and self._on_the_way[0][0] <= now:
            _, _, flow, content = heapq.heappop(self._on_the_way)
            yield Arrival(flow, content)

    def forget(self, flow: int) -> None:
        """A connection has ended; what still arrives of it must be ignored."""
        self._latest_at.pop(flow, None)

    def clear(self, now: float) -> None:
        """Everything on the way is gone, with all connections."""
        self._on_the_way.clear()
        self._latest_at.clear()
        self._bucket.forgive(now - self._begun_at)

    def _send_piece(self, flow: int, content: Content, size_bytes: int, now: float) -> None:
        served_at_s = self._bucket.take(size_bytes, now - self._begun_at)
        arrives_at = float("inf")
        if served_at_s < arrives_at:
            conditions = self._trace.at(served_at_s).conditions
            losses = self._losses(conditions, size_bytes)
            self.stalls += losses > 0
            delay_s = (
                conditions.delay_s(self._draw()) if conditions.jitter_s else conditions.delay_s(0.5)
            )
            arrives_at = self._begun_at + served_at_s + delay_s + conditions.stall_s(losses)
        arrives_at = max(arrives_at, self._latest_at.get(flow, arrives_at))
        self._latest_at[flow] = arrives_at
        heapq.heappush(self._on_the_way, (arrives_at, next(self._sequence), flow, content))

    def _losses(self, conditions: LinkConditions, size_bytes: int) -> int:
        """How often in a row a piece is lost: at first if any of its packets is, then the one."""
        if not conditions.loss:
            return 0
        packets = max(1, -(-size_bytes // PACKET_BYTES))
        lost = 1 - (1 - conditions.loss) ** packets
        losses = 0
        while losses < _MAX_LOSSES and self._draw() < lost:
            losses, lost = losses + 1, conditions.loss
        return losses

    def _of_the_rate(self, seconds: float, now: float) -> int:
        conditions = self._trace.at(now - self._begun_at).conditions
        rate = conditions.rate_bytes_s(self._direction)
        return int(min(max(rate * seconds, PACKET_BYTES), _MAX_TURN_BYTES))
