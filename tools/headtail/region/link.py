"""The link emulator's model, driven without sockets.

    device --header, payload--> Shaper UP --> edge
    device <--header, answer--- Shaper DOWN <-- edge

Rates, queue, delay, jitter, losses and outages are `headtail_fabric.emulator.Shaper`'s, which the
emulator itself runs; what the device knows of the link comes from the client's own estimator, fed
with the same events. A message enters the queue as the emulator reads it from a socket: as far as
there is room, a turn at a time.
"""

import random
from dataclasses import dataclass
from typing import Final

from headtail_fabric.emulator import Direction, LinkTrace, Shaper
from headtail_fabric.link import LinkEstimate, LinkEstimator

HEADER_BYTES: Final = 200
"""Of a request or an answer besides its tensors, framing included; a rounded-up figure."""
_BEAT_BYTES: Final = 60
_BEAT_S: Final = 1.0
_CHUNK: Final = bytes(64 * 1024)
_FLOW: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request that was answered at `received_at`; `wire_s` is what it spent on the link."""

    received_at: float
    wire_s: float
    bytes_up: int


class SimulatedLink:
    """One device's connection. Times start at 0 and must not go back."""

    def __init__(self, trace: LinkTrace, *, seed: int) -> None:
        draw = random.Random(seed).random  # noqa: S311 (a simulation)
        self._up = Shaper(trace, Direction.UP, draw=draw, now=0.0)
        self._down = Shaper(trace, Direction.DOWN, draw=draw, now=0.0)
        self._estimator = LinkEstimator()
        self._beat_at = 0.0
        self._heard_at = 0.0

    def estimate(self, now: float) -> LinkEstimate:
        """What the device knows of the link."""
        self._beat(now)
        return self._estimator.estimate(now)

    def request(
        self, payload_bytes: int, answer_bytes: int, *, server_s: float, now: float
    ) -> Exchange:
        """Send a request now, have it served as soon as it is there, wait for the answer."""
        self._beat(now)
        size_bytes = payload_bytes + HEADER_BYTES
        self._estimator.request_sent(again=False)
        arrived_at = _carry(self._up, size_bytes, now)
        served_at = arrived_at + server_s
        received_at = _carry(self._down, answer_bytes + HEADER_BYTES, served_at)
        self._estimator.request_answered(
            size_bytes=size_bytes, sent_at=now, received_at=received_at, resident_s=server_s
        )
        self._heard_at = received_at
        return Exchange(
            received_at=received_at, wire_s=received_at - now - server_s, bytes_up=size_bytes
        )

    def _beat(self, now: float) -> None:
        """The heartbeats that were due by now; one that was due behind a request went after it."""
        while self._beat_at <= now:
            sent_at = max(self._beat_at, self._heard_at)
            arrived_at = _carry(self._up, _BEAT_BYTES, sent_at)
            heard_at = _carry(self._down, _BEAT_BYTES, arrived_at)
            self._estimator.heartbeat_returned(heard_at - sent_at, heard_at)
            self._heard_at = max(self._heard_at, heard_at)
            self._beat_at = max(self._beat_at + _BEAT_S, heard_at)


def _carry(shaper: Shaper, size_bytes: int, now: float) -> float:
    """When the last byte of a message that is sent now has come through."""
    left, at = size_bytes, now
    while left > 0:
        at = max(at, shaper.room_at)
        turn = min(left, shaper.turn_bytes(at), len(_CHUNK))
        shaper.send(_FLOW, _CHUNK[:turn], at)
        left -= turn
    arrived_at = now
    while (next_at := shaper.next_arrival_at) < float("inf"):
        arrived_at = max(arrived_at, next_at)
        for _ in shaper.arrived(next_at):
            pass
    return arrived_at
