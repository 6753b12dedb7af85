"""Both group backends against textbook arithmetic, and everything that decoding refuses."""

import contextlib
import hashlib
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_fabric.errors import ConfigError
from headtail_prifi.crypto import group as group_module
from headtail_prifi.crypto import group_p256
from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.crypto.errors import EncodingError
from headtail_prifi.crypto.group import Group, Point, default_group, framed, group_named

GROUPS = ["secp256k1", "p256"]
SECP256K1_PRIME = 2**256 - 2**32 - 977
Coordinates = tuple[int, int] | None
few = settings(max_examples=15, deadline=None)


class Affine:
    """y^2 = x^3 + a x + b over a prime field, by the formulas of SEC 1, 2.2.1; slow and plain."""

    def __init__(self, prime: int, a: int) -> None:
        self.prime = prime
        self.a = a

    def add(self, p: Coordinates, q: Coordinates) -> Coordinates:
        if p is None or q is None:
            return p or q
        (x1, y1), (x2, y2) = p, q
        if x1 == x2 and (y1 + y2) % self.prime == 0:
            return None
        if p == q:
            slope = (3 * x1 * x1 + self.a) * pow(2 * y1, -1, self.prime)
        else:
            slope = (y2 - y1) * pow(x2 - x1, -1, self.prime)
        x3 = (slope * slope - x1 - x2) % self.prime
        return x3, (slope * (x1 - x3) - y1) % self.prime

    def mul(self, p: Coordinates, scalar: int) -> Coordinates:
        result = None
        while scalar:
            if scalar & 1:
                result = self.add(result, p)
            p, scalar = self.add(p, p), scalar >> 1
        return result


CURVES: dict[str, tuple[Affine, tuple[int, int]]] = {
    "secp256k1": (
        Affine(SECP256K1_PRIME, 0),
        (
            0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
            0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
        ),
    ),
    "p256": (
        Affine(group_p256.PRIME, -3),
        (
            0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
            0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
        ),
    ),
}


@pytest.fixture(params=GROUPS)
def group(request: pytest.FixtureRequest) -> Group:
    return group_named(request.param)


def compressed(point: Coordinates) -> bytes:
    assert point is not None
    x, y = point
    return bytes([2 | y & 1]) + x.to_bytes(32)


@pytest.mark.parametrize("name", GROUPS)
@few
@given(st.integers(1, 2**256), st.integers(1, 2**256))
def test_the_backend_does_textbook_arithmetic(name: str, left: int, right: int) -> None:
    group, (curve, base) = group_named(name), CURVES[name]
    left, right = left % group.order or 1, right % group.order or 1
    one, other = curve.mul(base, left), curve.mul(base, right)
    assert one is not None
    point = group.mul_base(left)
    assert point.encode() == compressed(one)
    assert group.mul(point, right).encode() == compressed(curve.mul(one, right))
    assert group.negate(point).encode() == compressed((one[0], curve.prime - one[1]))
    total = curve.add(one, other)
    if total is not None:
        assert group.add(point, group.mul_base(right)).encode() == compressed(total)


def test_the_base_has_the_groups_order(group: Group) -> None:
    assert group.mul_base(group.order - 1) == group.negate(group.base)
    assert group.mul_base(group.order + 5) == group.sum([group.base] * 5)
    assert group.mul_base(-3) == group.negate(group.mul_base(3))


def test_no_operation_gives_the_identity(group: Group) -> None:
    point = group.mul_base(7)
    with pytest.raises(EncodingError, match="identity"):
        group.add(point, group.negate(point))
    with pytest.raises(EncodingError, match="identity"):
        group.mul(point, group.order)
    with pytest.raises(EncodingError, match="identity"):
        group.mul_base(0)
    with pytest.raises(EncodingError, match="identity"):
        group.linear((0, group.order), (point, group.base))
    with pytest.raises(EncodingError, match="identity"):
        group.diffie_hellman(group.order, (point,))


def test_a_linear_combination_leaves_out_zeros(group: Group) -> None:
    point = group.mul_base(7)
    assert group.linear((3, 0, -1), (group.base, point, point)) == group.mul_base(-4)
    with pytest.raises(ValueError, match="argument"):
        group.linear((1, 2), (point,))


def test_decoding_gives_the_point_back(group: Group) -> None:
    for scalar in range(1, 20):
        point = group.mul_base(scalar)
        again = group.decode(point.encode())
        assert again == point
        assert hash(again) == hash(point)
        assert group.mul(again, 3) == group.mul_base(3 * scalar)


def prime_of(group: Group) -> int:
    return CURVES[group.name][0].prime


def test_decoding_refuses_everything_else(group: Group) -> None:
    good = group.base.encode()
    uncompressed = b"\x04" + b"".join(part.to_bytes(32) for part in CURVES[group.name][1])
    off_curve = next(x for x in range(1, 100) if not _decodes(group, b"\x02" + x.to_bytes(32)))
    on_curve = next(x for x in range(1, 100) if _decodes(group, b"\x02" + x.to_bytes(32)))
    for bad in (
        b"",
        b"\x00",
        bytes(33),
        good[:-1],
        good + b"\0",
        b"\x00" + good[1:],
        b"\x04" + good[1:],
        b"\x05" + good[1:],
        b"\x06" + good[1:],
        uncompressed,
        b"\x02" + off_curve.to_bytes(32),
        b"\x02" + b"\xff" * 32,
        b"\x02" + prime_of(group).to_bytes(32),
    ):
        with pytest.raises(EncodingError):
            group.decode(bad)
    if prime_of(group) + on_curve < 2**256:
        with pytest.raises(EncodingError):
            group.decode(b"\x02" + (prime_of(group) + on_curve).to_bytes(32))


