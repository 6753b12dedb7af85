"""A byte stream between a pseudonym and an exit, both ways, in order, each direction ended once.

The opener draws 32 secret bytes and seals them to the exit; two keys and a label follow from them.
Segments are numbered and sealed under their direction's key, the number being the nonce. They
arrive once each but perhaps out of order, so they are put in order before they are read.
"""

from typing import Final

from headtail_prifi.app.errors import StreamClosedError, TrafficError
from headtail_prifi.app.wire import LAST, MAX_NUMBER, PART_OVERHEAD, Part, Tag
from headtail_prifi.crypto.cipher import NONCE_BYTES, PadCipher
from headtail_prifi.crypto.derive import hkdf
from headtail_prifi.crypto.errors import SealError
from headtail_prifi.crypto.seal import LABEL_BYTES

SECRET_BYTES: Final = 32
MAX_AHEAD_SEGMENTS: Final = 4096


class StreamEnd:
    """One end. `opener` tells which; the two ends agree on the secret and nothing else."""

    def __init__(self, secret: bytes, cipher: PadCipher, *, opener: bool) -> None:
        material = hkdf(secret=secret, salt=b"", purpose="prifi/stream", size=2 * 32 + LABEL_BYTES)
        keys = material[:32], material[32:64]
        self._send_key, self._receive_key = keys if opener else keys[::-1]
        self._cipher = cipher
        self._next_out = 0
        self._next_in = 0
        self._early: dict[int, tuple[int, bytes]] = {}
        self.label = material[64:]
        self.sent_all = False
        """This end was closed for writing."""
        self.received_all = False
        """The other end was, and all it wrote was read."""

    def write(self, data: bytes, *, segment_bytes: int, last: bool = False) -> list[bytes]:
        """The encoded segments of some bytes, none longer than `segment_bytes`; `last` closes.

        Raises StreamClosedError after that.
        """
        if self.sent_all:
            raise StreamClosedError("a stream that was closed for writing")
        room = segment_bytes - PART_OVERHEAD
        starts = range(0, len(data), room)
        pieces = [data[start : start + room] for start in starts] or ([b""] if last else [])
        segments = [
            self._seal(piece, LAST if last and index == len(pieces) - 1 else 0)
            for index, piece in enumerate(pieces)
        ]
        self.sent_all = last
        return segments

    def read(self, part: Part) -> bytes:
        """The bytes that a segment of this stream makes readable: none, if others must come first.

        Raises TrafficError when it does not open, comes twice or is too far ahead.
        """
        ahead = part.number - self._next_in
        if not 0 <= ahead < MAX_AHEAD_SEGMENTS or part.number in self._early or self.received_all:
            raise TrafficError(f"segment {part.number} while {self._next_in} is awaited")
        try:
            opened = self._cipher.open(
                key=self._receive_key,
                nonce=part.number.to_bytes(NONCE_BYTES),
                sealed=part.sealed,
                associated=bytes([part.flags]),
            )
        except SealError as error:
            raise TrafficError(error.message) from None
        self._early[part.number] = (part.flags, opened)
        ready = []
        while self._next_in in self._early:
            flags, data = self._early.pop(self._next_in)
            ready.append(data)
            self._next_in += 1
            self.received_all = bool(flags & LAST)
        return b"".join(ready)

    def _seal(self, piece: bytes, flags: int) -> bytes:
        number = self._next_out
        if number > MAX_NUMBER:
            raise StreamClosedError("a stream of 2^32 segments is used up")
        self._next_out += 1
        sealed = self._cipher.seal(
            key=self._send_key,
            nonce=number.to_bytes(NONCE_BYTES),
            plaintext=piece,
            associated=bytes([flags]),
        )
        return Part(Tag.SEGMENT, self.label, number, flags, sealed).encode()
