"""A sealed packet for nodes that sleep: no handshake, one pre-shared key, any link or gateway.

    version 1 | key id 1 | boot 4 | counter 4 | ciphertext | tag 16

AES-128-CTR, then HMAC-SHA-256 cut to 16 bytes over all before the tag (encrypt-then-MAC), with keys
of their own per direction (HKDF, RFC 5869). The pair (boot, counter) is the nonce. It is never used
twice, since the boot counter is written down before the first packet of a boot goes out.
"""

import hashlib

import cryptolib

from .box import equal
from .errors import LinkError

VERSION = 1
UP = b"up"
DOWN = b"down"
OVERHEAD = 26
_HEADER_BYTES = 10
_TAG_BYTES = 16
_ECB = 1
_BLOCK = 64
_LAST = 2**32 - 1
_WINDOW = 64


class Sealer:
    """Seals what goes one way. `boot` is a number that no earlier run had, see
    `kept_file.next_boot`."""

    def __init__(self, psk, key_id, boot, direction=UP):
        self._key, self._mac = _keys(psk, direction)
        self._prefix = bytes((VERSION, key_id)) + boot.to_bytes(4, "big")
        self._counter = 0

    def seal(self, payload):
        """Raises LinkError when the counter is used up: start again with the next boot."""
        if self._counter > _LAST:
            raise LinkError("no counter left in this boot")
        header = self._prefix + self._counter.to_bytes(4, "big")
        self._counter += 1
        sealed = header + _ctr(self._key, header, payload)
        return sealed + hmac(self._mac, sealed)[:_TAG_BYTES]


class Opener:
    """Opens what comes the other way, each packet once, up to 64 places out of order."""

    def __init__(self, psk, key_id, direction=DOWN):
        self._key, self._mac = _keys(psk, direction)
        self._prefix = bytes((VERSION, key_id))
        self._newest = -1
        self._seen = 0

    def open(self, packet):
        """Raises LinkError for what was not sealed for this node, or came before."""
        if len(packet) < OVERHEAD or packet[:2] != self._prefix:
            raise LinkError("not a packet for this key")
        sealed, tag = packet[:-_TAG_BYTES], packet[-_TAG_BYTES:]
        if not equal(hmac(self._mac, sealed)[:_TAG_BYTES], tag):
            raise LinkError("a packet that does not open")
        self._once(int.from_bytes(sealed[2:_HEADER_BYTES], "big"))
        return _ctr(self._key, sealed[:_HEADER_BYTES], sealed[_HEADER_BYTES:])

    def _once(self, number):
        """As IPsec's window has it (RFC 4303, 3.4.3)."""
        ahead = number - self._newest
        if ahead > 0:
            self._seen = (self._seen << min(ahead, _WINDOW) | 1) & ((1 << _WINDOW) - 1)
            self._newest = number
        elif ahead <= -_WINDOW or self._seen >> -ahead & 1:
            raise LinkError("a packet that came before")
        else:
            self._seen |= 1 << -ahead


def hmac(key, message):
    """HMAC-SHA-256 (RFC 2104) under a key of at most 64 bytes."""
    key = key + bytes(_BLOCK - len(key))
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in key))
    inner.update(message)
    outer = hashlib.sha256(bytes(b ^ 0x5C for b in key))
    outer.update(inner.digest())
    return outer.digest()


def _keys(psk, direction):
    """A cipher key of 16 bytes and a MAC key of 32."""
    if len(psk) < 16 or len(psk) > _BLOCK:
        raise ValueError("a pre-shared key has 16 to 64 bytes")
    extracted = hmac(b"headtail envelope 1", psk)
    first = hmac(extracted, direction + b"\x01")
    second = hmac(extracted, first + direction + b"\x02")
    return first[:16], second


def _ctr(key, header, data):
    """CTR of one ECB call over all counter blocks, which runs in C from end to end."""
    blocks = (len(data) + 15) // 16
    counters = bytearray(16 * blocks)
    for i in range(blocks):
        counters[16 * i : 16 * i + 8] = header[2:]
        counters[16 * i + 12 : 16 * i + 16] = i.to_bytes(4, "big")
    stream = cryptolib.aes(key, _ECB).encrypt(counters) if blocks else b""
    return bytes(a ^ b for a, b in zip(data, stream))
