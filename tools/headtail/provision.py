"""What a run needs and may not be there yet: a built-in bundle, the sample clip."""

from pathlib import Path
from typing import Final

from headtail_models import zoo
from headtail_models.assets import fetch
from headtail_models.assets.errors import UnreachableError
from headtail_models.assets.progress import Bars
from headtail_models.bundle import BundleCache
from headtail_models.bundle.errors import NoSuchBundleError
from headtail_models.zoo.errors import MissingExtraError
from headtail_models.zoo.versions import VERSIONS

_CLIP_ASSET: Final = "bikes"
_CLIP: Final = "bikes.mp4"


def ensure_bundle(reference: str) -> Path:
    """The bundle that `reference` names; a built-in one is built when this release's is not there.

    An older one serves where bundles can't be built. Raises NoSuchBundleError, what `zoo.build`
    raises, BundleStorageError.
    """
    cache = BundleCache()
    version = VERSIONS.get(reference)
    if version is None:
        return cache.find(reference)
    ready = _cached(cache, f"{reference}-{version}")
    if ready is not None:
        return ready
    try:
        with cache.workshop() as folder, Bars() as bars:
            return cache.adopt(zoo.build(reference, folder / "bundle", progress=bars))
    except (MissingExtraError, UnreachableError):
        older = _cached(cache, reference)
        if older is None:
            raise
        return older


def _cached(cache: BundleCache, reference: str) -> Path | None:
    try:
        return cache.find(reference)
    except NoSuchBundleError:
        return None


def ensure_clip() -> Path:
    """The sample clip: a street with cyclists, 640 x 272, 250 frames. Raises what `fetch` does."""
    with Bars() as bars:
        return fetch(_CLIP_ASSET, progress=bars)[_CLIP]
