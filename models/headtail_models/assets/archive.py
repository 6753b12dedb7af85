"""Reading named members out of an archive, and nothing else of it."""

import gzip
import hashlib
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from headtail_models.assets.catalogue import Asset, Member
from headtail_models.assets.errors import BadArchiveError, WrongContentError

MAX_UNPACKED_BYTES: Final = 4 * 1024**3
_CHUNK_BYTES: Final = 1024 * 1024
_DAMAGE: Final = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def extract(asset: Asset, archive: Path, folder: Path) -> None:
    """Write the asset's members into `folder` under their own file names, checked.

    The archive's paths are only compared, never used as paths. Raises BadArchiveError when the
    archive is damaged or lacks a member, WrongContentError when one is not what it should be.
    """
    wanted = {member.path: member for member in asset.members}
    try:
        reader = _zip_members if zipfile.is_zipfile(archive) else _tar_members
        for member, stream in reader(archive, wanted):
            _copy(member, stream, folder / member.file)
            del wanted[member.path]
    except _DAMAGE as error:
        raise BadArchiveError(f"{asset.filename} can't be read: {error}") from None
    if wanted:
        raise BadArchiveError(f"{asset.filename} does not hold {', '.join(wanted)}")


def _zip_members(archive: Path, wanted: dict[str, Member]) -> Iterator[tuple[Member, IO[bytes]]]:
    with zipfile.ZipFile(archive) as packed:
        for member in list(wanted.values()):
            try:
                stream = packed.open(member.path)
            except (KeyError, RuntimeError):  # absent; encrypted
                continue
            with stream:
                yield member, stream


def _tar_members(archive: Path, wanted: dict[str, Member]) -> Iterator[tuple[Member, IO[bytes]]]:
    passed = 0
    with tarfile.open(archive, "r:gz") as packed:
        for entry in packed:
            passed += entry.size
            if passed > MAX_UNPACKED_BYTES:
                raise BadArchiveError(f"{archive.name} unpacks to over {MAX_UNPACKED_BYTES} bytes")
            member = wanted.get(entry.name)
            stream = packed.extractfile(entry) if member and entry.isreg() else None
            if member is None or stream is None:
                continue
            with stream:
                yield member, stream
            if not wanted:
                return


def _copy(member: Member, stream: IO[bytes], target: Path) -> None:
    digest, left = hashlib.sha256(), member.size_bytes
    with target.open("wb") as file:
        while chunk := stream.read(min(_CHUNK_BYTES, left + 1)):
            left -= len(chunk)
            if left < 0:
                break
            digest.update(chunk)
            file.write(chunk)
    if left != 0 or digest.hexdigest() != member.sha256:
        raise WrongContentError(f"{member.path} is not the file that it should be")
