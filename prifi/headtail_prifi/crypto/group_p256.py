"""NIST P-256 (FIPS 186-4, D.1.2.3) by pycryptodome: slower, but installed everywhere."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from Crypto.PublicKey import ECC

from headtail_prifi.crypto.errors import EncodingError
from headtail_prifi.crypto.group import POINT_BYTES, Group, Point

PRIME: Final = 0xFFFFFFFF_00000001_00000000_00000000_00000000_FFFFFFFF_FFFFFFFF_FFFFFFFF
ORDER: Final = 0xFFFFFFFF_00000000_FFFFFFFF_FFFFFFFF_BCE6FAAD_A7179E84_F3B9CAC2_FC632551
B: Final = 0x5AC635D8_AA3A93E7_B3EBBD55_769886BC_651D06B0_CC53B0F6_3BCE3C3E_27D2604B
BASE: Final = bytes.fromhex("036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296")


class P256(Group):
    """About 300 us a multiplication, 60 us of the base, 4 us an addition.

    pycryptodome treats scalars as secret: it blinds them and works in constant time.
    """

    name = "p256"
    order = ORDER

    def __init__(self) -> None:
        self.base = self.decode(BASE)

    def mul(self, point: Point, scalar: int) -> Point:
        return self._checked(point.handle * (scalar % ORDER))

    def mul_base(self, scalar: int) -> Point:
        return self.mul(self.base, scalar)

    def sum(self, points: Sequence[Point]) -> Point:
        total = points[0].handle.copy()
        for point in points[1:]:
            total += point.handle
        return self._checked(total)

    def negate(self, point: Point) -> Point:
        return Point(self, -point.handle)

    def diffie_hellman(self, secret: int, points: Sequence[Point]) -> tuple[bytes, ...]:
        return tuple(hashlib.sha256(self.mul(point, secret).encode()).digest() for point in points)

    def encode(self, point: Point) -> bytes:
        x, y = point.handle.xy
        return bytes([2 | (int(y) & 1)]) + int(x).to_bytes(32)

    def decode(self, data: bytes) -> Point:
        if len(data) != POINT_BYTES or data[0] not in (2, 3):
            raise EncodingError("not a compressed point of 33 bytes")
        encoded = bytes(data)
        x = int.from_bytes(encoded[1:])
        if x >= PRIME:
            raise EncodingError("a coordinate that is not reduced")
        square = (x * x * x - 3 * x + B) % PRIME
        y = pow(square, (PRIME + 1) // 4, PRIME)  # a root if there is one, as p = 3 mod 4
        if y * y % PRIME != square:
            raise EncodingError("not the encoding of a point of P-256")
        if y & 1 != encoded[0] & 1:
            y = PRIME - y
        return Point(self, ECC.construct(curve="p256", point_x=x, point_y=y).pointQ, encoded)

    def _checked(self, handle: Any) -> Point:
        if handle.is_point_at_infinity():
            raise EncodingError("an operation gives the identity")
        return Point(self, handle)
