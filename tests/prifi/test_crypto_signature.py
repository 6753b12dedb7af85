"""Ed25519 by both backends: one signature, one verdict, also on keys made to split them."""

import hashlib
import sys

import pytest

from headtail_prifi.crypto import signature
from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.crypto.errors import EncodingError, SignatureError
from headtail_prifi.crypto.signature import Backend, SigningKey, check_verify_key, verify_signature
from headtail_prifi.crypto.signature_cryptography import CryptographySignatures
from headtail_prifi.crypto.signature_pycryptodome import PyCryptodomeSignatures

GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
PRIME = 2**255 - 19


@pytest.fixture(params=[CryptographySignatures, PyCryptodomeSignatures])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    chosen: Backend = request.param()
    monkeypatch.setattr(signature, "_backend", lambda: chosen)
    return chosen


def test_the_backend_is_ed25519(backend: Backend) -> None:
    """RFC 8032, 7.1, test 2."""
    seed = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    public = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
    loaded, sign = backend.load(seed)
    assert loaded == public
    signed = sign(b"\x72")
    assert signed.hex() == (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    assert backend.verify(public, signed, b"\x72")
    assert not backend.verify(public, signed, b"\x73")


def test_a_signature_holds_for_its_key_message_and_purpose(backend: Backend) -> None:
    key, other = (SigningKey(bytes([n]) * 32) for n in (1, 2))
    signed = key.sign(b"message", purpose="test")
    verify_signature(key.verify_key, signed, b"message", purpose="test")
    with pytest.raises(SignatureError):
        verify_signature(other.verify_key, signed, b"message", purpose="test")
    with pytest.raises(SignatureError):
        verify_signature(key.verify_key, signed, b"messagf", purpose="test")
    with pytest.raises(SignatureError) as caught:
        verify_signature(key.verify_key, signed, b"message", purpose="tes")
    assert caught.value.facts == {"purpose": "tes"}


def test_purpose_and_message_stay_apart(backend: Backend) -> None:
    key = SigningKey(bytes(32))
    assert key.sign(b"bc", purpose="a") != key.sign(b"c", purpose="ab")


def test_any_changed_bit_spoils_it(backend: Backend) -> None:
    key = SigningKey(bytes(32))
    signed = key.sign(b"m", purpose="p")
    for position in range(0, len(signed), 5):
        damaged = bytearray(signed)
        damaged[position] ^= 1
        with pytest.raises(SignatureError):
            verify_signature(key.verify_key, bytes(damaged), b"m", purpose="p")
    for size in (0, 63, 65):
        with pytest.raises(SignatureError):
            verify_signature(key.verify_key, signed.ljust(65, b"\0")[:size], b"m", purpose="p")


def test_a_signature_has_one_form(backend: Backend) -> None:
    """s and s + order would satisfy the same equation (RFC 8032, 5.1.7)."""
    key = SigningKey(bytes(32))
    signed = key.sign(b"m", purpose="p")
    grown = int.from_bytes(signed[32:], "little") + GROUP_ORDER
    with pytest.raises(SignatureError):
        verify_signature(
            key.verify_key, signed[:32] + grown.to_bytes(32, "little"), b"m", purpose="p"
        )


def test_the_backends_sign_alike() -> None:
    for seed in (bytes(32), b"\xff" * 32, SeededEntropy(b"seed").bytes(32)):
        one, other = CryptographySignatures(), PyCryptodomeSignatures()
        (public, sign), (same_public, same_sign) = one.load(seed), other.load(seed)
        assert public == same_public
        assert sign(b"data") == same_sign(b"data")
        assert one.verify(public, same_sign(b"data"), b"data")
        assert other.verify(public, sign(b"data"), b"data")


ORDER_8_Y = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
LOW_ORDER = [0, 1, PRIME - 1, ORDER_8_Y, PRIME - ORDER_8_Y]


Affine = tuple[int, int]
D = -121665 * pow(121666, -1, PRIME) % PRIME


def added(p: Affine, q: Affine) -> Affine:
    """-x^2 + y^2 = 1 + d x^2 y^2: the sum of two points (RFC 8032, 5.1.4)."""
    product = D * p[0] * q[0] * p[1] * q[1]
    x = (p[0] * q[1] + p[1] * q[0]) * pow(1 + product, -1, PRIME)
    y = (p[1] * q[1] + p[0] * q[0]) * pow(1 - product, -1, PRIME)
    return x % PRIME, y % PRIME


def multiple(p: Affine, scalar: int) -> Affine:
    result = (0, 1)
    while scalar:
        if scalar & 1:
            result = added(result, p)
        p, scalar = added(p, p), scalar >> 1
    return result


def x_of(y: int) -> int:
    square = (y * y - 1) * pow(D * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if x * x % PRIME != square:
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    assert x * x % PRIME == square
    return x


def encoded(p: Affine) -> bytes:
    return (p[1] | (p[0] & 1) << 255).to_bytes(32, "little")


@pytest.mark.parametrize("y", LOW_ORDER)
def test_a_nonce_with_a_part_of_low_order_is_refused_by_all(backend: Backend, y: int) -> None:
    """The equation with cofactor would accept it, and one party could not show it to another."""
    base_y = 4 * pow(5, -1, PRIME) % PRIME
    base = (min(x_of(base_y), PRIME - x_of(base_y), key=lambda x: x & 1), base_y)
    secret, nonce, data = 12345, 67890, b"data"
    public = encoded(multiple(base, secret))
    for tail in ((0, 1), (x_of(y), y)):
        shown = encoded(added(multiple(base, nonce), tail))
        digest = hashlib.sha512(shown + public + data).digest()
        challenge = int.from_bytes(digest, "little") % GROUP_ORDER
        response = (nonce + challenge * secret) % GROUP_ORDER
        signed = shown + response.to_bytes(32, "little")
        assert backend.verify(public, signed, data) == (tail == (0, 1))


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("y", LOW_ORDER)
def test_keys_of_low_order_are_refused(y: int, sign: int) -> None:
    verify_key = (y | sign << 255).to_bytes(32, "little")
    with pytest.raises(EncodingError, match="low order"):
        check_verify_key(verify_key)
    with pytest.raises(SignatureError, match="low order"):
        verify_signature(verify_key, bytes(64), b"m", purpose="p")


def test_these_are_the_keys_of_low_order() -> None:
    for y in LOW_ORDER:
        assert multiple((x_of(y), y), 8) == (0, 1)


@pytest.mark.parametrize("y", [PRIME, PRIME + 1, 2**255 - 1])
def test_keys_that_are_not_reduced_are_refused(y: int) -> None:
    with pytest.raises(EncodingError, match="not reduced"):
        check_verify_key(y.to_bytes(32, "little"))


@pytest.mark.parametrize("size", [0, 31, 33])
def test_keys_have_one_size(size: int) -> None:
    with pytest.raises(EncodingError, match=f"{size} bytes"):
        check_verify_key(bytes(size))
    with pytest.raises(ValueError, match=f"{size} bytes"):
        SigningKey(bytes(size))


def test_a_key_that_is_no_point_verifies_nothing(backend: Backend) -> None:
    with pytest.raises(SignatureError):
        verify_signature((2).to_bytes(32, "little"), bytes(64), b"m", purpose="p")


def test_a_new_key_comes_from_the_entropy_and_hides_its_seed() -> None:
    key = SigningKey.generate(SeededEntropy(b"a"))
    assert key.verify_key == SigningKey.generate(SeededEntropy(b"a")).verify_key
    assert repr(key) == f"SigningKey(verify_key={key.verify_key.hex()[:16]}..)"


def test_without_cryptography_pycryptodome_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(signature._backend(), CryptographySignatures)
    monkeypatch.setitem(sys.modules, "headtail_prifi.crypto.signature_cryptography", None)
    assert isinstance(signature._backend.__wrapped__(), PyCryptodomeSignatures)
