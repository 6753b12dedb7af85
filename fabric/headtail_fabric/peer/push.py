"""Sending a packed bundle in parts, as the server asks for it.

The server's `BundleNeed` carries the offset up to which it has everything: it is a request and
an acknowledgement. A few parts are kept in flight; a server that went back (it restarted) or fell
silent gets the rest again from where it stands.
"""

from collections.abc import Iterator
from typing import Final

from headtail_fabric.wire import MAX_PART_BYTES, Buffer, BundlePart

_IN_FLIGHT_BYTES: Final = 4 * MAX_PART_BYTES
_STALLED_S: Final = 3.0


class BundlePush:
    """The state of one transfer."""

    def __init__(self, digest: bytes) -> None:
        self._digest = digest
        self._data: memoryview | None = None
        self._wanted: int | None = None
        self._sent = 0
        self.stalls_at: float | None = None
        self.announced = False
        """Whether the program was told that the server wants this bundle."""

    def __repr__(self) -> str:
        return f"BundlePush({self._digest.hex()[:12]}, wanted={self._wanted}, sent={self._sent})"

    @property
    def started(self) -> bool:
        """Whether there is data to send."""
        return self._data is not None

    def start(self, packed: Buffer) -> None:
        """Here is the data."""
        self._data = memoryview(packed).cast("B")

    def wanted(self, offset: int, now: float) -> None:
        """The server has all bytes before `offset`."""
        if self._wanted is None or offset < self._wanted or offset > self._sent:
            self._sent = offset
        self._wanted = offset
        self.stalls_at = now + _STALLED_S if self._sent > offset else None

    def parts(self, now: float) -> Iterator[tuple[BundlePart, memoryview]]:
        """What may be sent now."""
        if self._data is None or self._wanted is None:
            return
        if self.stalls_at is not None and now >= self.stalls_at:
            self._sent = self._wanted
        total = self._data.nbytes
        while self._sent < min(total, self._wanted + _IN_FLIGHT_BYTES):
            payload = self._data[self._sent : self._sent + MAX_PART_BYTES]
            yield (
                BundlePart(digest=self._digest, offset=self._sent, total=total),
                payload,
            )
            self._sent += payload.nbytes
            self.stalls_at = now + _STALLED_S