def _decodes(group: Group, data: bytes) -> bool:
    try:
        group.decode(data)
    except EncodingError:
        return False
    return True


@pytest.mark.parametrize("name", GROUPS)
@few
@given(st.binary(max_size=70))
def test_decoding_raises_nothing_else(name: str, data: bytes) -> None:
    group = group_named(name)
    with contextlib.suppress(EncodingError):
        assert group.decode(data).encode() == data
    with contextlib.suppress(EncodingError):
        assert group.encode_scalar(group.decode_scalar(data)) == data


def test_scalars_have_one_encoding(group: Group) -> None:
    assert group.decode_scalar(group.encode_scalar(group.order - 1)) == group.order - 1
    assert group.encode_scalar(group.order) == bytes(32)
    for bad in (b"", bytes(31), bytes(33), group.order.to_bytes(32), b"\xff" * 32):
        with pytest.raises(EncodingError):
            group.decode_scalar(bad)


def test_both_sides_get_one_secret(group: Group) -> None:
    entropy = SeededEntropy(b"dh")
    x, y = group.random_scalar(entropy), group.random_scalar(entropy)
    (ours,) = group.diffie_hellman(x, (group.mul_base(y),))
    theirs = group.diffie_hellman(y, (group.mul_base(x), group.base))
    assert ours == theirs[0] != theirs[1]
    shared = group.mul_base(x * y)
    assert ours == group.digest(shared) == hashlib.sha256(shared.encode()).digest()


def test_random_scalars_lie_in_the_group(group: Group) -> None:
    entropy = SeededEntropy(b"scalar")
    scalars = {group.random_scalar(entropy) for _ in range(50)}
    assert len(scalars) == 50
    assert all(0 < scalar < group.order for scalar in scalars)


def test_hashing_to_a_point_depends_on_all_it_is_given(group: Group) -> None:
    points = {
        group.hash_to_point(domain, data)
        for domain, data in (("a", b""), ("b", b""), ("a", b"b"), ("ab", b""), ("", b"ab"))
    }
    assert len(points) == 5
    assert group.hash_to_point("a", b"b") in points
    signs = {group.hash_to_point("sign", bytes([n])).encode()[0] for n in range(16)}
    assert signs == {2, 3}


def test_the_two_groups_hash_differently() -> None:
    one, other = (group_named(name).hash_to_point("a", b"b").encode() for name in GROUPS)
    assert one != other


def test_hashing_to_a_scalar_depends_on_all_it_is_given(group: Group) -> None:
    scalars = {
        group.hash_to_scalar(domain, data)
        for domain, data in (("a", b""), ("b", b""), ("a", b"b"), ("ab", b""), ("", b"ab"))
    }
    assert len(scalars) == 5
    assert framed("ab", b"c") != framed("a", b"bc")


def test_challenges_are_many_and_never_zero(group: Group) -> None:
    challenges = {group.hash_to_challenge("c", bytes([n])) for n in range(100)}
    assert len(challenges) == 100
    assert all(0 < challenge < group.order for challenge in challenges)


def test_the_endomorphism_of_secp256k1_is_one() -> None:
    from headtail_prifi.crypto.group_secp256k1 import LAMBDA, ORDER

    assert pow(LAMBDA, 3, ORDER) == 1
    curve, base = CURVES["secp256k1"]
    image = curve.mul(base, LAMBDA)
    assert image is not None
    x, y = image
    assert x != base[0]
    assert y == base[1]
    assert pow(x * pow(base[0], -1, curve.prime), 3, curve.prime) == 1


@pytest.mark.parametrize("name", GROUPS)
@few
@given(st.binary(min_size=30, max_size=30))
def test_a_point_carries_bytes(name: str, data: bytes) -> None:
    group = group_named(name)
    point = group.embed(data)
    assert group.extract(point) == data
    assert group.extract(group.decode(point.encode())) == data


def test_a_point_carries_exactly_its_size(group: Group) -> None:
    with pytest.raises(ValueError, match="31 bytes"):
        group.embed(bytes(31))


def test_what_is_shown_is_short(group: Group) -> None:
    assert repr(group.base) == f"Point({group.name}, {group.base.encode().hex()[:16]}..)"
    assert repr(group) in ("Secp256k1()", "P256()")
    assert group.base != group.base.encode()


def test_points_of_two_groups_differ() -> None:
    one, other = (group_named(name).base for name in GROUPS)
    assert one != other
    assert isinstance(one, Point)


def test_each_group_exists_once() -> None:
    assert group_named("p256") is group_named("p256")
    with pytest.raises(ConfigError, match="ed25519"):
        group_named("ed25519")


def test_without_coincurve_the_other_group_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_group().name == "secp256k1"
    monkeypatch.setitem(sys.modules, "headtail_prifi.crypto.group_secp256k1", None)
    fresh = group_named.__wrapped__
    with pytest.raises(ConfigError, match=r"headtail\[prifi\]"):
        fresh("secp256k1")
    monkeypatch.setattr(group_module, "group_named", fresh)
    assert default_group().name == "p256"
