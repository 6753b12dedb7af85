"""Making a bundle of a folder of files."""

import shutil
import tempfile
from pathlib import Path

from msgspec.structs import replace

from headtail_models.bundle.codecs import read_codecs
from headtail_models.bundle.consistency import check_consistency
from headtail_models.bundle.content import copy_measured, open_plain, storage_errors
from headtail_models.bundle.errors import TargetNotEmptyError
from headtail_models.bundle.folder import plain_files, write_signature
from headtail_models.bundle.keys import SecretKey
from headtail_models.bundle.manifest import (
    MANIFEST,
    FileEntry,
    Manifest,
    decode_manifest,
    encode_manifest,
)
from headtail_models.bundle.paths import OWN_FILES, check_path
from headtail_models.bundle.signature import sign_manifest


def write_bundle(
    source: Path, manifest: Manifest, target: Path, *, key: SecretKey | None = None
) -> Path:
    """Copy the files of `source` into the new folder `target`, and their list into the manifest.

    `manifest.files` is replaced. A manifest or signature that lies in `source` is left out; what
    else lies there becomes part of the bundle. `target` appears only when all of it is written,
    and opens without an error then. Signed when there is a `key`. Raises TargetNotEmptyError,
    InvalidManifestError, InconsistentManifestError, BadCoderError, UnsafePathError,
    LinkInBundleError, OversizedBundleError, BundleStorageError.
    """
    with storage_errors(target):
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise TargetNotEmptyError(f"{target} is there and not empty", path=str(target))
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            data = _complete(manifest, _copy(source, part))
            for cut in manifest.cuts:
                read_codecs(part, cut)
            (part / MANIFEST).write_bytes(data)
            if key is not None:
                write_signature(part, sign_manifest(data, key))
            part.chmod(0o755)
            part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return target


def _copy(source: Path, part: Path) -> tuple[FileEntry, ...]:
    entries = []
    for name in sorted(plain_files(source)):
        if name in OWN_FILES:
            continue
        path = part / check_path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_plain(source / name) as file, path.open("xb") as copy:
            entries.append(copy_measured(file, copy, name))
    return tuple(entries)


def _complete(manifest: Manifest, files: tuple[FileEntry, ...]) -> bytes:
    data = encode_manifest(replace(manifest, files=files))
    # Read back: values made in a program have not been checked against the schema.
    check_consistency(decode_manifest(data))
    return data
