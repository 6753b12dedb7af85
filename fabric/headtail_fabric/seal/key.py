"""Sealing key pairs (X25519), and the files they lie in, beside the CURVE keys.

    <dir>/<name>.seal        TOML: name, public, secret; mode 0600, as a CURVE key's file
    <dir>/<name>.seal.pub    one line: the name, a space, the public key: `seal:`, 40 characters

A CURVE key speaks for one end of a connection and is taken from a device when it is lost; the
sealing key is the edge's alone and may be kept on another machine than the one that listens.
"""

import secrets
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zmq.utils import z85

from headtail_fabric import keys
from headtail_fabric.errors import ConfigError
from headtail_fabric.keys import BadKeyError, KeyMalformedError, KeyMismatchError, KeyPair
from headtail_fabric.seal.cipher import KEY_BYTES, best_cipher
from headtail_fabric.seal.errors import TamperedError

SUFFIX: Final = ".seal"
PUBLIC_SUFFIX: Final = ".seal.pub"
_SCHEME: Final = "seal:"


class BadSealKeyError(BadKeyError):
    """That is not a sealing key. One is `seal:` and 40 characters; quote it, or give the
    `.seal.pub` file that `headtail keys seal NAME` made on the edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealKeyPair:
    """An edge's sealing keys, 32 bytes each. The secret appears in no repr."""

    name: str
    public: bytes
    secret: bytes = field(repr=False)

    @property
    def public_text(self) -> str:
        """The public key as it is written in files and settings."""
        return public_text(self.public)


def public_text(public: bytes) -> str:
    """A public key as it is written in files and settings."""
    return _SCHEME + z85.encode(public).decode()


def generate(name: str) -> SealKeyPair:
    """A new pair from the system's random numbers. Raises BadNameError."""
    keys.check_name(name)
    secret = secrets.token_bytes(KEY_BYTES)
    return SealKeyPair(name=name, public=best_cipher().public(secret), secret=secret)


def save(pair: SealKeyPair, directory: Path) -> Path:
    """Write both files; returns the secret one's path. Raises as `keys.save`."""
    text = KeyPair(name=pair.name, public=pair.public_text, secret=z85.encode(pair.secret).decode())
    return keys.save_files(
        text,
        secret_path=directory / f"{keys.check_name(pair.name)}{SUFFIX}",
        public_path=directory / f"{pair.name}{PUBLIC_SUFFIX}",
    )


def load(path: Path) -> SealKeyPair:
    """The pair in a `.seal` file. Raises as `keys.load`."""
    stored = keys.read_pair(path)
    try:
        secret = _decode(stored.secret)
        public = parse_public(stored.public)
    except BadKeyError as error:
        raise KeyMalformedError(f"{path}: {error.message}", path=path) from None
    if best_cipher().public(secret) != public:
        raise KeyMismatchError(f"{path}: public and secret key do not belong together", path=path)
    return SealKeyPair(name=stored.name, public=public, secret=secret)


def load_public(path: Path) -> bytes:
    """The key in a `.seal.pub` file. Raises KeyMissingError, KeyMalformedError, KeyFileError."""
    name, public = keys.read_public_line(path)
    try:
        keys.check_name(name)
        return parse_public(public)
    except ConfigError as error:
        raise KeyMalformedError(f"{path}: {error.message}", path=path) from None


def public_key(setting: str) -> bytes:
    """A key as it is (`seal:...`), or out of a `.seal.pub` file. Raises BadSealKeyError and what
    `load_public` raises."""
    if setting.startswith(_SCHEME):
        key = parse_public(setting)
    else:
        key = load_public(Path(setting).expanduser())
    try:
        best_cipher().agree(secrets.token_bytes(KEY_BYTES), key)
    except TamperedError:
        raise BadSealKeyError("the sealing key is of small order: it would hide nothing") from None
    return key


def parse_public(text: str) -> bytes:
    """The 32 bytes of `seal:...`. Raises BadSealKeyError."""
    if not text.startswith(_SCHEME):
        raise BadSealKeyError(f"{text[:20]!r} does not begin with {_SCHEME}")
    return _decode(text.removeprefix(_SCHEME))


def _decode(text: str) -> bytes:
    try:
        key = z85.decode(text) if text.isascii() else b""
    except (KeyError, ValueError, struct.error):
        key = b""
    if len(key) != KEY_BYTES:
        raise BadSealKeyError("the key is not 32 bytes in Z85")
    return key
