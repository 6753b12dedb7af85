"""Half-received bundles on the disk: `<digest>-<total bytes>.part`, as long as what came so far.

Names are made of a digest and a number only, so nothing is ever written outside the folder.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headtail_edge.push import Held
from headtail_fabric.errors import ResourceError
from headtail_fabric.wire import Buffer

_SUFFIX = ".part"


class PartStoreError(ResourceError):
    """The disk did not take a bundle that a device sends. Free some space, or correct the
    permissions of the folder in the message; the device is asked again after a while."""


class PartStore:
    """The part files in one folder; when there are `max_files`, a new one replaces the oldest."""

    def __init__(self, folder: Path, *, max_files: int = 8) -> None:
        """Makes the folder, for this user only. Raises PartStoreError."""
        self._folder = folder
        self._max_files = max_files
        with _disk_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def __repr__(self) -> str:
        return f"<PartStore {self._folder}>"

    def held(self, digest: bytes) -> Held | None:
        """What there is of that bundle. Raises PartStoreError."""
        with _disk_errors(self._folder):
            for path in self._folder.glob(f"{digest.hex()}-*{_SUFFIX}"):
                total = path.stem.rpartition("-")[2]
                if total.isdecimal() and path.stat().st_size <= int(total):
                    return Held(offset=path.stat().st_size, total=int(total))
                path.unlink()
        return None

    def append(self, digest: bytes, *, offset: int, total: int, payload: Buffer) -> None:
        """Write `payload` behind the `offset` bytes that there are. Raises PartStoreError; what
        came before may then be damaged and must be discarded."""
        path = self.path(digest, total)
        with _disk_errors(path):
            if offset == 0:
                self._make_room()
            with path.open("wb" if offset == 0 else "r+b") as file:
                file.seek(offset)
                file.write(payload)

    def discard(self, digest: bytes) -> None:
        """Remove what there is. Raises PartStoreError."""
        with _disk_errors(self._folder):
            for path in self._folder.glob(f"{digest.hex()}-*{_SUFFIX}"):
                path.unlink()

    def path(self, digest: bytes, total: int) -> Path:
        """Where the bundle lies when all of it is there."""
        return self._folder / f"{digest.hex()}-{total}{_SUFFIX}"

    def _make_room(self) -> None:
        files = sorted(self._folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime)
        for path in files[: max(0, len(files) - self._max_files + 1)]:
            path.unlink()


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PartStoreError(f"{path}: {error.strerror or error}", path=str(path)) from error
