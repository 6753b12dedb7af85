"""Where bundles lie on this machine, each in a folder named by its digest.

A packed bundle is unpacked here once; every later use verifies it again, so a copy that a power
cut or a hand has damaged is replaced and never used. One lock file keeps processes from unpacking
the same bundle at the same time.
"""

import difflib
import fcntl
import hashlib
import logging
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headtail_fabric.config import cache_home
from headtail_fabric.logs import fields
from headtail_models.bundle.archive import Archive
from headtail_models.bundle.content import storage_errors
from headtail_models.bundle.errors import (
    AlteredFileError,
    BundleError,
    NoSuchBundleError,
)
from headtail_models.bundle.folder import (
    check_folder,
    read_manifest,
    read_signature,
    write_signature,
)
from headtail_models.bundle.limits import DEFAULT_LIMITS, Limits
from headtail_models.bundle.manifest import MANIFEST, FileEntry, Manifest, decode_manifest
from headtail_models.bundle.pack import SUFFIX

log = logging.getLogger(__name__)

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_DIGEST_START: Final = re.compile(r"[0-9a-f]{8,64}")
_LOCK: Final = ".lock"
_UNPACKING: Final = ".unpack-"
_BUILDING: Final = ".build-"


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedBundle:
    """A bundle of the cache, by its manifest alone: its files have not been looked at.

    `manifest` is None when it can't be read; `fault` then says why.
    """

    path: Path
    digest: bytes
    manifest: Manifest | None
    fault: str = ""
    added_at_s: float = 0.0


class BundleCache:
    """The bundles below `root`, which need not be there yet."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root if root is not None else default_root()

    def entries(self) -> Iterator[CachedBundle]:
        """Every bundle, the newest version of each name first. Raises BundleStorageError."""
        with storage_errors(self.root):
            found = [
                _look(folder)
                for folder in (self.root.iterdir() if self.root.is_dir() else ())
                if _DIGEST.fullmatch(folder.name)
            ]
        found.sort(key=_recency, reverse=True)
        found.sort(key=lambda entry: entry.manifest.name if entry.manifest else "")
        yield from found

    def find(self, reference: str) -> Path:
        """The bundle that a person means: a path, a name, `name-version`, or the first 8 or more
        digits of a digest. Of several the newest version is meant, and of that the last added.

        Raises NoSuchBundleError, BundleStorageError.
        """
        if "/" not in reference and not reference.endswith(SUFFIX):
            entries = [entry for entry in self.entries() if entry.manifest is not None]
            matching = [entry for entry in entries if _matches(entry, reference)]
            if matching:
                return max(matching, key=_recency).path
        path = Path(reference)
        with storage_errors(path):
            if path.exists():
                return path
        names = {entry.manifest.name for entry in self.entries() if entry.manifest}
        near = difflib.get_close_matches(reference, names, n=1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        raise NoSuchBundleError(f"no bundle {reference!r}{hint}", reference=reference)

    def unpack(
        self,
        archive: Archive,
        *,
        manifest: bytes,
        signature: bytes | None,
        files: Sequence[FileEntry],
        renew_signature: bool,
    ) -> Path:
        """The folder of a packed bundle whose manifest has been checked; unpacked only when it
        is not there or no longer whole.

        A signature that lies in the folder stays unless it is to be renewed. Raises what
        `Archive.copy` does, OSError; nothing half unpacked stays behind.
        """
        archive.check_listing(files)
        target = self._folder(manifest)
        with self._locked():
            if not _is_whole(target, manifest, files):
                self._unpack(archive, manifest, files, target)
            kept = read_signature(target)
            if signature not in (None, kept) and (kept is None or renew_signature):
                write_signature(target, signature)
        return target

    def adopt(self, folder: Path) -> Path:
        """Move a bundle's folder into the cache; it must lie on the same file system.

        One with the same digest that is there already and whole is kept, and `folder` removed.
        Raises BundleError, BundleStorageError.
        """
        with storage_errors(folder):
            manifest = read_manifest(folder, limits=DEFAULT_LIMITS)
            files = decode_manifest(manifest).files
            target = self._folder(manifest)
            with self._locked():
                if _is_whole(target, manifest, files):
                    _remove(folder)
                else:
                    _remove(target)
                    folder.rename(target)
        return target

    @contextmanager
    def workshop(self) -> Iterator[Path]:
        """A folder to build a bundle in that can then be adopted; removed at the end, with what
        is left in it. Raises BundleStorageError."""
        with storage_errors(self.root):
            self._make_root()
            folder = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=self.root))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _folder(self, manifest: bytes) -> Path:
        return self.root / hashlib.sha256(manifest).hexdigest()

    def _unpack(
        self, archive: Archive, manifest: bytes, files: Sequence[FileEntry], target: Path
    ) -> None:
        part = Path(tempfile.mkdtemp(prefix=_UNPACKING, dir=self.root))
        try:
            for entry in files:
                path = part / entry.path
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    archive.copy(entry, file)
                path.chmod(0o444)  # a runtime maps the weights: they must not change in place
            (part / MANIFEST).write_bytes(manifest)
            _remove(target)
            part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._make_root()
        with (self.root / _LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Whoever left these behind no longer holds the lock, so it is dead.
            for stale in self.root.glob(_UNPACKING + "*"):
                _remove(stale)
            yield

    def _make_root(self) -> None:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)


def default_root() -> Path:
    """Where bundles lie in the user's cache folder. Raises what `config.cache_home` does."""
    return cache_home() / "bundles"


def _look(folder: Path) -> CachedBundle:
    digest, added_at_s = bytes.fromhex(folder.name), folder.stat().st_mtime
    try:
        data = read_manifest(folder, limits=DEFAULT_LIMITS)
        if hashlib.sha256(data).digest() != digest:
            raise AlteredFileError(f"{MANIFEST} is another one", path=MANIFEST)
        manifest = decode_manifest(data)
    except BundleError as error:
        return CachedBundle(path=folder, digest=digest, manifest=None, fault=error.message)
    return CachedBundle(path=folder, digest=digest, manifest=manifest, added_at_s=added_at_s)


def _recency(entry: CachedBundle) -> tuple[tuple[int, ...], float]:
    version = entry.manifest.version if entry.manifest else "0"
    return tuple(map(int, version.split("."))), entry.added_at_s


def _matches(entry: CachedBundle, reference: str) -> bool:
    assert entry.manifest is not None
    by_digest = _DIGEST_START.fullmatch(reference) and entry.digest.hex().startswith(reference)
    name, version = entry.manifest.name, entry.manifest.version
    return bool(by_digest) or reference in (name, f"{name}-{version}")


def _is_whole(folder: Path, manifest: bytes, files: Sequence[FileEntry]) -> bool:
    if not folder.is_dir():
        return False
    try:
        if read_manifest(folder, limits=Limits(max_manifest_bytes=len(manifest))) != manifest:
            raise AlteredFileError(f"{MANIFEST} is another one", path=MANIFEST)
        check_folder(folder, files)
    except BundleError as error:
        log.warning("cached bundle is damaged", extra=fields(path=folder, fault=error.message))
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
