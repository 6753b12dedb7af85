"""The RFC's own vector, both libraries against it and against each other."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_fabric.seal import hpke
from headtail_fabric.seal.cipher import PycryptodomeCipher, SealCipher, best_cipher
from headtail_fabric.seal.cipher_cryptography import CryptographyCipher
from headtail_fabric.seal.errors import TamperedError

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "seal-v1.json").read_text())
RFC: dict[str, Any] = VECTORS["rfc9180-a.2.1"]
CIPHERS: list[SealCipher] = [PycryptodomeCipher(), CryptographyCipher()]
SMALL_ORDER = [bytes(32), bytes([1, *bytes(31)])]


def of(name: str) -> bytes:
    return bytes.fromhex(RFC[name])


@pytest.mark.parametrize("cipher", CIPHERS, ids=["pycryptodome", "cryptography"])
def test_the_vector_of_the_rfc(cipher: SealCipher) -> None:
    sender = hpke.set_up_sender(cipher, of("pkR"), info=of("info"), ephemeral=of("skE"))
    recipient = hpke.set_up_recipient(cipher, of("skR"), enc=of("enc"), info=of("info"))
    assert sender == recipient
    for name in ("enc", "key", "base_nonce", "exporter_secret"):
        assert getattr(sender, name) == of(name), name
    # Out of order on purpose: the sequence number comes with each message.
    for message in reversed(RFC["messages"]):
        sequence, aad = message["sequence"], bytes.fromhex(message["aad"])
        sealed = sender.seal(sequence, of("plaintext"), aad)
        assert sealed == bytes.fromhex(message["ciphertext"])
        assert recipient.open(sequence, sealed, aad) == of("plaintext")
    for context, exported in RFC["exports"].items():
        assert recipient.export(bytes.fromhex(context), 32) == bytes.fromhex(exported)


@settings(max_examples=30, deadline=None)
@given(
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=32, max_size=32),
    st.binary(max_size=300),
    st.binary(max_size=60),
)
def test_both_libraries_do_the_same(ours: bytes, theirs: bytes, text: bytes, aad: bytes) -> None:
    one, other = CIPHERS
    public = one.public(theirs)
    assert public == other.public(theirs)
    key = one.agree(ours, public)
    assert key == other.agree(ours, public)
    sealed = one.seal(key, bytes(12), memoryview(text), aad)
    assert sealed == other.seal(key, bytes(12), text, aad)
    assert one.open(key, bytes(12), sealed, aad) == text
    assert other.open(key, bytes(12), memoryview(sealed), aad) == text


@pytest.mark.parametrize("cipher", CIPHERS, ids=["pycryptodome", "cryptography"])
def test_what_was_changed_does_not_open(cipher: SealCipher) -> None:
    sealed = bytearray(cipher.seal(bytes(32), bytes(12), b"text", b"aad"))
    for at in range(len(sealed)):
        sealed[at] ^= 1
        with pytest.raises(TamperedError):
            cipher.open(bytes(32), bytes(12), bytes(sealed), b"aad")
        sealed[at] ^= 1
    with pytest.raises(TamperedError):
        cipher.open(bytes(32), bytes(12), bytes(sealed), b"other")
    assert cipher.open(bytes(32), bytes(12), sealed, b"aad") == b"text"


@pytest.mark.parametrize("cipher", CIPHERS, ids=["pycryptodome", "cryptography"])
@pytest.mark.parametrize("public", SMALL_ORDER)
def test_a_key_of_small_order_is_refused(cipher: SealCipher, public: bytes) -> None:
    with pytest.raises(TamperedError):
        hpke.set_up_recipient(cipher, of("skR"), enc=public, info=b"")


def test_no_secret_is_in_a_repr() -> None:
    context = hpke.set_up_sender(best_cipher(), of("pkR"), info=b"", ephemeral=of("skE"))
    for name in ("key", "base_nonce", "exporter_secret"):
        assert repr(getattr(context, name)) not in repr(context)
