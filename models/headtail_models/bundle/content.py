"""A file's content, streamed: copied and held against what the manifest says of it."""

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, Protocol

from headtail_models.bundle.errors import (
    AlteredFileError,
    BundleStorageError,
    LinkInBundleError,
    TruncatedFileError,
)
from headtail_models.bundle.manifest import FileEntry

CHUNK_BYTES: Final = 1024 * 1024


class Sink(Protocol):
    """Where a copy goes: a file, or the entry of an archive."""

    def write(self, data: bytes, /) -> object: ...


class Nowhere:
    """The sink of a copy that is only to be measured."""

    def write(self, data: bytes, /) -> None:
        pass


def copy_measured(
    source: IO[bytes], sink: Sink, path: str, *, enough_bytes: int | None = None
) -> FileEntry:
    """Copy what there is and return what a manifest says of it.

    Stops with the first chunk that goes beyond `enough_bytes`.
    """
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(CHUNK_BYTES):
        size += len(chunk)
        digest.update(chunk)
        sink.write(chunk)
        if enough_bytes is not None and size > enough_bytes:
            break
    return FileEntry(path=path, size_bytes=size, sha256=digest.hexdigest())


def copy_checked(source: IO[bytes], sink: Sink, entry: FileEntry) -> None:
    """Copy the content of `entry`.

    Raises TruncatedFileError or AlteredFileError; what was written till then is worthless.
    """
    found = copy_measured(source, sink, entry.path, enough_bytes=entry.size_bytes)
    check_size(entry, found.size_bytes)
    if found.sha256 != entry.sha256:
        raise AlteredFileError(
            f"file {entry.path!r} has another SHA-256 than the manifest lists",
            path=entry.path,
            expected=entry.sha256,
            found=found.sha256,
        )


def check_size(entry: FileEntry, size_bytes: int) -> None:
    """Raises TruncatedFileError when a file is too short, AlteredFileError when too long."""
    if size_bytes < entry.size_bytes:
        raise TruncatedFileError(
            f"file {entry.path!r} has {size_bytes} of {entry.size_bytes} bytes", path=entry.path
        )
    if size_bytes > entry.size_bytes:
        raise AlteredFileError(
            f"file {entry.path!r} has more than the {entry.size_bytes} bytes it should have",
            path=entry.path,
        )


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turns what the operating system says about `path` into BundleStorageError."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        raise BundleStorageError(f"{where}: {error.strerror or error}", path=str(where)) from error


def open_plain(path: Path) -> IO[bytes]:
    """Open a file for reading; never through a link, never a pipe that would block.

    Raises LinkInBundleError, OSError.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise LinkInBundleError(f"{path} is a symbolic link", path=str(path)) from None
        raise
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise LinkInBundleError(f"{path} is not a plain file", path=str(path))
    return file


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` once it is whole and on the disk; when anything
    fails before, what was there stays. Raises OSError."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
