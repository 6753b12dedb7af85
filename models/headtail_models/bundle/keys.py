"""Ed25519 keys that bundles are signed with, and their files.

Files are PEM: PKCS #8 for the secret key, of mode 0600, and SubjectPublicKeyInfo for the public
one (RFC 8410), so that other tools can make and read them.
"""

import base64
import hashlib
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa

from headtail_models.bundle.errors import KeyFileError

KEY_BYTES: Final = 32
MAX_FILE_BYTES: Final = 4096
KEY_SUFFIX: Final = ".key"
PUBLIC_SUFFIX: Final = ".pub"

_CURVE: Final = "Ed25519"
_COFACTOR: Final = 8


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The 32 bytes of RFC 8032, section 5.1.5. Raises ValueError when they are not a key, or one
    of the few keys of low order, under which a signature proves nothing."""

    raw: bytes

    def __post_init__(self) -> None:
        _check_size(self.raw)
        # The library, too, calls a bad encoding a ValueError.
        if (self._ecc().pointQ * _COFACTOR).is_point_at_infinity():
            raise ValueError("Ed25519 key of low order")

    @property
    def fingerprint(self) -> str:
        """80 bits of the key's SHA-256 in base32, for people to compare."""
        text = base64.b32encode(hashlib.sha256(self.raw).digest()[:10]).decode().lower()
        return "-".join(text[at : at + 4] for at in range(0, len(text), 4))

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether `signature` is this key's for `message`; False for anything malformed."""
        try:
            eddsa.new(self._ecc(), "rfc8032").verify(message, signature)
        except ValueError:
            return False
        return True

    def pem(self) -> str:
        """The key as a PEM file holds it."""
        return self._ecc().export_key(format="PEM") + "\n"

    def _ecc(self) -> ECC.EccKey:
        return eddsa.import_public_key(self.raw)


@dataclass(frozen=True, slots=True, eq=False)
class SecretKey:
    """The 32-byte seed of RFC 8032, section 5.1.5; not shown by `repr`."""

    seed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        _check_size(self.seed)

    @classmethod
    def generate(cls) -> "SecretKey":
        """A new key, from the system's randomness."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @property
    def public(self) -> PublicKey:
        """The key that others verify with."""
        return PublicKey(self._ecc().public_key().export_key(format="raw"))

    def sign(self, message: bytes) -> bytes:
        """The 64 bytes of the signature, the same each time."""
        return eddsa.new(self._ecc(), "rfc8032").sign(message)

    def pem(self) -> str:
        """The key as a PEM file holds it, not encrypted."""
        return self._ecc().export_key(format="PEM") + "\n"

    def _ecc(self) -> ECC.EccKey:
        return eddsa.import_private_key(self.seed)


def _check_size(raw: bytes) -> None:
    if len(raw) != KEY_BYTES:
        raise ValueError(f"an Ed25519 key of {len(raw)} bytes")


def create_key_files(stem: Path) -> tuple[Path, Path]:
    """Make a key pair: the secret key in `stem`.key, of mode 0600, the public one in `stem`.pub.

    Returns both paths. Raises KeyFileError when either is there already: no key is overwritten.
    """
    secret_path = stem.with_name(stem.name + KEY_SUFFIX)
    public_path = stem.with_name(stem.name + PUBLIC_SUFFIX)
    if public_path.exists():
        raise KeyFileError(f"{public_path} is there already", path=str(public_path))
    key = SecretKey.generate()
    _write_new(secret_path, key.pem(), mode=0o600)
    _write_new(public_path, key.public.pem(), mode=0o644)
    return secret_path, public_path


def load_secret_key(path: Path) -> SecretKey:
    """The secret key in that file. Raises KeyFileError, also when others may read the file."""
    key = _load(path, secret=True)
    if not key.has_private():
        raise KeyFileError(f"{path} holds a public key, not a secret one", path=str(path))
    return SecretKey(key.seed)


def load_public_key(path: Path) -> PublicKey:
    """The public key in that file. Raises KeyFileError, also for a secret key, which has no
    business where a public one is asked for."""
    key = _load(path, secret=False)
    if key.has_private():
        raise KeyFileError(f"{path} holds a secret key, not a public one", path=str(path))
    try:
        return PublicKey(key.export_key(format="raw"))
    except ValueError as error:
        raise KeyFileError(f"{path}: {error}", path=str(path)) from None


def _write_new(path: Path, text: str, *, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}", path=str(path)) from error


def _load(path: Path, *, secret: bool) -> ECC.EccKey:
    try:
        with path.open("rb") as file:
            if secret and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise KeyFileError(f"{path} can be read by others; chmod 600 it", path=str(path))
            data = file.read(MAX_FILE_BYTES)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}", path=str(path)) from error
    try:
        key = ECC.import_key(data)
    except (ValueError, IndexError, TypeError):
        raise KeyFileError(f"{path} does not hold a key in PEM", path=str(path)) from None
    if key.curve != _CURVE:
        raise KeyFileError(f"{path} holds a key of {key.curve}, not {_CURVE}", path=str(path))
    return key
