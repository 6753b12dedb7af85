"""Sealed datagrams: only the exit opens them, only the sender finds and opens the replies."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_prifi.crypto.cipher import PadCipher, cipher_named
from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.crypto.errors import SealError
from headtail_prifi.crypto.group import Group, group_named
from headtail_prifi.crypto.seal import (
    REPLY_OVERHEAD,
    SEAL_OVERHEAD,
    ReplyKey,
    open_sealed,
    seal,
)

SECRET = 0xE417


@pytest.fixture(params=["secp256k1", "p256"])
def group(request: pytest.FixtureRequest) -> Group:
    return group_named(request.param)


@pytest.fixture(params=["pycryptodome", "cryptography"])
def cipher(request: pytest.FixtureRequest) -> PadCipher:
    return cipher_named(request.param)


def sealed_by(
    group: Group, cipher: PadCipher, plaintext: bytes = b"request", context: bytes = b"epoch"
) -> tuple[bytes, ReplyKey]:
    return seal(
        group,
        cipher,
        group.mul_base(SECRET),
        plaintext,
        context=context,
        entropy=SeededEntropy(b"seal"),
    )


def test_the_exit_opens_and_replies(group: Group, cipher: PadCipher) -> None:
    sealed, ours = sealed_by(group, cipher)
    assert len(sealed) == len(b"request") + SEAL_OVERHEAD
    plaintext, theirs = open_sealed(group, cipher, SECRET, memoryview(sealed), context=b"epoch")
    assert plaintext == b"request"
    assert theirs == ours
    for index in (0, 1, 2**40):
        reply = theirs.seal(index, b"reply")
        assert len(reply) == len(b"reply") + REPLY_OVERHEAD
        assert ours.open(index, reply) == b"reply"
        with pytest.raises(SealError):
            ours.open(index + 1, reply)


def test_the_backends_seal_alike(group: Group) -> None:
    one, other = (sealed_by(group, cipher_named(name)) for name in ("pycryptodome", "cryptography"))
    assert one == other


def test_nobody_else_opens_it(group: Group, cipher: PadCipher) -> None:
    sealed, _ = sealed_by(group, cipher)
    with pytest.raises(SealError):
        open_sealed(group, cipher, SECRET + 1, sealed, context=b"epoch")
    with pytest.raises(SealError):
        open_sealed(group, cipher, SECRET, sealed, context=b"epoch 2")


def test_any_change_spoils_it(group: Group, cipher: PadCipher) -> None:
    sealed, _ = sealed_by(group, cipher)
    for position in range(0, len(sealed), 3):
        damaged = bytearray(sealed)
        damaged[position] ^= 1
        with pytest.raises(SealError, match="does not open"):
            open_sealed(group, cipher, SECRET, bytes(damaged), context=b"epoch")
    for size in (0, 10, 33, SEAL_OVERHEAD - 1):
        with pytest.raises(SealError):
            open_sealed(group, cipher, SECRET, sealed[:size], context=b"epoch")


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=120))
def test_any_bytes_give_a_seal_error(data: bytes) -> None:
    group, cipher = group_named("secp256k1"), cipher_named("cryptography")
    for sealed in (data, group.base.encode() + data):
        with pytest.raises(SealError):
            open_sealed(group, cipher, SECRET, sealed, context=b"epoch")


def test_two_requests_of_one_sender_have_nothing_in_common(group: Group, cipher: PadCipher) -> None:
    entropy, key = SeededEntropy(b"two"), group.mul_base(SECRET)
    (one, first), (other, second) = (
        seal(group, cipher, key, b"same", context=b"", entropy=entropy) for _ in range(2)
    )
    assert one[:33] != other[:33]
    assert one[33:] != other[33:]
    assert first.label != second.label
    with pytest.raises(SealError):
        second.open(0, first.seal(0, b"reply"))


def test_a_reply_key_shows_its_label_only(group: Group, cipher: PadCipher) -> None:
    _, reply = sealed_by(group, cipher)
    assert repr(reply) == f"ReplyKey(label={reply.label!r})"
    assert len(reply.label) == 16
