"""Names of files inside a bundle: relative, with `/`, of plain characters, the same everywhere.

The allowed set is closed, so absolute paths, `..`, backslashes, drive letters, control characters,
hidden files and look-alikes from Unicode need no rules of their own.
"""

import re
from collections.abc import Iterable
from typing import Final

from headtail_models.bundle.errors import DuplicateEntryError, UnsafePathError
from headtail_models.bundle.manifest import MANIFEST, SIGNATURE

MAX_LENGTH: Final = 200
MAX_DEPTH: Final = 4
OWN_FILES: Final = frozenset({MANIFEST, SIGNATURE})
"""Files that the manifest can't list, because they are about it."""

_PART: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?")


def check_path(path: str) -> str:
    """`path` itself. Raises UnsafePathError when no bundle may hold a file of that name."""
    parts = path.split("/")
    if len(path) > MAX_LENGTH or len(parts) > MAX_DEPTH or not all(map(_PART.fullmatch, parts)):
        raise UnsafePathError(f"unsafe file name {path[:MAX_LENGTH]!r}", path=path)
    return path


def check_paths(paths: Iterable[str]) -> None:
    """Raises UnsafePathError for a bad name, DuplicateEntryError for one that comes twice.

    Names that differ in case only are the same name on some file systems, so they count as one;
    so does a name that is also the folder of another.
    """
    files: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        key = check_path(path).casefold()
        above = {key[:at] for at, character in enumerate(key) if character == "/"}
        if key in files or key in folders or above & files:
            raise DuplicateEntryError(f"file {path!r} is there twice", path=path)
        files.add(key)
        folders |= above
