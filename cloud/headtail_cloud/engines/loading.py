"""From what an operator writes to models that are ready to run."""

from collections.abc import Sequence
from pathlib import Path

from headtail_cloud.engines.catalogue import Catalogue
from headtail_cloud.engines.served_tail import ServedTail, served_tails
from headtail_models.bundle import BundleCache, open_bundle
from headtail_models.bundle.errors import NoSuchBundleError
from headtail_models.bundle.keys import load_public_key


def load_tails(
    references: Sequence[str],
    *,
    trusted: Sequence[Path] = (),
    cache_dir: Path | None = None,
    threads: int = 1,
) -> list[ServedTail]:
    """Each reference is a bundle, or `bundle:cut`.

    Raises BundleError, BundleStorageError, KeyFileError, TaskError, StageError,
    NothingServedError, TwiceServedError.
    """
    keys = [load_public_key(path) for path in trusted] or None
    cache = BundleCache(cache_dir)
    tails: list[ServedTail] = []
    for reference in references:
        path, cut = _found(cache, reference)
        bundle = open_bundle(path, trusted=keys, cache_dir=cache_dir)
        tails += served_tails(bundle, cut=cut, threads=threads)
    return list(Catalogue(tails).tails)


def _found(cache: BundleCache, reference: str) -> tuple[Path, str | None]:
    """A path may hold a colon itself, so the whole reference is tried first."""
    name, colon, cut = reference.rpartition(":")
    try:
        return cache.find(reference), None
    except NoSuchBundleError:
        if not colon or not name:
            raise
    return cache.find(name), cut
