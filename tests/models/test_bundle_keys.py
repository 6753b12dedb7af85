"""Signing keys, their files, and the detached signature."""

import base64
import stat
from pathlib import Path

import msgspec
import pytest
from Crypto.PublicKey import ECC
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_models.bundle.errors import (
    BadSignatureError,
    KeyFileError,
    UnsignedBundleError,
    UntrustedSignerError,
)
from headtail_models.bundle.keys import (
    PublicKey,
    SecretKey,
    create_key_files,
    load_public_key,
    load_secret_key,
)
from headtail_models.bundle.signature import PURPOSE, check_signature, sign_manifest

MANIFEST = b'{"schema": 1}\n'
KEY = SecretKey(bytes(range(32)))
OTHER = SecretKey(bytes(32))
SIGNATURE = sign_manifest(MANIFEST, KEY)


def test_rfc_8032_vector() -> None:
    """Section 7.1, test 2."""
    key = SecretKey(
        bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    )
    assert key.public.raw.hex() == (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    )
    assert key.sign(b"\x72").hex() == (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )


@pytest.mark.parametrize("size", [0, 31, 57])
def test_a_seed_has_32_bytes(size: int) -> None:
    with pytest.raises(ValueError, match=f"{size} bytes"):
        SecretKey(bytes(size))


def test_fingerprint_is_short_and_of_the_public_key_alone() -> None:
    assert KEY.public.fingerprint == PublicKey(KEY.public.raw).fingerprint
    assert len(KEY.public.fingerprint) == 19
    assert KEY.public.fingerprint != OTHER.public.fingerprint


def test_the_secret_does_not_show() -> None:
    assert repr(KEY) == "SecretKey()"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        bytes(31),
        bytes(33),
        bytes(57),  # as long as a key of Ed448
        b"\xff" * 32,
        b"\x01" + bytes(31),  # the neutral element
        bytes(32),  # order 4
        bytes.fromhex(
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"
        ),  # order 8
    ],
)
def test_what_is_no_key_or_proves_nothing(raw: bytes) -> None:
    with pytest.raises(ValueError, match="Ed25519"):
        PublicKey(raw)


def test_key_files_come_back(tmp_path: Path) -> None:
    secret_path, public_path = create_key_files(tmp_path / "site")
    assert (secret_path.name, public_path.name) == ("site.key", "site.pub")
    assert stat.S_IMODE(secret_path.stat().st_mode) == 0o600
    secret, public = load_secret_key(secret_path), load_public_key(public_path)
    assert secret.public == public
    assert secret_path.read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert public_path.read_text().startswith("-----BEGIN PUBLIC KEY-----")


@pytest.mark.parametrize("there", ["site.key", "site.pub"])
def test_no_key_is_overwritten(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("precious")
    with pytest.raises(KeyFileError, match=there):
        create_key_files(tmp_path / "site")
    assert (tmp_path / there).read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    secret_path, _ = create_key_files(tmp_path / "site")
    secret_path.chmod(0o640)
    with pytest.raises(KeyFileError, match="chmod 600"):
        load_secret_key(secret_path)


def test_the_wrong_half_is_refused(tmp_path: Path) -> None:
    secret_path, public_path = create_key_files(tmp_path / "site")
    public_path.chmod(0o600)
    with pytest.raises(KeyFileError, match="holds a public key"):
        load_secret_key(public_path)
    with pytest.raises(KeyFileError, match="holds a secret key"):
        load_public_key(secret_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a key",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        b"-----BEGIN PUBLIC KEY-----\n" + b"A" * 10_000,
        b"\x30\x03\x02\x01\x00",
        ECC.construct(curve="P-256", d=7).public_key().export_key(format="PEM").encode(),
    ],
)
def test_a_file_without_a_fitting_key(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "site.pub"
    path.write_bytes(content)
    with pytest.raises(KeyFileError, match=r"site\.pub"):
        load_public_key(path)


def test_a_file_with_a_key_that_proves_nothing(tmp_path: Path) -> None:
    neutral = base64.b64encode(bytes.fromhex("302a300506032b6570032100") + b"\x01" + bytes(31))
    path = tmp_path / "site.pub"
    path.write_bytes(b"-----BEGIN PUBLIC KEY-----\n" + neutral + b"\n-----END PUBLIC KEY-----\n")
    with pytest.raises(KeyFileError, match="low order"):
        load_public_key(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="No such file"):
        load_public_key(tmp_path / "site.pub")
    with pytest.raises(KeyFileError, match="No such file"):
        create_key_files(tmp_path / "nowhere" / "site")


def test_the_signer_is_named() -> None:
    assert check_signature(MANIFEST, SIGNATURE, trusted=None) == KEY.public
    assert check_signature(MANIFEST, SIGNATURE, trusted=[OTHER.public, KEY.public]) == KEY.public


def test_unsigned_is_fine_until_a_key_is_asked_for() -> None:
    assert check_signature(MANIFEST, None, trusted=None) is None
    with pytest.raises(UnsignedBundleError):
        check_signature(MANIFEST, None, trusted=[KEY.public])
    with pytest.raises(UnsignedBundleError):
        check_signature(MANIFEST, None, trusted=[])


@pytest.mark.parametrize("trusted", [[], [OTHER.public]])
def test_an_untrusted_signer_is_named(trusted: list[PublicKey]) -> None:
    with pytest.raises(UntrustedSignerError) as caught:
        check_signature(MANIFEST, SIGNATURE, trusted=trusted)
    assert caught.value.facts == {"fingerprint": KEY.public.fingerprint}


def _changed(**fields: str) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(SIGNATURE) | fields)


@pytest.mark.parametrize(
    "signature",
    [
        b"",
        b"{}",
        b"[" * 1000,
        SIGNATURE[:-20],
        _changed(signature="00" * 64),
        _changed(signature="00" * 63),
        _changed(signature="ff" * 64),
        _changed(public_key=OTHER.public.raw.hex()),
        _changed(public_key="01" + "00" * 31),
        _changed(public_key="zz" * 32),
        _changed(algorithm="none"),
        _changed(more="fields"),
        sign_manifest(MANIFEST + b" ", KEY),
        _changed(signature=KEY.sign(MANIFEST).hex()),  # signed for no purpose
        _changed(signature=KEY.sign(PURPOSE[:-1] + MANIFEST).hex()),
    ],
)
@pytest.mark.parametrize("trusted", [None, [KEY.public]])
def test_bad_signatures_look_alike(signature: bytes, trusted: list[PublicKey] | None) -> None:
    with pytest.raises(BadSignatureError) as caught:
        check_signature(MANIFEST, signature, trusted=trusted)
    assert caught.value.message == "manifest.sig is not a signature of the bundle's manifest"
    assert caught.value.facts == {}


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=400), st.integers(min_value=0), st.integers(min_value=0, max_value=7))
def test_one_bit_more_or_less_is_noticed(manifest: bytes, at: int, bit: int) -> None:
    signature = KEY.sign(PURPOSE + manifest)
    changed = bytearray(signature)
    changed[at % 64] ^= 1 << bit
    assert KEY.public.verifies(PURPOSE + manifest, signature)
    assert not KEY.public.verifies(PURPOSE + manifest, bytes(changed))
    assert not KEY.public.verifies(PURPOSE + manifest + b"\x00", signature)
