"""Key derivation: against another implementation, and that every input matters."""

import pytest
from Crypto.Hash import SHA256
from Crypto.Protocol.KDF import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_prifi.crypto.derive import hkdf, pad_key


@settings(max_examples=40, deadline=None)
@given(st.binary(min_size=1, max_size=80), st.binary(max_size=70), st.binary(), st.integers(1, 200))
def test_it_is_hkdf_sha256(secret: bytes, salt: bytes, context: bytes, size: int) -> None:
    ours = hkdf(secret=secret, salt=salt, purpose="test", context=context, size=size)
    assert ours == HKDF(secret, size, salt, SHA256, 1, b"test\0" + context)


def test_purpose_and_context_stay_apart() -> None:
    one = hkdf(secret=b"s", salt=b"", purpose="a", context=b"b")
    other = hkdf(secret=b"s", salt=b"", purpose="ab")
    assert one != other


@pytest.mark.parametrize("purpose", ["", "a\0b"])
def test_a_purpose_must_be_one(purpose: str) -> None:
    with pytest.raises(ValueError, match="purpose"):
        hkdf(secret=b"s", salt=b"", purpose=purpose)


@pytest.mark.parametrize("size", [0, 255 * 32 + 1])
def test_the_size_has_limits(size: int) -> None:
    with pytest.raises(ValueError, match=str(size)):
        hkdf(secret=b"s", salt=b"", purpose="p", size=size)


def test_a_context_has_a_limit() -> None:
    with pytest.raises(ValueError, match="purpose"):
        hkdf(secret=b"s", salt=b"", purpose="p", context=bytes(65_536))


def key(
    *,
    secret: bytes = b"s" * 32,
    epoch_id: bytes = b"e" * 32,
    roster_hash: bytes = b"r" * 32,
    version: int = 0,
    client: int = 0,
    guard: int = 0,
) -> bytes:
    return pad_key(
        secret=secret,
        epoch_id=epoch_id,
        roster_hash=roster_hash,
        version=version,
        client=client,
        guard=guard,
    )


def test_a_pad_key_binds_epoch_roster_version_and_pair() -> None:
    keys = {
        key(),
        key(secret=b"S" * 32),
        key(epoch_id=b"E" * 32),
        key(roster_hash=b"R" * 32),
        key(version=1),
        key(client=1),
        key(guard=1),
    }
    assert len(keys) == 7
    assert {len(each) for each in keys} == {32}


def test_the_pad_key_is_frozen() -> None:
    frozen = "838eb49d2c73a3b43262948aa19291b7"
    assert key(version=3, client=2, guard=1).hex()[:32] == frozen


def test_names_of_epochs_and_rosters_have_32_bytes() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        key(roster_hash=bytes(31))
    with pytest.raises(ValueError, match="32 bytes"):
        key(epoch_id=bytes(33))
