"""Groups of prime order: the interface and what all backends share.

Two backends stand behind it: `Secp256k1` (coincurve, the default where it is installed) and
`P256` (pycryptodome, always there). Both curves have prime order and cofactor 1, so the only
element of low order is the identity, and no function here takes or returns it: an operation whose
result would be the identity raises `EncodingError`. Honest runs meet it with probability 2^-255.

Points cross the wire in SEC 1 compressed form, 33 bytes; `decode` accepts nothing else.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from headtail_fabric.errors import ConfigError
from headtail_prifi.crypto.entropy import Entropy, uniform_below
from headtail_prifi.crypto.errors import EncodingError

POINT_BYTES: Final = 33
SCALAR_BYTES: Final = 32
EMBED_BYTES: Final = 30


class Point:
    """An element of a group other than the identity. Equal when its encoding is equal.

    `handle` is the backend's own object. Compare secret points by `diffie_hellman`, not by ==.
    """

    __slots__ = ("_encoded", "group", "handle")

    def __init__(self, group: "Group", handle: Any, encoded: bytes | None = None) -> None:
        self.group = group
        self.handle = handle
        self._encoded = encoded

    def encode(self) -> bytes:
        """33 bytes: SEC 1, 2.3.3, compressed."""
        if self._encoded is None:
            self._encoded = self.group.encode(self)
        return self._encoded

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Point):
            return NotImplemented
        return self.group is other.group and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode())

    def __repr__(self) -> str:
        return f"Point({self.group.name}, {self.encode().hex()[:16]}..)"


class Group(ABC):
    """A cyclic group of prime order `order` with base point `base`, written additively.

    Scalars are plain integers; any integer stands for its residue.

    Timing. `mul_base` and `diffie_hellman` work in constant time where the backend can, `mul` need
    not, and Python's integers do not. Pad secrets and pseudonyms go through the former two; `mul`
    gets scalars that are used for one shuffle or proof, and in an accusation shuffle or when blame
    opens a pair, secrets that die with the epoch. One scalar takes about the same time with every
    point, so repetition tells little more than the count of its non-zero digits.
    """

    name: str
    order: int
    base: Point

    # -- what a backend provides --------------------------------------------------------------

    @abstractmethod
    def mul(self, point: Point, scalar: int) -> Point:
        """`scalar` times `point`."""

    @abstractmethod
    def mul_base(self, scalar: int) -> Point:
        """`scalar` times the base, in constant time where the backend can."""

    @abstractmethod
    def sum(self, points: Sequence[Point]) -> Point:
        """The sum of one or more points."""

    @abstractmethod
    def negate(self, point: Point) -> Point:
        """The inverse of `point`."""

    @abstractmethod
    def diffie_hellman(self, secret: int, points: Sequence[Point]) -> tuple[bytes, ...]:
        """SHA-256 of the encoding of `secret` times each point: 32 bytes each.

        In constant time where the backend can. A party that later opens the shared point itself
        (blame) lets everybody recompute the same bytes with `digest`.
        """

    @abstractmethod
    def encode(self, point: Point) -> bytes:
        """The 33 bytes of `point`; `Point.encode` keeps them."""

    @abstractmethod
    def decode(self, data: bytes) -> Point:
        """The point that `data` encodes.

        Raises EncodingError for every other length, off-curve and non-canonical encodings and the
        identity.
        """

    # -- what all share -----------------------------------------------------------------------

    def add(self, left: Point, right: Point) -> Point:
        """The sum of two points."""
        return self.sum((left, right))

    def linear(self, scalars: Sequence[int], points: Sequence[Point]) -> Point:
        """The sum of scalar times point over both sequences, which have one length."""
        terms = [
            self.mul_base(scalar) if point is self.base else self.mul(point, scalar)
            for scalar, point in zip(scalars, points, strict=True)
            if scalar % self.order
        ]
        if not terms:
            raise EncodingError("a linear combination gives the identity")
        return self.sum(terms)

    def digest(self, point: Point) -> bytes:
        """SHA-256 of the encoding of `point`: what `diffie_hellman` gives for a shared point."""
        return hashlib.sha256(point.encode()).digest()

    def random_scalar(self, entropy: Entropy) -> int:
        """A uniform scalar other than 0."""
        return 1 + uniform_below(self.order - 1, entropy)

    def hash_to_scalar(self, domain: str, data: bytes) -> int:
        """A scalar from SHA-512 of the length-prefixed domain and data; its bias is 2^-256."""
        return int.from_bytes(hashlib.sha512(framed(domain, data)).digest()) % self.order

    def hash_to_challenge(self, domain: str, data: bytes) -> int:
        """A challenge of a proof: one of at least 2^128 equally likely scalars, never 0.

        A backend may choose among scalars that are fast to multiply with.
        """
        return self.hash_to_scalar(domain, data) or 1

    def hash_to_point(self, domain: str, data: bytes) -> Point:
        """A point whose discrete logarithm nobody knows, to any base.

        Try and increment: SHA-512 of group, domain, data and a counter gives a candidate x and
        the sign of y, and about half of the candidates lie on the curve. The result is uniform
        when SHA-512 is a random oracle. The time depends on the input, so only public data is
        hashed with it.
        """
        source = framed(f"{self.name}/{domain}", data)
        for counter in range(256):
            digest = hashlib.sha512(source + bytes([counter])).digest()
            try:
                return self.decode(bytes([2 | (digest[32] & 1)]) + digest[:32])
            except EncodingError:
                continue
        raise AssertionError("256 candidates in a row off the curve: chance 2^-256")

    def embed(self, data: bytes) -> Point:
        """A point that carries `EMBED_BYTES` bytes; `extract` gives them back.

        x is a zero byte, the data and a counter byte that is raised until x lies on the curve.
        """
        if len(data) != EMBED_BYTES:
            raise ValueError(f"{len(data)} bytes in a point instead of {EMBED_BYTES}")
        for counter in range(256):
            try:
                return self.decode(b"\x02\x00" + data + bytes([counter]))
            except EncodingError:
                continue
        raise EncodingError("no point carries these bytes: chance 2^-256")

    def extract(self, point: Point) -> bytes:
        """The bytes that `embed` put into a point; arbitrary for a point made otherwise."""
        return point.encode()[2:-1]

    def encode_scalar(self, scalar: int) -> bytes:
        """32 bytes, big-endian, of the residue."""
        return (scalar % self.order).to_bytes(SCALAR_BYTES)

    def decode_scalar(self, data: bytes) -> int:
        """The scalar that `data` encodes; EncodingError unless it is 32 bytes and below `order`."""
        if len(data) != SCALAR_BYTES:
            raise EncodingError(f"a scalar of {len(data)} bytes")
        scalar = int.from_bytes(data)
        if scalar >= self.order:
            raise EncodingError("a scalar that is not reduced")
        return scalar

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def framed(domain: str, data: bytes) -> bytes:
    """Domain and data in one string, from which both can be told."""
    label = domain.encode()
    return len(label).to_bytes(2) + label + len(data).to_bytes(8) + data


@cache
def group_named(name: str) -> Group:
    """The group of an epoch: `secp256k1` or `p256`, one instance each.

    Raises ConfigError for another name, or when its backend is not installed.
    """
    if name == "p256":
        from headtail_prifi.crypto.group_p256 import P256

        return P256()
    if name == "secp256k1":
        try:
            from headtail_prifi.crypto.group_secp256k1 import Secp256k1
        except ImportError as error:
            raise ConfigError(
                "the group secp256k1 needs coincurve: pip install 'headtail[prifi]'"
            ) from error
        return Secp256k1()
    raise ConfigError(f"no group is named {name!r}; there are secp256k1 and p256")


def default_group() -> Group:
    """secp256k1 where coincurve is installed (7 times as fast), else p256."""
    try:
        return group_named("secp256k1")
    except ConfigError:
        return group_named("p256")
