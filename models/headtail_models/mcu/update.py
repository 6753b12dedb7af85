"""Signed updates: what a node takes a new head from.

    manifest, one line of JSON | signature of that line, in hex, one line | the blob

RSA PKCS #1 v1.5 with SHA-256: the one signature that a board checks in a fraction of a second with
nothing but whole numbers.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from Crypto.Hash import SHA256
from Crypto.PublicKey import RSA
from Crypto.Signature import pkcs1_15

from headtail_fabric.errors import ConfigError
from headtail_models.mcu.errors import McuError
from headtail_models.mcu.program import Program

SCHEMA: Final = 1
MAX_LINE: Final = 1024
_LEAST_BITS: Final = 2048
_FIRMWARE: Final = (0, 1, 0)
"""The first firmware that runs blobs of this version."""


class SigningKeyError(ConfigError):
    """The signing key can't be used. Make one with `openssl genrsa -out key.pem 2048`, and give its
    public part to the nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """`number` only grows: a node takes nothing that is not above what it has confirmed."""

    name: str
    version: str
    number: int


class SigningKey:
    """A private RSA key of at least 2048 bits."""

    def __init__(self, key: RSA.RsaKey) -> None:
        """Raises SigningKeyError."""
        if not key.has_private() or key.size_in_bits() < _LEAST_BITS or key.e != 65537:
            raise SigningKeyError(
                f"an RSA key of {key.size_in_bits()} bits; a private one of {_LEAST_BITS} or more "
                "with exponent 65537 is needed"
            )
        self._key = key

    @classmethod
    def read(cls, path: Path) -> "SigningKey":
        """From a PEM file. Raises SigningKeyError, ConfigError."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror or error}") from None
        try:
            return cls(RSA.import_key(data))
        except (ValueError, IndexError, TypeError):
            raise SigningKeyError(f"{path} is no RSA key in PEM") from None

    @property
    def modulus(self) -> bytes:
        """What a node checks with."""
        return self._key.n.to_bytes(self._key.size_in_bytes(), "big")

    @property
    def id(self) -> str:
        """Names the key in manifests: the first 8 bytes of its modulus's SHA-256, in hex."""
        return hashlib.sha256(self.modulus).hexdigest()[:16]

    def sign(self, message: bytes) -> bytes:
        return pkcs1_15.new(self._key).sign(SHA256.new(message))


def make_update(program: Program, release: Release, key: SigningKey) -> bytes:
    """The `.update` file. Raises McuError for a name that makes the manifest too long."""
    manifest = {
        "schema": SCHEMA,
        "name": release.name,
        "version": release.version,
        "release": release.number,
        "size": len(program.blob),
        "sha256": hashlib.sha256(program.blob).hexdigest(),
        "min_firmware": list(_FIRMWARE),
        "ram": program.arena,
        "key_id": key.id,
    }
    line = json.dumps(manifest, separators=(",", ":")).encode()
    if len(line) > MAX_LINE:
        raise McuError(f"a manifest of {len(line)} bytes, {MAX_LINE} allowed: shorten the name")
    return line + b"\n" + key.sign(line).hex().encode() + b"\n" + program.blob
