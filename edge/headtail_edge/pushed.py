"""The folder of bundles that devices pushed, each in a folder named by its digest."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from headtail_models.bundle.cache import BundleCache
from headtail_models.bundle.errors import BundleError
from headtail_models.bundle.keys import PublicKey
from headtail_models.bundle.limits import DEFAULT_LIMITS
from headtail_models.bundle.reader import open_bundle

_INCOMING: Final = ".incoming"


class WrongBundleError(BundleError):
    """A device sent another bundle than the one it was asked for. Check that its bundle is whole
    (`headtail bundle verify`) and that nobody replaced it while the device ran."""


class TooManyBundlesError(BundleError):
    """The edge keeps as many pushed bundles as it may. Remove one from its folder, or raise
    `push.max_bundles`."""


class PushedBundles:
    """Bundles of at most `max_bytes` each, `max_bundles` at most, with a trusted signature where
    `trusted` keys are given."""

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int,
        max_bundles: int,
        trusted: Sequence[PublicKey] | None = None,
    ) -> None:
        self.folder = folder
        self._limits = replace(DEFAULT_LIMITS, max_total_bytes=max_bytes)
        self._max_bundles = max_bundles
        self._trusted = trusted

    def __repr__(self) -> str:
        return f"<PushedBundles {self.folder}>"

    def paths(self) -> list[Path]:
        """What was taken in, not verified again. Raises BundleStorageError."""
        return [entry.path for entry in BundleCache(self.folder).entries()]

    def take_in(self, packed: Path, digest: bytes) -> Path:
        """Verify a packed bundle and move it here, unpacked; returns its folder.

        It counts as good when the tail at its default cut can be opened and every cut's coders fit.
        Raises BundleError,
        BundleStorageError, StageLoadError; nothing new is left behind then.
        """
        if len(self.paths()) >= self._max_bundles:
            raise TooManyBundlesError(f"{self._max_bundles} bundles were pushed already")
        incoming = self.folder / _INCOMING
        try:
            bundle = open_bundle(
                packed, trusted=self._trusted, cache_dir=incoming, limits=self._limits
            )
            if bundle.digest != digest:
                raise WrongBundleError(f"{bundle!r} came in place of {digest.hex()[:12]}")
            bundle.open_stage(bundle.tail(bundle.manifest.default_cut))
            for cut in bundle.manifest.cuts:
                bundle.codecs(cut.name)
            return BundleCache(self.folder).adopt(bundle.path)
        finally:
            shutil.rmtree(incoming, ignore_errors=True)
