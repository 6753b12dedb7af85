"""What a run needs and may not be there yet: a built-in bundle, the sample clip."""

from pathlib import Path
from typing import Final

from headtail_models import zoo
from headtail_models.assets import fetch
from headtail_models.assets.progress import Bars
from headtail_models.bundle import BundleCache
from headtail_models.bundle.errors import NoSuchBundleError

_CLIP_ASSET: Final = "bikes"
_CLIP: Final = "bikes.mp4"


def ensure_bundle(reference: str) -> Path:
    """The bundle that `reference` names; a built-in one is built when it is not there.

    Raises NoSuchBundleError, what `zoo.build` raises, BundleStorageError.
    """
    cache = BundleCache()
    try:
        return cache.find(reference)
    except NoSuchBundleError:
        if reference not in zoo.known():
            raise
    with cache.workshop() as folder, Bars() as bars:
        return cache.adopt(zoo.build(reference, folder / "bundle", progress=bars))


def ensure_clip() -> Path:
    """The sample clip: a street with cyclists, 640 x 272, 250 frames. Raises what `fetch` does."""
    with Bars() as bars:
        return fetch(_CLIP_ASSET, progress=bars)[_CLIP]
