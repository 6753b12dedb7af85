"""The lock: linear, and perfectly hiding as soon as two histories differ."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_prifi.crypto.field import multiply
from headtail_prifi.round.history import first_link, next_link
from headtail_prifi.round.lock import Lock

secrets = st.binary(min_size=64, max_size=64)
links = st.binary(min_size=32, max_size=32)


def inverse(element: bytes) -> bytes:
    """element ** (2**128 - 2)."""
    power, result = element, None
    for _ in range(127):
        power = multiply(power, power)
        result = power if result is None else multiply(result, power)
    assert result is not None
    return result


def xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


@settings(max_examples=40, deadline=None)
@given(link=links, left=secrets, right=secrets)
def test_masks_are_linear_in_the_secrets(link: bytes, left: bytes, right: bytes) -> None:
    lock = Lock(link)
    both = lock.mask(xor(left, right))
    assert both == xor(lock.mask(left), lock.mask(right))


@settings(max_examples=20, deadline=None)
@given(link=links, secret=secrets)
def test_a_mask_is_the_inner_product(link: bytes, secret: bytes) -> None:
    lock = Lock(link)
    first, second = lock._product.elements
    for lane in range(2):
        start = 16 * lane
        product = xor(
            multiply(first, secret[start : start + 16]),
            multiply(second, secret[32 + start : 48 + start]),
        )
        assert lock.mask(secret)[start : start + 16] == product


@settings(max_examples=10, deadline=None)
@given(one=links, other=links, wanted=st.binary(min_size=16, max_size=16))
def test_any_value_is_possible_when_histories_differ(
    one: bytes, other: bytes, wanted: bytes
) -> None:
    """For each value there is a secret that explains the residue: it hides perfectly."""
    if one == other:
        return
    difference = xor(Lock(one)._product.elements[0], Lock(other)._product.elements[0])
    secret = multiply(inverse(difference), wanted) + bytes(16)
    residue = xor(Lock(one).mask(secret), Lock(other).mask(secret))
    assert residue == wanted


def test_histories_that_differ_once_differ_for_ever() -> None:
    one = other = first_link(bytes(32))
    one, other = next_link(one, b"a"), next_link(other, b"b")
    for number in range(100):
        one, other = next_link(one, b"%d" % number), next_link(other, b"%d" % number)
        assert one != other
    assert first_link(bytes(32)) != first_link(b"\x01" + bytes(31))


def test_masks_of_different_rounds_are_unrelated() -> None:
    link = first_link(bytes(32))
    secret = bytes(range(64))
    masks = []
    for number in range(50):
        link = next_link(link, b"%d" % number)
        masks.append(Lock(link).mask(secret))
    bits = np.unpackbits(np.frombuffer(b"".join(masks), np.uint8))
    assert abs(bits.mean() - 0.5) < 0.03
