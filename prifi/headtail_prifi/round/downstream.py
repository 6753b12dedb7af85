"""Downstream frames at a client: what shape they must have, and asking for missing ones."""

from headtail_prifi.core.body import decode_body
from headtail_prifi.core.errors import FrameError
from headtail_prifi.core.geometry import LANE_BYTES, Geometry
from headtail_prifi.core.header import HEADER_BYTES
from headtail_prifi.core.messages import ECHO_BYTES, MAX_NACK_ROUNDS, Down
from headtail_prifi.round.chain import Chain


def read_down(signed: memoryview, geometry: Geometry) -> Down:
    """The body of a frame without its signature; FrameError unless it fits the geometry."""
    down = decode_body(Down, signed[HEADER_BYTES:])
    if len(down.owners) != 2 * geometry.sub_slots:
        raise FrameError(f"owners in {len(down.owners)} bytes")
    if down.data and sum(map(len, down.data)) > geometry.down_bytes:
        raise FrameError("more downstream data than the epoch allows")
    for report in down.reports:
        if (len(report.echoes), len(report.reservations)) != (
            geometry.sub_slots * ECHO_BYTES,
            geometry.reservation_lanes * LANE_BYTES,
        ):
            raise FrameError("a report of another geometry")
    return down


class GapWatch:
    """Asks for missing frames once when a gap appears, then every `nack_s` while it is open."""

    def __init__(self, chain: Chain, nack_s: float) -> None:
        self._chain = chain
        self._nack_s = nack_s
        self.due_at: float | None = None

    def look(self, now: float) -> tuple[int, int] | None:
        """The first missing round and how many to ask for now, if any."""
        missing = self._chain.missing
        if missing is None:
            self.due_at = None
            return None
        if self.due_at is not None and now < self.due_at:
            return None
        self.due_at = now + self._nack_s
        first, count = missing
        return first, min(count, MAX_NACK_ROUNDS)
