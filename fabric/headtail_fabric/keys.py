"""CURVE key pairs and the files they lie in.

    <dir>/<name>.key   TOML: name, public, secret; mode 0600, loaded only while nobody else may read
    <dir>/<name>.pub   one line: the name, a space, the public key

Keys are Curve25519 (CurveZMQ, ZeroMQ RFC 26) in Z85 text, 40 characters (RFC 32). A key file is
never overwritten: whoever wants another key takes another name or removes the file.
"""

import errno
import os
import re
import shlex
import stat
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import msgspec
import zmq
from msgspec import Meta
from zmq.utils import z85

from headtail_fabric import config
from headtail_fabric.errors import ConfigError, ResourceError

NAME_PATTERN: Final = r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"
Identifier = Annotated[str, Meta(pattern=NAME_PATTERN)]

KEY_CHARS: Final = 40
MAX_FILE_BYTES: Final = 4096


class BadNameError(ConfigError):
    """That can't be a name. Names have 1 to 64 letters, digits, dots, dashes and underscores, and
    begin with a letter or a digit."""


class BadKeyError(ConfigError):
    """That is not a CURVE key. A key is 40 characters of Z85 text; quote it on the command line,
    or give the .pub file instead."""


class KeyMissingError(ConfigError):
    """There is no such key file. Make a key pair with `headtail keys new NAME`, or correct the
    path."""


class KeyExistsError(ConfigError):
    """A key of this name exists and keys are never overwritten. Choose another name; to replace
    the key, revoke it where it is enrolled and remove its two files first."""


class KeyExposedError(ConfigError):
    """Other users of this machine may read the secret key. Run the `chmod 600` that the message
    names; if somebody may have read it already, make a new key and revoke this one."""


class KeyMalformedError(ConfigError):
    """The file does not hold what a key file must hold. Restore it from a copy, or make a new key
    pair with `headtail keys new NAME`."""


class KeyMismatchError(KeyMalformedError):
    """The public key in the file does not belong to the secret key in it: the file was edited or
    mixed up. Restore it from a copy, or make a new key pair."""


class KeyFileError(ResourceError):
    """The machine refused to read or write a key file. Check the folder's owner, its permissions
    and the space on the disk."""


class CurveMissingError(ResourceError):
    """This machine's libzmq was built without CURVE. Install the pyzmq wheel from PyPI, which has
    it (`pip install --force-reinstall pyzmq`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """Who one is, for others: safe to show and to send."""

    name: str
    public: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A public and a secret key, both Z85. The secret appears in no repr."""

    name: str
    public: str
    secret: str = field(repr=False)


class _KeyFile(msgspec.Struct, frozen=True, kw_only=True):
    name: Identifier
    public: str
    secret: str


def default_dir() -> Path:
    """`headtail/keys` in the user's configuration folder (XDG Base Directory)."""
    return config.home() / "keys"


def check_name(name: str) -> str:
    """`name` when it can be the name of a key. Raises BadNameError."""
    if not re.match(NAME_PATTERN, name):
        raise BadNameError(f"{name[:80]!r} is not a name")
    return name


def check_public(public: str) -> str:
    """`public` when it is 32 bytes in Z85. Raises BadKeyError."""
    if len(public) != KEY_CHARS:
        raise BadKeyError(f"{public[:KEY_CHARS]!r} has {len(public)} characters, not {KEY_CHARS}")
    try:
        z85.decode(public)
    except (KeyError, ValueError, struct.error):
        raise BadKeyError(f"{public!r} is not Z85 text") from None
    return public


def generate(name: str) -> KeyPair:
    """A new key pair from the system's random numbers.

    The public key never begins with a dash, so that it can be an argument on a command line.
    Raises BadNameError, CurveMissingError.
    """
    check_name(name)
    try:
        public, secret = zmq.curve_keypair()
        while public.startswith(b"-"):
            public, secret = zmq.curve_keypair()
    except zmq.ZMQError as error:
        raise CurveMissingError(f"no key pair can be made: {error}") from None
    return KeyPair(name=name, public=public.decode(), secret=secret.decode())


def key_path(directory: Path, name: str) -> Path:
    """Where the key pair of that name lies. Raises BadNameError."""
    return directory / f"{check_name(name)}.key"


def save(pair: KeyPair, directory: Path) -> Path:
    """Write both files of `pair`, safe against a power cut; returns the secret one's path.

    Raises KeyExistsError when either file is there, KeyFileError when the machine refuses.
    """
    secret_path = key_path(directory, pair.name)
    return save_files(
        pair, secret_path=secret_path, public_path=secret_path.with_name(f"{pair.name}.pub")
    )


