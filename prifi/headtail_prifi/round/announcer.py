"""The relay's voice: numbered, signed downstream frames, each hashed into the history."""

from collections import deque

from headtail_prifi.core.body import encode_body
from headtail_prifi.core.errors import BacklogFullError
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import Header, Kind, short_id
from headtail_prifi.core.membership import Certificate
from headtail_prifi.core.messages import (
    MAX_DATA_ITEMS,
    Disclosure,
    Down,
    Report,
    Retirement,
)
from headtail_prifi.core.seat import RELAY
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.round.history import HistoryStatement, first_link, next_link


class Announcer:
    """Holds what the next frame has to say. Raises BacklogFullError beyond `max_waiting` items."""

    def __init__(
        self, *, epoch_id: bytes, geometry: Geometry, signing_key: SigningKey, max_waiting: int
    ) -> None:
        self._epoch_id = epoch_id
        self._geometry = geometry
        self._signing_key = signing_key
        self._max_waiting = max_waiting
        self._data: deque[bytes] = deque()
        self._reports: list[Report] = []
        self.certificate: Certificate | None = None
        """The membership that begins with the next frame."""
        self.retirement: Retirement | None = None
        self.next_round = 0
        self.link = first_link(epoch_id)

    @property
    def waiting(self) -> int:
        """How many data items are queued."""
        return len(self._data)

    def add_data(self, data: bytes) -> None:
        """Queue one item for everybody; ValueError when it does not fit into a frame."""
        if len(data) > self._geometry.down_bytes:
            raise ValueError(f"{len(data)} bytes, a frame holds {self._geometry.down_bytes}")
        if len(self._data) >= self._max_waiting:
            raise BacklogFullError(f"{self._max_waiting} items wait already")
        self._data.append(data)

    @property
    def reported(self) -> list[int]:
        """The rounds that the next frame reports."""
        return [report.round for report in self._reports]

    def add_report(self, report: Report) -> None:
        """What came in a round that closed."""
        self._reports.append(report)

    def announce(self, owners: bytes, version: int, disclosure: Disclosure | None) -> bytes:
        """The frame that opens `next_round`, which is then the one after."""
        down = Down(
            owners=owners,
            reports=tuple(self._reports),
            disclosure=disclosure,
            certificate=self.certificate,
            retirement=self.retirement,
            data=self._take_data(),
        )
        header = Header(
            Kind.DOWN, 0, RELAY.index, self.next_round, short_id(self._epoch_id), version
        )
        signed = header.encode() + encode_body(down)
        self.link = next_link(self.link, signed)
        statement = HistoryStatement.signed(
            epoch_id=self._epoch_id, round=self.next_round, link=self.link, key=self._signing_key
        )
        self._reports.clear()
        self.certificate = None
        self.next_round += 1
        return signed + statement.signature

    def _take_data(self) -> tuple[bytes, ...]:
        taken: list[bytes] = []
        room = self._geometry.down_bytes
        while self._data and len(taken) < MAX_DATA_ITEMS and len(self._data[0]) <= room:
            taken.append(self._data.popleft())
            room -= len(taken[-1])
        return tuple(taken)
