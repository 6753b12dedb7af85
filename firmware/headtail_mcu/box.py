"""Authenticated encryption as NaCl has it: XSalsa20-Poly1305 under keys that X25519 agrees on.

Bernstein, "Cryptography in NaCl" (2009); RFC 7748 for X25519, RFC 8439 2.5 for Poly1305. Not
constant in time: Python's integers are not. Whoever can time single operations on the board may
learn about its key; a network's jitter hides them.
"""

import struct

from .errors import LinkError

try:
    from . import salsa_viper as salsa
except (ImportError, SyntaxError, ValueError):
    from . import salsa_py as salsa

_P = 2**255 - 19
_2P = 2 * _P
_LOW = 2**255 - 1
_P1305 = 2**130 - 5
_CLAMP = 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
_SIGMA = b"expand 32-byte k"
_BASE = b"\x09" + bytes(31)
TAG_BYTES = 16


def public_key(secret):
    """Of a secret of 32 bytes."""
    return _x25519(secret, _BASE)


def shared_key(secret, public):
    """What both sides of a box encrypt with. Raises LinkError for a public key that gives none."""
    agreed = _x25519(secret, public)
    if agreed == bytes(32):
        raise LinkError("the other side's key is of no use")
    return _hsalsa20(agreed, bytes(16))


def seal(key, nonce, message):
    """Tag and ciphertext under a shared key. The nonce, 24 bytes, is never used again."""
    data = bytearray(TAG_BYTES) + message
    seal_in_place(key, nonce, data, TAG_BYTES)
    return bytes(data)


def unseal(key, nonce, sealed):
    """The message. Raises LinkError where it was not sealed with this key and nonce."""
    data = bytearray(sealed)
    unseal_in_place(key, nonce, data, TAG_BYTES)
    return bytes(data[TAG_BYTES:])


def seal_in_place(key, nonce, data, at):
    """Of a bytearray what lies from `at` on; the tag goes into the 16 bytes before."""
    stream = _Stream(key, nonce)
    stream.onto(data, at)
    data[at - TAG_BYTES : at] = _poly1305(stream.tag_key, memoryview(data)[at:])


def unseal_in_place(key, nonce, data, at):
    """The inverse; nothing is deciphered before the tag has proved right. Raises LinkError."""
    stream = _Stream(key, nonce)
    tag = _poly1305(stream.tag_key, memoryview(data)[at:])
    if len(data) < at or not equal(tag, bytes(data[at - TAG_BYTES : at])):
        raise LinkError("a box that does not open")
    stream.onto(data, at)


def equal(one, other):
    """Whether two strings of one length are the same, looking at all of them."""
    differ = len(one) ^ len(other)
    for a, b in zip(one, other):
        differ |= a ^ b
    return not differ


class _Stream:
    """XSalsa20: the first half of its first block keys the tag, the rest enciphers."""

    def __init__(self, key, nonce):
        self._state = _state(_hsalsa20(key, nonce[:16]), nonce[16:] + bytes(8))
        self._block = bytearray(64)
        salsa.core(self._block, self._state, 1)
        self.tag_key = bytes(self._block[:32])

    def onto(self, data, at):
        begin, count, end = 32, 0, len(data)
        while at < end:
            size = min(64 - begin, end - at)
            salsa.xor(data, at, self._block, begin, size)
            at += size
            begin, count = 0, count + 1
            struct.pack_into("<I", self._state, 32, count)
            salsa.core(self._block, self._state, 1)


def _hsalsa20(key, nonce):
    block = bytearray(64)
    salsa.core(block, _state(key, nonce), 0)
    return b"".join(bytes(block[4 * i : 4 * i + 4]) for i in (0, 5, 10, 15, 6, 7, 8, 9))


def _state(key, middle):
    s = _SIGMA
    return bytearray(s[:4] + key[:16] + s[4:8] + middle + s[8:12] + key[16:] + s[12:])


def _poly1305(key, message):
    r = int.from_bytes(key[:16], "little") & _CLAMP
    total = 0
    for at in range(0, len(message), 16):
        part = int.from_bytes(bytes(message[at : at + 16]) + b"\x01", "little")
        total = (total + part) * r % _P1305
    total += int.from_bytes(key[16:], "little")
    return (total & (2**128 - 1)).to_bytes(16, "little")


def _x25519(secret, public):
    """RFC 7748, 5: the Montgomery ladder."""
    bits = (int.from_bytes(secret, "little") & ~(1 << 255) & ~7 | 1 << 254).to_bytes(32, "little")
    x1 = int.from_bytes(public, "little") & _LOW
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for bit in range(254, -1, -1):
        now = bits[bit >> 3] >> (bit & 7) & 1
        if swap ^ now:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = now
        a, b = x2 + z2, x2 - z2 + _2P
        da, cb = _folded((x3 - z3 + _2P) * a), _folded((x3 + z3) * b)
        both, apart = da + cb, da - cb + _2P
        x3 = _folded(both * both)
        z3 = _folded(x1 * _folded(apart * apart))
        aa, bb = _folded(a * a), _folded(b * b)
        x2 = _folded(aa * bb)
        e = aa - bb + _2P
        z2 = _folded(e * (aa + 121665 * e))
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, _P - 2, _P) % _P).to_bytes(32, "little")


def _folded(product):
    """Below 2**256 and the same modulo 2**255 - 19, for what is below 2**532 and not negative.

    Ten times as fast as a remainder, which MicroPython finds by long division.
    """
    product = (product & _LOW) + 19 * (product >> 255)
    return (product & _LOW) + 19 * (product >> 255)
