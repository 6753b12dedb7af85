"""Writing a packed bundle: a zip that is the same, byte by byte, for the same bundle.

Entries come in the order of their names, stored and not deflated (weights hardly shrink, and two
deflaters never agree), all dated 1980-01-01 with mode 0644.
"""

import stat
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from headtail_models.bundle.content import copy_checked, open_plain, replacing
from headtail_models.bundle.manifest import FileEntry, Manifest

SUFFIX: Final = ".headtail"

_DATE: Final = (1980, 1, 1, 0, 0, 0)
_MODE: Final = (stat.S_IFREG | 0o644) << 16
_UNIX: Final = 3


def packed_name(manifest: Manifest) -> str:
    """The file name of a packed bundle: `name-version.headtail`."""
    return f"{manifest.name}-{manifest.version}{SUFFIX}"


def write_archive(
    target: Path, *, folder: Path, files: Sequence[FileEntry], own: Mapping[str, bytes]
) -> None:
    """Pack `files` of `folder`, and `own` from memory, in place of what `target` may hold.

    Raises LinkInBundleError, TruncatedFileError or AlteredFileError when a file is no longer what
    it was when the bundle was opened, OSError; `target` is then left as it was.
    """
    listed = {entry.path: entry for entry in files}
    with replacing(target) as file, zipfile.ZipFile(file, "w") as packed:
        for name in sorted([*listed, *own]):
            info = zipfile.ZipInfo(name, date_time=_DATE)
            info.create_system = _UNIX
            info.external_attr = _MODE
            if name in own:
                packed.writestr(info, own[name])
                continue
            # Known beforehand, so that only a file that needs it gets the 64-bit form.
            info.file_size = listed[name].size_bytes
            with packed.open(info, "w") as sink, open_plain(folder / name) as source:
                copy_checked(source, sink, listed[name])
