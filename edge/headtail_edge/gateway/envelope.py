"""Sealed packets, the gateway's end: `firmware/headtail_mcu/envelope.py` has the layout.

    version 1 | key id 1 | boot 4 | counter 4 | ciphertext | tag 16

AES-128-CTR, then HMAC-SHA-256 cut to 16 bytes (encrypt-then-MAC); keys of each direction by HKDF
(RFC 5869) from the pre-shared key.
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from Crypto.Cipher import AES
from Crypto.Hash import SHA256
from Crypto.Protocol.KDF import HKDF

from headtail_fabric.errors import LocalError, PeerError

VERSION: Final = 1
UP: Final = b"up"
DOWN: Final = b"down"
PSK_BYTES: Final = 32
OVERHEAD: Final = 26

_HEADER_BYTES: Final = 10
_TAG_BYTES: Final = 16
_WINDOW: Final = 64
_LAST: Final = 2**32 - 1
_SALT: Final = b"headtail envelope 1"


class EnvelopeError(PeerError):
    """A packet does not open, or came before. If it is a node's, check its pre-shared key, and
    that its boot counter's file was not wiped (then it needs a new key)."""


class CounterUsedUpError(LocalError):
    """No packet can be sealed any more in this run. Restart the gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which packets came: the newest number (boot << 32 | counter), -1 before any, and a bit for
    each of the 64 up to it."""

    newest: int = -1
    seen: int = 0

    def with_number(self, number: int) -> "Window":
        """As IPsec's window has it (RFC 4303, 3.4.3). Raises EnvelopeError for a repetition."""
        ahead = number - self.newest
        if ahead > 0:
            seen = (self.seen << min(ahead, _WINDOW) | 1) & ((1 << _WINDOW) - 1)
            return Window(newest=number, seen=seen)
        if ahead <= -_WINDOW or self.seen >> -ahead & 1:
            raise EnvelopeError("a packet that came before")
        return Window(newest=self.newest, seen=self.seen | 1 << -ahead)


class Opener:
    """Opens what a node sealed."""

    def __init__(self, psk: bytes, *, window: Window, direction: bytes = UP) -> None:
        self._keys = _Keys(psk, direction)
        self.window = window

    def open(self, packet: bytes) -> bytes:
        """The payload; `window` then has the packet. Raises EnvelopeError."""
        if len(packet) < OVERHEAD or packet[0] != VERSION:
            raise EnvelopeError("not a sealed packet")
        sealed, tag = packet[:-_TAG_BYTES], packet[-_TAG_BYTES:]
        if not hmac.compare_digest(self._keys.tag(sealed), tag):
            raise EnvelopeError("a packet that does not open")
        self.window = self.window.with_number(int.from_bytes(sealed[2:_HEADER_BYTES], "big"))
        return self._keys.crypt(sealed[:_HEADER_BYTES], sealed[_HEADER_BYTES:])


class Sealer:
    """Seals what goes to a node. `boot` is a number that no earlier run of this gateway had."""

    def __init__(self, psk: bytes, *, key_id: int, boot: int, direction: bytes = DOWN) -> None:
        self._keys = _Keys(psk, direction)
        self._prefix = bytes((VERSION, key_id)) + boot.to_bytes(4, "big")
        self._counter = 0

    def seal(self, payload: bytes) -> bytes:
        """Raises CounterUsedUpError."""
        if self._counter > _LAST:
            raise CounterUsedUpError("four thousand million packets were sealed for one node")
        header = self._prefix + self._counter.to_bytes(4, "big")
        self._counter += 1
        sealed = header + self._keys.crypt(header, payload)
        return sealed + self._keys.tag(sealed)


class _Keys:
    def __init__(self, psk: bytes, direction: bytes) -> None:
        derived = HKDF(psk, 64, _SALT, SHA256, context=direction)
        self._cipher, self._mac = derived[:16], derived[32:]

    def tag(self, sealed: bytes) -> bytes:
        return hmac.new(self._mac, sealed, hashlib.sha256).digest()[:_TAG_BYTES]

    def crypt(self, header: bytes, data: bytes) -> bytes:
        return AES.new(self._cipher, AES.MODE_CTR, nonce=header[2:]).encrypt(data)
