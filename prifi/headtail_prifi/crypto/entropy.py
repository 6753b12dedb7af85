"""Randomness as an argument: the machine's in production, a seeded generator in tests."""

import hashlib
import hmac
import os
from typing import Protocol

Octets = bytes  # the name that stays free where a method is called bytes


class Entropy(Protocol):
    def bytes(self, size: int) -> bytes:
        """`size` bytes that nobody else can predict."""
        ...


class SystemEntropy:
    """The operating system's generator. The only one that production code may use."""

    def bytes(self, size: int) -> bytes:
        return os.urandom(size)


class SeededEntropy:
    """HMAC-DRBG over SHA-256 (NIST SP 800-90A, 10.1.2) without reseeding; for tests and replays.

    Two instances with one seed give the same bytes when asked in the same portions.
    """

    def __init__(self, seed: bytes) -> None:
        self._key = bytes(32)
        self._value = b"\x01" * 32
        for mark in (b"\x00", b"\x01"):
            self._mix(mark + seed)

    def _mix(self, data: Octets) -> None:
        self._key = hmac.digest(self._key, self._value + data, hashlib.sha256)
        self._value = hmac.digest(self._key, self._value, hashlib.sha256)

    def bytes(self, size: int) -> Octets:
        blocks = []
        for _ in range(-(-size // 32)):
            self._value = hmac.digest(self._key, self._value, hashlib.sha256)
            blocks.append(self._value)
        self._mix(b"\x00")
        return b"".join(blocks)[:size]


def uniform_below(bound: int, entropy: Entropy) -> int:
    """An exactly uniform integer in [0, bound), by rejection.

    How many bytes are drawn depends on the refused candidates only, never on the result.
    """
    if bound < 1:
        raise ValueError("an empty range has no element")
    bits = (bound - 1).bit_length()
    size = (bits + 7) // 8
    mask = (1 << bits) - 1
    while True:
        candidate = int.from_bytes(entropy.bytes(size)) & mask
        if candidate < bound:
            return candidate


def uniform_permutation(count: int, entropy: Entropy) -> tuple[int, ...]:
    """A uniform permutation of 0..count-1 (Durstenfeld's form of Fisher and Yates' shuffle)."""
    order = list(range(count))
    for last in range(count - 1, 0, -1):
        other = uniform_below(last + 1, entropy)
        order[last], order[other] = order[other], order[last]
    return tuple(order)
