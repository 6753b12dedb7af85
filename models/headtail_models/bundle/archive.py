"""A packed bundle as it is read: any plain zip, entry by entry, as far as the manifest says.

Nothing is believed that the zip says of itself, and nothing is unpacked before its list of
entries agrees with the manifest. Section numbers are those of PKWARE's APPNOTE.TXT 6.3.
"""

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from headtail_models.bundle.content import Sink, check_size, copy_checked
from headtail_models.bundle.errors import (
    DamagedArchiveError,
    LinkInBundleError,
    MissingManifestError,
    NotABundleError,
    OversizedBundleError,
    UnsupportedArchiveError,
)
from headtail_models.bundle.folder import check_listing
from headtail_models.bundle.limits import MAX_SIGNATURE_BYTES, Limits
from headtail_models.bundle.manifest import MANIFEST, SIGNATURE, FileEntry
from headtail_models.bundle.paths import OWN_FILES, check_paths

_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED: Final = 0x1 | 0x40 | 0x2000  # 4.4.4
_LOCAL_HEADER_BYTES: Final = 30
_DIRECTORY_ENTRY_BYTES: Final = 1024  # ample: names end at 200 bytes

_FIRST: Final = b"PK\x03\x04"
_END: Final = struct.Struct("<4s 4H 2L H")  # 4.3.16
_LOCATOR: Final = struct.Struct("<4s L Q L")  # 4.3.15
_END64: Final = struct.Struct("<4s Q 2H 2L 4Q")  # 4.3.14


