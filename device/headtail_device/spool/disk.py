"""The few things that a spool asks of a disk, and a folder that does them."""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final, Protocol

from headtail_device.spool.errors import SpoolError, SpoolInUseError

_LOCK: Final = "lock"
_SUFFIX: Final = ".spool"


class Disk(Protocol):
    """Named files that grow at their end. Everything may raise OSError."""

    def names(self) -> list[str]:
        """The files that are there, sorted."""
        ...

    def read(self, name: str, at: int = 0, size: int | None = None) -> bytes:
        """Some bytes of a file, or all; fewer when it ends before."""
        ...

    def append(self, name: str, data: bytes) -> None:
        """Add to a file, which is made if need be. When it fails, a part may have been added."""
        ...

    def put(self, name: str, at: int, value: int) -> None:
        """Replace one byte of a file: done or not, and it needs no space."""
        ...

    def cut(self, name: str, size: int) -> None:
        """Shorten a file."""
        ...

    def sync(self, name: str) -> None:
        """A file survives a loss of power as it is now."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...

    def close(self) -> None: ...


class FolderDisk:
    """A folder of this process alone."""

    def __init__(self, folder: Path) -> None:
        """Makes the folder. Raises SpoolInUseError when another process has it, SpoolError."""
        self._folder = folder
        self._open: dict[str, int] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SpoolError(f"{folder}: {error.strerror}", path=str(folder)) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            if isinstance(error, BlockingIOError):
                raise SpoolInUseError(f"{folder} is in use", path=str(folder)) from error
            raise SpoolError(f"{folder}: {error.strerror}", path=str(folder)) from error

    def __repr__(self) -> str:
        return f"<FolderDisk {self._folder}>"

    def names(self) -> list[str]:
        return sorted(file.stem for file in self._folder.glob(f"*{_SUFFIX}"))

    def read(self, name: str, at: int = 0, size: int | None = None) -> bytes:
        with self._path(name).open("rb") as file:
            file.seek(at)
            return file.read(-1 if size is None else size)

    def append(self, name: str, data: bytes) -> None:
        descriptor, rest = self._descriptor(name), memoryview(data)
        at = os.fstat(descriptor).st_size
        while rest:
            written = os.pwrite(descriptor, rest, at)
            at, rest = at + written, rest[written:]

    def put(self, name: str, at: int, value: int) -> None:
        os.pwrite(self._descriptor(name), bytes([value]), at)

    def cut(self, name: str, size: int) -> None:
        os.ftruncate(self._descriptor(name), size)

    def sync(self, name: str) -> None:
        os.fdatasync(self._descriptor(name))

    def remove(self, name: str) -> None:
        descriptor = self._open.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)
        self._path(name).unlink(missing_ok=True)

    def close(self) -> None:
        for descriptor in self._open.values():
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._open.clear()
        os.close(self._lock)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{_SUFFIX}"

    def _descriptor(self, name: str) -> int:
        if name not in self._open:
            path = self._path(name)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._open[name] = os.open(path, flags, 0o600)
            self._sync_folder()
        return self._open[name]

    def _sync_folder(self) -> None:
        """A new file's name survives a loss of power too."""
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