def save_files(pair: KeyPair, *, secret_path: Path, public_path: Path) -> Path:
    """`save` for a pair of any kind, into files of any name in one folder."""
    directory = secret_path.parent
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if secret_path.exists() or public_path.exists():
            raise KeyExistsError(f"a key named {pair.name} lies in {directory}", path=secret_path)
        write_new(secret_path, _key_text(pair, public_path), mode=0o600)
        _write_public(pair, public_path, secret_path)
    except OSError as error:
        raise KeyFileError(f"{directory}: {error.strerror}", directory=directory) from None
    return secret_path


def load(path: Path) -> KeyPair:
    """The key pair in a `.key` file.

    Raises KeyMissingError, KeyExposedError (anybody but the owner may read, write or run it),
    KeyMalformedError, KeyMismatchError, KeyFileError, CurveMissingError.
    """
    stored = read_pair(path)
    if _public_of(stored.secret, path) != stored.public:
        raise KeyMismatchError(f"{path}: public and secret key do not belong together", path=path)
    return stored


def read_pair(path: Path) -> KeyPair:
    """What a secret key's file says, of any kind: the keys themselves are not looked at.

    Raises KeyMissingError, KeyExposedError, KeyMalformedError, KeyFileError.
    """
    text = _read(path, private=True)
    try:
        stored = config.parse(_KeyFile, text, source=str(path))
    except ConfigError as error:
        raise KeyMalformedError(error.message, path=path) from None
    return KeyPair(name=stored.name, public=stored.public, secret=stored.secret)


def load_public(path: Path) -> PublicKey:
    """The public key in a `.pub` file. Raises KeyMissingError, KeyMalformedError, KeyFileError."""
    name, public = read_public_line(path)
    try:
        return PublicKey(name=check_name(name), public=check_public(public))
    except ConfigError as error:
        raise KeyMalformedError(f"{path}: {error.message}", path=path) from None


def read_public_line(path: Path) -> tuple[str, str]:
    """Name and key of a public key's file, of any kind, unchecked. Raises KeyMissingError,
    KeyMalformedError, KeyFileError."""
    words = _read(path, private=False).split()
    if len(words) != 2:
        raise KeyMalformedError(f"{path}: not one line of a name and a public key", path=path)
    return words[0], words[1]


def write_new(path: Path, text: str, *, mode: int) -> None:
    """Create `path` with exactly `mode` and get its bytes and its name to the disk.

    Raises OSError, FileExistsError among them; leaves nothing half written behind.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, mode)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Get the names in `directory` to the disk. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_public(pair: KeyPair, public_path: Path, secret_path: Path) -> None:
    try:
        write_new(public_path, f"{pair.name} {pair.public}\n", mode=0o644)
    except OSError:
        secret_path.unlink()  # half a pair would be in the way, and nobody has seen it yet
        raise


def _key_text(pair: KeyPair, public_path: Path) -> str:
    # Neither names nor Z85 hold a character that TOML would want escaped.
    return (
        f"# Headtail key pair. Keep this file to yourself; give away {public_path.name}.\n"
        f'name = "{pair.name}"\npublic = "{pair.public}"\nsecret = "{pair.secret}"\n'
    )


def _read(path: Path, *, private: bool) -> str:
    try:
        # Without O_NONBLOCK a pipe in the place of a file would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _check_status(path, os.fstat(descriptor), private=private)
            content = os.read(descriptor, MAX_FILE_BYTES + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise KeyMissingError(f"no key file {path}", path=path) from None
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}", path=path) from None
    if len(content) > MAX_FILE_BYTES:
        raise KeyMalformedError(f"{path} is larger than a key file can be", path=path)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise KeyMalformedError(f"{path} is not text", path=path) from None


def _check_status(path: Path, status: os.stat_result, *, private: bool) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyMalformedError(f"{path} is not a file", path=path)
    if private and status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise KeyExposedError(
            f"{path} has mode {mode:04o}: run `chmod 600 {shlex.quote(str(path))}`",
            path=path,
            mode=mode,
        )


def _public_of(secret: str, path: Path) -> str:
    if len(secret) != KEY_CHARS or not secret.isascii():
        raise KeyMalformedError(f"{path}: the secret key is not a key", path=path)
    try:
        return zmq.curve_public(secret.encode()).decode()
    except zmq.ZMQError as error:
        if error.errno == errno.ENOTSUP:
            raise CurveMissingError(f"{path} can't be checked: {error}") from None
        raise KeyMalformedError(f"{path}: the secret key is not a key", path=path) from None