class Archive:
    """A packed bundle open for reading; its list of entries has been checked."""

    def __init__(self, path: Path, file: IO[bytes], *, limits: Limits) -> None:
        """Raises NotABundleError, DamagedArchiveError, UnsupportedArchiveError, UnsafePathError,
        LinkInBundleError, DuplicateEntryError, OversizedBundleError, OSError."""
        self._path = path
        self._limits = limits
        self._size_bytes = file.seek(0, os.SEEK_END)
        with self._damage():
            self._check_end(file)
            self._zip = zipfile.ZipFile(file)
        self._entries = self._checked_entries()

    def manifest(self) -> bytes:
        """The bytes of manifest.json. Raises MissingManifestError, OversizedBundleError,
        DamagedArchiveError, OSError."""
        data = self._read(MANIFEST, self._limits.max_manifest_bytes)
        if data is None:
            raise MissingManifestError(f"{self._path} has no {MANIFEST} at its top")
        return data

    def signature(self) -> bytes | None:
        """The bytes of manifest.sig, if there. Raises OversizedBundleError, DamagedArchiveError,
        OSError."""
        return self._read(SIGNATURE, MAX_SIGNATURE_BYTES)

    def check_listing(self, files: Sequence[FileEntry]) -> None:
        """Hold names and sizes against the manifest.

        Raises MissingFileError, ExtraFileError, TruncatedFileError, AlteredFileError,
        OversizedBundleError.
        """
        check_listing(iter(self._entries), files)
        for entry in files:
            check_size(entry, self._entries[entry.path].file_size)
        total = sum(entry.size_bytes for entry in files)
        if total > self._limits.max_ratio * self._size_bytes:
            raise OversizedBundleError(
                f"{self._path}: {self._size_bytes} bytes would unpack to {total}"
            )

    def copy(self, entry: FileEntry, sink: Sink) -> None:
        """Unpack one file. Raises TruncatedFileError, AlteredFileError, DamagedArchiveError,
        OSError."""
        with self._damage(), self._zip.open(self._entries[entry.path]) as source:
            copy_checked(source, sink, entry)

    def _read(self, name: str, limit_bytes: int) -> bytes | None:
        info = self._entries.get(name)
        if info is None:
            return None
        if info.file_size > limit_bytes:
            raise OversizedBundleError(f"{self._path}: {name} has {info.file_size} bytes")
        with self._damage(), self._zip.open(info) as file:
            return file.read()

    def _check_end(self, file: IO[bytes]) -> None:
        """The list of entries is read as a whole, so how long it may be is settled first."""
        file.seek(0)
        if file.read(len(_FIRST)) != _FIRST:
            raise NotABundleError(f"{self._path} is neither a folder nor a zip")
        entries, length, offset, at = self._directory(file)
        # A zip may list folders, too.
        allowed = 2 * self._limits.max_files + len(OWN_FILES)
        if entries > allowed or length > allowed * _DIRECTORY_ENTRY_BYTES:
            raise OversizedBundleError(f"{self._path} lists {entries} entries in {length} bytes")
        if offset + length != at:
            raise DamagedArchiveError(f"{self._path} has gaps around its list of entries")

    def _directory(self, file: IO[bytes]) -> tuple[int, int, int, int]:
        """Number of entries, length and offset of their list, and where the end records begin."""
        at = self._size_bytes - _END.size
        if at < 0:
            raise DamagedArchiveError(f"{self._path} ends too early")
        file.seek(at)
        mark, *disks, entries, length, offset, comment = _END.unpack(file.read(_END.size))
        if mark != b"PK\x05\x06" or comment:
            raise DamagedArchiveError(f"{self._path} does not end as a zip without comment does")
        file.seek(max(0, at - _LOCATOR.size))
        mark, _, at64, _ = _LOCATOR.unpack(file.read(_LOCATOR.size))
        if mark == b"PK\x06\x07":
            at -= _LOCATOR.size + _END64.size
            file.seek(max(0, at))
            mark, _, _, _, *disks, entries, length, offset = _END64.unpack(file.read(_END64.size))
            if mark != b"PK\x06\x06" or at64 != at:
                raise DamagedArchiveError(f"{self._path} lacks its 64-bit end record")
        if disks != [0, 0, entries]:
            raise UnsupportedArchiveError(f"{self._path} is one part of several")
        return entries, length, offset, at

    def _checked_entries(self) -> dict[str, zipfile.ZipInfo]:
        infos = self._zip.infolist()
        for info in infos:
            self._check_kind(info)
        # The name as it stands in the archive: `filename` ends at a zero byte.
        files = {info.orig_filename: info for info in infos if not _is_folder(info)}
        check_paths(info.orig_filename for info in infos if not _is_folder(info))
        check_paths(info.orig_filename.removesuffix("/") for info in infos if _is_folder(info))
        end = 0
        for info in sorted(infos, key=lambda info: info.header_offset):
            if info.header_offset < end:
                raise UnsupportedArchiveError(f"{self._path}: {info.filename!r} overlaps another")
            end = info.header_offset + _LOCAL_HEADER_BYTES + len(info.filename) + info.compress_size
        if end > self._zip.start_dir:
            raise DamagedArchiveError(f"{self._path}: an entry runs into the list of entries")
        return files

    def _check_kind(self, info: zipfile.ZipInfo) -> None:
        name, kind = info.orig_filename[:200], stat.S_IFMT(info.external_attr >> 16)
        if info.flag_bits & _ENCRYPTED:
            raise UnsupportedArchiveError(f"{self._path}: {name!r} is encrypted")
        if info.compress_type not in _METHODS:
            raise UnsupportedArchiveError(
                f"{self._path}: {name!r} is packed by method {info.compress_type}"
            )
        if kind not in (0, stat.S_IFDIR if _is_folder(info) else stat.S_IFREG):
            raise LinkInBundleError(f"{self._path}: {name!r} is a link or a special file")

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # its kind NotImplementedError: a later form of zip
            raise UnsupportedArchiveError(f"{self._path}: {error}") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, struct.error, ValueError) as error:
            raise DamagedArchiveError(f"{self._path}: {error}") from None


def _is_folder(info: zipfile.ZipInfo) -> bool:
    return info.orig_filename.endswith("/")
