"""GF(2^128): both backends against a schoolbook product, GCM's own example and frozen vectors."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_prifi.crypto import field
from headtail_prifi.crypto.field import (
    InnerProduct,
    IntegerInnerProduct,
    history_element,
    inner_product,
    multiply,
)
from headtail_prifi.crypto.field_gcm import GcmInnerProduct

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "prifi-field-v1.json").read_text())
ONE = b"\x80" + bytes(15)
elements = st.binary(min_size=16, max_size=16)
some = settings(max_examples=60, deadline=None)

Backend = Callable[[bytes, bytes], InnerProduct]


@pytest.fixture(params=[IntegerInnerProduct, GcmInnerProduct], ids=["integers", "gcm"])
def backend(request: pytest.FixtureRequest) -> Backend:
    made: Backend = request.param
    return made


def schoolbook(left: bytes, right: bytes) -> bytes:
    """SP 800-38D, algorithm 1."""
    x, v, z = int.from_bytes(left), int.from_bytes(right), 0
    for bit in range(127, -1, -1):
        if x >> bit & 1:
            z ^= v
        v = (v >> 1) ^ (0xE1 << 120 if v & 1 else 0)
    return z.to_bytes(16)


def add(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def test_the_product_is_that_of_gcm() -> None:
    """McGrew and Viega, The Galois/Counter Mode of Operation, test case 2: X1 = C H."""
    ciphertext = bytes.fromhex("0388dace60b6a392f328c2b971b2fe78")
    key = bytes.fromhex("66e94bd4ef8a2c3b884cfa59ca342b2e")
    assert multiply(ciphertext, key).hex() == "5e2ec746917062882c85b0685353deb7"


@some
@given(elements, elements)
def test_the_product_is_the_schoolbooks(left: bytes, right: bytes) -> None:
    assert multiply(left, right) == schoolbook(left, right) == multiply(right, left)


@some
@given(elements, elements, elements)
def test_it_is_a_field(a: bytes, b: bytes, c: bytes) -> None:
    assert multiply(a, add(b, c)) == add(multiply(a, b), multiply(a, c))
    assert multiply(multiply(a, b), c) == multiply(a, multiply(b, c))
    assert multiply(ONE, a) == a
    assert multiply(bytes(16), a) == bytes(16)


@some
@given(elements, elements, elements, elements)
def test_the_backends_agree(first: bytes, second: bytes, one: bytes, other: bytes) -> None:
    integers, gcm = IntegerInnerProduct(first, second), GcmInnerProduct(first, second)
    h1, h2 = history_element(first), history_element(second)
    assert integers.elements == gcm.elements == (h1, h2)
    expected = add(schoolbook(one, h1), schoolbook(other, h2))
    assert integers.with_rows(one + other) == gcm.with_rows(one + other) == expected


@pytest.mark.parametrize("vector", VECTORS["products"])
def test_products_are_frozen(vector: dict[str, str]) -> None:
    left, right = bytes.fromhex(vector["left"]), bytes.fromhex(vector["right"])
    assert multiply(left, right).hex() == vector["product"]


@pytest.mark.parametrize("vector", VECTORS["lanes"])
def test_each_half_of_the_inner_product_is_frozen(backend: Backend, vector: dict[str, str]) -> None:
    key, lanes = bytes.fromhex(vector["key"]), bytes.fromhex(vector["lanes"])
    first, second = backend(key, b"o" * 16), backend(b"o" * 16, key)
    assert first.elements[0].hex() == second.elements[1].hex() == vector["element"]
    nothing = bytes(len(lanes))
    assert first.with_rows(lanes + nothing).hex() == vector["products"]
    assert second.with_rows(nothing + lanes).hex() == vector["products"]


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_lanes_are_multiplied_one_by_one(backend: Backend, count: int) -> None:
    ready = backend(b"h" * 16, b"i" * 16)
    firsts = [bytes([n]) * 16 for n in range(count)]
    seconds = [bytes([n]) * 16 for n in range(100, 100 + count)]
    each = [ready.with_rows(one + other) for one, other in zip(firsts, seconds, strict=True)]
    assert ready.with_rows(b"".join(firsts + seconds)) == b"".join(each)


def test_sizes_are_checked(backend: Backend) -> None:
    ready = backend(b"h" * 16, b"i" * 16)
    for size in (17, 16, 48):
        with pytest.raises(ValueError, match="rows of lanes"):
            ready.with_rows(bytes(size))
    with pytest.raises(ValueError, match="17 bytes"):
        multiply(bytes(17), ONE)
    for keys in ((bytes(32), bytes(16)), (bytes(16), bytes(32))):
        with pytest.raises(ValueError, match="history keys"):
            inner_product(*keys)


def test_two_histories_give_two_multipliers() -> None:
    assert len({history_element(bytes([n]) * 16) for n in range(64)}) == 64


def test_without_cryptography_integers_do_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = bytes(16), bytes(range(16))
    assert isinstance(inner_product(*keys), GcmInnerProduct)
    monkeypatch.setitem(sys.modules, "headtail_prifi.crypto.field_gcm", None)
    monkeypatch.setattr(field, "_inner_product_type", field._inner_product_type.__wrapped__)
    assert isinstance(inner_product(*keys), IntegerInnerProduct)
