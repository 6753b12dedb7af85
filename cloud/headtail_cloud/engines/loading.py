"""From what an operator writes to models that are ready to run."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from headtail_cloud.engines.catalogue import Catalogue
from headtail_cloud.engines.served_tail import (
    ServedTail,
    TailModel,
    served_tails,
    tail_models,
)
from headtail_cloud.engines.tail import TailEngine
from headtail_cloud.runtime.engine_spec import LoadedEngine
from headtail_models.bundle import Bundle, BundleCache, open_bundle
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
    tails: list[ServedTail] = []
    for bundle, cut in _bundles(references, trusted, cache_dir):
        tails += served_tails(bundle, cut=cut, threads=threads)
    return list(Catalogue(tails).tails)


def describe_tails(
    references: Sequence[str], *, trusted: Sequence[Path] = (), cache_dir: Path | None = None
) -> list[TailModel]:
    """The same models, not opened: they run elsewhere. Raises what `load_tails` does."""
    models: list[TailModel] = []
    for bundle, cut in _bundles(references, trusted, cache_dir):
        models += tail_models(bundle, cut=cut)
    return list(Catalogue(models).tails)


def tail_engine(
    *,
    models: Sequence[str],
    max_batch: int,
    trusted: Sequence[str] = (),
    cache_dir: str | None = None,
) -> LoadedEngine:
    """A worker's factory (`EngineSpec`): one thread. Raises what `load_tails` does."""
    tails = load_tails(
        models,
        trusted=[Path(path) for path in trusted],
        cache_dir=Path(cache_dir) if cache_dir else None,
    )
    engine = TailEngine(tails, max_batch=max_batch)
    return LoadedEngine(engine=engine, segments=engine.segments)


def _bundles(
    references: Sequence[str], trusted: Sequence[Path], cache_dir: Path | None
) -> Iterator[tuple[Bundle, str | None]]:
    keys = [load_public_key(path) for path in trusted] or None
    cache = BundleCache(cache_dir)
    for reference in references:
        path, cut = _found(cache, reference)
        yield open_bundle(path, trusted=keys, cache_dir=cache_dir), cut


def _found(cache: BundleCache, reference: str) -> tuple[Path, str | None]:
    """A path may hold a colon itself, so the whole reference is tried first."""
    name, colon, cut = reference.rpartition(":")
    try:
        return cache.find(reference), None
    except NoSuchBundleError:
        if not colon or not name:
            raise
    return cache.find(name), cut
