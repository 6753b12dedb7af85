"""GF(2^128) as in GCM (NIST SP 800-38D, 6.3): products with one public multiplier.

The equivocation lock multiplies secret lanes of 16 bytes by a public element that names the whole
downstream history. Elements are 16 bytes; bit 0 is the most significant bit of byte 0 and is the
coefficient of x^0; the modulus is x^128 + x^7 + x^2 + x + 1. Addition is XOR.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Final

from Crypto.Cipher import AES

ELEMENT_BYTES: Final = 16

_BITS: Final = 128
_PRODUCT_BYTES: Final = 256
_TO_SLOTS: Final = bytes.maketrans(b"01", b"\x00\x01")
_TO_DIGITS: Final = bytes.maketrans(b"\x00\x01", b"01")
_ODD: Final = int.from_bytes(b"\x01" * _PRODUCT_BYTES)
_TAPS: Final = (0, 1, 2, 7)


class Multiplier(ABC):
    """One public element, ready to multiply secret lanes of 16 bytes."""

    @property
    @abstractmethod
    def element(self) -> bytes:
        """The multiplier itself, 16 bytes; not needed to multiply, so computed when asked for."""

    @abstractmethod
    def times_lanes(self, lanes: bytes) -> bytes:
        """The product with each of one or more lanes, one after the other, 16 bytes each."""


def multiplier(key: bytes) -> Multiplier:
    """The multiplier of a 16-byte history key: the square of AES-128(key, 0^16).

    Two keys give one multiplier with probability 2^-128 (AES as a random function of its key;
    squaring is a bijection). By the `cryptography` backend where it is installed: 2.6 us to make,
    1 us a lane and 1.4 us a call, in constant time; else by integers: 20 us, and 6 us a lane.
    """
    if len(key) != ELEMENT_BYTES:
        raise ValueError(f"a history key of {len(key)} bytes")
    return _multiplier_type()(key)


def history_element(key: bytes) -> bytes:
    """The element that `multiplier(key)` multiplies by, computed without it."""
    root: bytes = AES.new(key, AES.MODE_ECB).encrypt(bytes(ELEMENT_BYTES))
    return multiply(root, root)


def multiply(left: bytes, right: bytes) -> bytes:
    """The product of two elements.

    Coefficients are spread one to a byte, so that an ordinary product of integers sums at most
    128 ones in each byte: no carry, and the lowest bit of each is the coefficient over GF(2).
    """
    return _compress(_spread(left) * _spread(right))


class IntegerMultiplier(Multiplier):
    """Products by Python's integers; needs no extra."""

    def __init__(self, key: bytes) -> None:
        self._element = history_element(key)
        self._spread = _spread(self._element)

    @property
    def element(self) -> bytes:
        return self._element

    def times_lanes(self, lanes: bytes) -> bytes:
        return b"".join(_compress(_spread(lane) * self._spread) for lane in split_lanes(lanes))


def split_lanes(lanes: bytes) -> list[bytes]:
    """The elements of a row; ValueError unless it is a multiple of 16 bytes long."""
    if len(lanes) % ELEMENT_BYTES:
        raise ValueError(f"{len(lanes)} bytes are not a row of lanes")
    return [lanes[start : start + ELEMENT_BYTES] for start in range(0, len(lanes), ELEMENT_BYTES)]


def _spread(element: bytes) -> int:
    if len(element) != ELEMENT_BYTES:
        raise ValueError(f"a field element of {len(element)} bytes")
    digits = format(int.from_bytes(element), "0128b").encode()
    return int.from_bytes(digits.translate(_TO_SLOTS), "little")


def _compress(product: int) -> bytes:
    slots = (product & _ODD).to_bytes(_PRODUCT_BYTES)
    polynomial = int(slots.translate(_TO_DIGITS), 2)
    for _ in range(2):  # the second pass folds the at most 7 bits that the first pushed out
        high = polynomial >> _BITS
        polynomial &= (1 << _BITS) - 1
        for tap in _TAPS:
            polynomial ^= high << tap
    return int(format(polynomial, "0128b")[::-1], 2).to_bytes(ELEMENT_BYTES)


@cache
def _multiplier_type() -> Callable[[bytes], Multiplier]:
    try:
        from headtail_prifi.crypto.field_gcm import GcmMultiplier
    except ImportError:
        return IntegerMultiplier
    return GcmMultiplier
