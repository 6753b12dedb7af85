"""A bundle as a folder: its own two files, and whether the rest is what the manifest lists."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from headtail_models.bundle.content import (
    Nowhere,
    check_size,
    copy_checked,
    open_plain,
    replacing,
)
from headtail_models.bundle.errors import (
    ExtraFileError,
    LinkInBundleError,
    MissingFileError,
    MissingManifestError,
    OversizedBundleError,
)
from headtail_models.bundle.limits import MAX_SIGNATURE_BYTES, Limits
from headtail_models.bundle.manifest import MANIFEST, SIGNATURE, FileEntry
from headtail_models.bundle.paths import MAX_DEPTH, OWN_FILES


def read_manifest(folder: Path, *, limits: Limits) -> bytes:
    """Raises MissingManifestError, OversizedBundleError, LinkInBundleError, OSError."""
    data = _read(folder / MANIFEST, limits.max_manifest_bytes)
    if data is None:
        raise MissingManifestError(f"{folder} has no {MANIFEST}", path=str(folder))
    return data


def read_signature(folder: Path) -> bytes | None:
    """Raises OversizedBundleError, LinkInBundleError, OSError."""
    return _read(folder / SIGNATURE, MAX_SIGNATURE_BYTES)


def write_signature(folder: Path, signature: bytes) -> None:
    """Put a signature there, in place of the one that may be there. Raises OSError."""
    with replacing(folder / SIGNATURE) as file:
        file.write(signature)


def check_folder(folder: Path, files: Sequence[FileEntry]) -> None:
    """Holds every file against the manifest's list, sizes before contents.

    Raises MissingFileError, ExtraFileError, LinkInBundleError, TruncatedFileError,
    AlteredFileError, OSError.
    """
    check_listing(plain_files(folder), files)
    for entry in files:
        check_size(entry, (folder / entry.path).lstat().st_size)
    for entry in files:
        with open_plain(folder / entry.path) as file:
            copy_checked(file, Nowhere(), entry)


def check_listing(found: Iterator[str], files: Sequence[FileEntry]) -> None:
    """Raises ExtraFileError or MissingFileError when the files found are not those listed."""
    missing = {entry.path for entry in files}
    for name in found:
        if name in missing:
            missing.remove(name)
        elif name not in OWN_FILES:
            raise ExtraFileError(f"file {name!r} is not in the manifest", path=name)
    if missing:
        name = min(missing)
        raise MissingFileError(f"file {name!r} is missing", path=name)


def plain_files(folder: Path, *, above: str = "", depth: int = MAX_DEPTH) -> Iterator[str]:
    """The files in a folder and the folders below it, relative to it.

    Raises LinkInBundleError for anything else, and ExtraFileError for folders nested too deep.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            name, mode = above + entry.name, entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISREG(mode):
                yield name
            elif not stat.S_ISDIR(mode):
                raise LinkInBundleError(f"{name!r} is a link or a special file", path=name)
            elif depth == 1:
                raise ExtraFileError(f"folder {name!r} lies too deep", path=name)
            else:
                yield from plain_files(Path(entry.path), above=name + "/", depth=depth - 1)


def _read(path: Path, limit_bytes: int) -> bytes | None:
    try:
        with open_plain(path) as file:
            data = file.read(limit_bytes + 1)
    except FileNotFoundError:
        return None
    if len(data) > limit_bytes:
        raise OversizedBundleError(f"{path} has more than {limit_bytes} bytes", path=str(path))
    return data
