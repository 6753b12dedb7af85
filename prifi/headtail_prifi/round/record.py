"""One round at the relay: opened, gathered, closed, and kept for as long as it may be accused."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import HEADER_BYTES
from headtail_prifi.round.lock import Lock

Bytes = NDArray[np.uint8]


class RoundRecord:
    """`down` is the frame that opened it, `before` and `link` the history before and after that
    frame. `frames` and `rows` hold what clients and guards sent, `opened` the upstream bytes once
    all pads are off: payloads, keys, reservations."""

    __slots__ = (
        "_cipher_end",
        "_geometry",
        "_total",
        "before",
        "down",
        "frames",
        "link",
        "missing",
        "opened",
        "owners",
        "round",
        "rows",
    )

    def __init__(
        self,
        *,
        geometry: Geometry,
        round_: int,
        owners: tuple[int, ...],
        down: bytes,
        before: bytes,
        link: bytes,
        members: Sequence[int],
    ) -> None:
        self._geometry = geometry
        self._cipher_end = HEADER_BYTES + geometry.upstream_bytes
        self._total = np.zeros(geometry.upstream_bytes, np.uint8)
        self.round = round_
        self.owners = owners
        self.down = down
        self.before = before
        self.link = link
        self.missing = set(members)
        self.frames: dict[int, bytes] = {}
        self.rows: tuple[Bytes, ...] = ()
        self.opened: Bytes | None = None

    def add(self, client: int, frame: bytes) -> memoryview:
        """Add a client's frame of the right length; returns its cipher."""
        total, cipher = self._total, self._cipher_in(frame)
        np.bitwise_xor(total, np.frombuffer(cipher, np.uint8), total)
        self.frames[client] = frame
        self.missing.discard(client)
        return cipher

    def close(self, rows: tuple[Bytes, ...]) -> Bytes:
        """Take all pads off, given every guard's row; the opened upstream bytes."""
        payload = self._geometry.payload_bytes
        stream = np.bitwise_xor.reduce(rows)
        opened = self._total
        opened[:payload] ^= stream[:payload]
        mask = Lock(self.link).mask(stream[payload:].tobytes())
        opened[payload:] ^= np.frombuffer(mask, np.uint8)
        self.rows = rows
        self.opened = opened
        return opened

    def cipher(self, client: int) -> memoryview:
        """What a client sent in this round."""
        return self._cipher_in(self.frames[client])

    def _cipher_in(self, frame: bytes) -> memoryview:
        return memoryview(frame)[HEADER_BYTES : self._cipher_end]
