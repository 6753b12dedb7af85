"""GF(2^128) as in GCM (NIST SP 800-38D, 6.3): inner products with two public elements.

The equivocation lock multiplies secret lanes of 16 bytes by public elements that name the whole
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


class InnerProduct(ABC):
    """Two public elements H1 and H2, ready for inner products with pairs of secret lanes."""

    @property
    @abstractmethod
    def elements(self) -> tuple[bytes, bytes]:
        """H1 and H2, 16 bytes each; not needed to multiply, so computed when asked for."""

    @abstractmethod
    def with_rows(self, rows: bytes) -> bytes:
        """H1 (x) Q1 xor H2 (x) Q2 for each lane, 16 bytes each.

        `rows` holds the Q1 of all lanes, then the Q2 in the same order; ValueError when it is not
        a multiple of 32 bytes long.
        """


def inner_product(first: bytes, second: bytes) -> InnerProduct:
    """That of two 16-byte history keys, each of which names the square of AES-128(key, 0^16).

    Two keys give one element with probability 2^-128 (AES as a random function of its key;
    squaring is a bijection). By the `cryptography` backend where it is installed: 9 us to make it
    and use it on two lanes, in constant time; else by integers: 65 us.
    """
    if not len(first) == len(second) == ELEMENT_BYTES:
        raise ValueError(f"history keys of {len(first)} and {len(second)} bytes")
    return _inner_product_type()(first, second)


def history_element(key: bytes) -> bytes:
    """The element that a history key names, computed without an `InnerProduct`."""
    root: bytes = AES.new(key, AES.MODE_ECB).encrypt(bytes(ELEMENT_BYTES))
    return multiply(root, root)


def multiply(left: bytes, right: bytes) -> bytes:
    """The product of two elements.

    Coefficients are spread one to a byte, so that an ordinary product of integers sums at most
    128 ones in each byte: no carry, and the lowest bit of each is the coefficient over GF(2).
    """
    return _compress(_spread(left) * _spread(right)).to_bytes(ELEMENT_BYTES)


class IntegerInnerProduct(InnerProduct):
    """By Python's integers; needs no extra."""

    def __init__(self, first: bytes, second: bytes) -> None:
        self._elements = (history_element(first), history_element(second))
        self._spread = tuple(map(_spread, self._elements))

    @property
    def elements(self) -> tuple[bytes, bytes]:
        return self._elements

    def with_rows(self, rows: bytes) -> bytes:
        half = row_bytes(rows)
        first, second = self._spread
        products = []
        for start in range(0, half, ELEMENT_BYTES):
            end = start + ELEMENT_BYTES
            one = _compress(_spread(rows[start:end]) * first)
            other = _compress(_spread(rows[half + start : half + end]) * second)
            products.append((one ^ other).to_bytes(ELEMENT_BYTES))
        return b"".join(products)


def row_bytes(rows: bytes) -> int:
    """The length of one of two rows of lanes; ValueError unless they hold whole elements."""
    if len(rows) % (2 * ELEMENT_BYTES):
        raise ValueError(f"{len(rows)} bytes are not two rows of lanes")
    return len(rows) // 2


def _spread(element: bytes) -> int:
    if len(element) != ELEMENT_BYTES:
        raise ValueError(f"a field element of {len(element)} bytes")
    digits = format(int.from_bytes(element), "0128b").encode()
    return int.from_bytes(digits.translate(_TO_SLOTS), "little")


def _compress(product: int) -> int:
    slots = (product & _ODD).to_bytes(_PRODUCT_BYTES)
    polynomial = int(slots.translate(_TO_DIGITS), 2)
    for _ in range(2):  # the second pass folds the at most 7 bits that the first pushed out
        high = polynomial >> _BITS
        polynomial &= (1 << _BITS) - 1
        for tap in _TAPS:
            polynomial ^= high << tap
    return int(format(polynomial, "0128b")[::-1], 2)


@cache
def _inner_product_type() -> Callable[[bytes, bytes], InnerProduct]:
    try:
        from headtail_prifi.crypto.field_gcm import GcmInnerProduct
    except ImportError:
        return IntegerInnerProduct
    return GcmInnerProduct
