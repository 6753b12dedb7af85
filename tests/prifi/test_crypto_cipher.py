"""Both cipher backends against published vectors, frozen vectors and each other."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_fabric.errors import ConfigError
from headtail_prifi.crypto import cipher as cipher_module
from headtail_prifi.crypto.cipher import PadCipher, cipher_named, default_cipher
from headtail_prifi.crypto.errors import SealError

NAMES = ["pycryptodome", "cryptography"]
VECTORS = json.loads(
    (Path(__file__).parent.parent / "vectors" / "prifi-cipher-v1.json").read_text()
)
blocks = st.integers(0, 2**64)
some = settings(max_examples=40, deadline=None)


@pytest.fixture(params=NAMES)
def cipher(request: pytest.FixtureRequest) -> PadCipher:
    return cipher_named(request.param)


def test_the_keystream_is_aes_256_ctr(cipher: PadCipher) -> None:
    """NIST SP 800-38A, F.5.5."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    plain = bytes.fromhex(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    buffer = bytearray(plain)
    cipher.stream(key).xor_into(buffer, 0xF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF)
    assert buffer.hex() == (
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
        "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
    )


@pytest.mark.parametrize("vector", VECTORS["streams"], ids=lambda vector: vector["block"])
def test_keystreams_are_frozen(cipher: PadCipher, vector: dict[str, str]) -> None:
    stream = cipher.stream(bytes.fromhex(vector["key"]))
    expected = bytes.fromhex(vector["keystream"])
    assert stream.keystream(int(vector["block"]), len(expected)) == expected
    buffer = bytearray(len(expected))
    stream.xor_into(memoryview(buffer), int(vector["block"]))
    assert buffer == expected


@pytest.mark.parametrize("vector", VECTORS["seals"])
def test_seals_are_frozen(cipher: PadCipher, vector: dict[str, str]) -> None:
    key, nonce, associated, plaintext, sealed = (
        bytes.fromhex(vector[name])
        for name in ("key", "nonce", "associated", "plaintext", "sealed")
    )
    assert cipher.seal(key=key, nonce=nonce, plaintext=plaintext, associated=associated) == sealed
    assert cipher.open(key=key, nonce=nonce, sealed=sealed, associated=associated) == plaintext


@pytest.mark.parametrize("name", NAMES)
@some
@given(blocks, st.lists(st.tuples(st.integers(0, 20), st.integers(0, 70)), max_size=8))
def test_the_stream_is_seekable(name: str, start: int, reads: list[tuple[int, int]]) -> None:
    """Any order of calls of any size gives what one long call gives."""
    cipher, key = cipher_named(name), b"k" * 32
    whole = cipher.stream(key).keystream(start, 16 * 20 + 70)
    stream = cipher.stream(key)
    for offset, size in reads:
        expected = whole[16 * offset : 16 * offset + size]
        assert stream.keystream(start + offset, size) == expected
        buffer = bytearray(size)
        stream.xor_into(buffer, start + offset)
        assert buffer == expected


@some
@given(st.binary(min_size=32, max_size=32), blocks, st.binary(max_size=100))
def test_the_backends_agree(key: bytes, block: int, data: bytes) -> None:
    results = []
    for name in NAMES:
        buffer = bytearray(data)
        cipher_named(name).stream(key).xor_into(buffer, block)
        results.append(buffer)
    assert results[0] == results[1]


def test_streams_add_up_in_place_over_an_array(cipher: PadCipher) -> None:
    rows = np.zeros((2, 32), dtype=np.uint8)
    streams = [cipher.stream(bytes([n]) * 32) for n in (1, 2, 3)]
    for stream in streams:
        stream.xor_into(rows[1].data, 5)
    alone = [np.frombuffer(stream.keystream(5, 32), dtype=np.uint8) for stream in streams]
    assert np.array_equal(rows[1], alone[0] ^ alone[1] ^ alone[2])
    assert not rows[0].any()


@pytest.mark.parametrize("size", [0, 16, 24, 31, 33])
def test_a_pad_key_has_one_size(cipher: PadCipher, size: int) -> None:
    with pytest.raises(ValueError, match=f"{size} bytes"):
        cipher.stream(bytes(size))


def test_what_was_sealed_does_not_open_with_anything_changed(cipher: PadCipher) -> None:
    good = {"key": b"k" * 16, "nonce": b"n" * 12, "associated": b"a"}
    sealed = cipher.seal(**good, plaintext=b"payload")
    assert cipher.open(**good, sealed=memoryview(sealed)) == b"payload"
    for name, value in (("key", b"K" * 16), ("nonce", b"N" * 12), ("associated", b"")):
        with pytest.raises(SealError):
            cipher.open(**{**good, name: value}, sealed=sealed)
    for position in range(len(sealed)):
        damaged = bytearray(sealed)
        damaged[position] ^= 1
        with pytest.raises(SealError):
            cipher.open(**good, sealed=damaged)
    for size in range(len(sealed)):
        with pytest.raises(SealError):
            cipher.open(**good, sealed=sealed[:size])


@pytest.mark.parametrize(("key", "nonce"), [(15, 12), (24, 12), (16, 11), (32, 16), (0, 12)])
def test_seals_want_right_sizes(cipher: PadCipher, key: int, nonce: int) -> None:
    with pytest.raises(ValueError, match="AES-GCM"):
        cipher.seal(key=bytes(key), nonce=bytes(nonce), plaintext=b"")
    with pytest.raises(ValueError, match="AES-GCM"):
        cipher.open(key=bytes(key), nonce=bytes(nonce), sealed=bytes(16))


def test_the_backends_are_named() -> None:
    assert [cipher_named(name).name for name in NAMES] == NAMES
    with pytest.raises(ConfigError, match="rot13"):
        cipher_named("rot13")


def test_without_cryptography_pycryptodome_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_cipher().name == "cryptography"
    monkeypatch.setitem(sys.modules, "headtail_prifi.crypto.cipher_cryptography", None)
    fresh = cipher_named.__wrapped__
    with pytest.raises(ConfigError, match=r"headtail\[prifi\]"):
        fresh("cryptography")
    monkeypatch.setattr(cipher_module, "cipher_named", fresh)
    assert default_cipher().name == "pycryptodome"
