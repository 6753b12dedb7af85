"""The bundles that an edge serves, by digest."""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

from headtail_edge.plan import PlanKey, TailPlan, plans_of
from headtail_fabric.logs import fields
from headtail_models.bundle.keys import PublicKey
from headtail_models.bundle.reader import Bundle, open_bundle

log = logging.getLogger(__name__)


class BundleRegistry:
    """Loaded bundles and a plan for each of their cuts.

    May be read from any thread without a lock: what is served is replaced as a whole, never
    changed. `threads` compute one batch; with `trusted` keys one of them must have signed every
    bundle.
    """

    def __init__(
        self,
        *,
        threads: int = 1,
        trusted: Sequence[PublicKey] | None = None,
        cache_dir: Path | None = None,
    ) -> None:
        self._threads = threads
        self._trusted = trusted
        self._cache_dir = cache_dir
        self._writing = threading.Lock()
        self._bundles: dict[bytes, Bundle] = {}
        self._plans: dict[PlanKey, TailPlan] = {}

    def __repr__(self) -> str:
        names = ", ".join(bundle.name for bundle in self._bundles.values())
        return f"<BundleRegistry {names or 'empty'}>"

    def __len__(self) -> int:
        return len(self._bundles)

    def load(self, path: Path, *, warm: bool = False) -> Bundle:
        """Verify the bundle at `path` and serve it from now on.

        With `warm` the tail at its default cut is opened at once. Raises BundleError (also for a
        coder that does not fit) or BundleStorageError, TaskError, StageLoadError; nothing is served
        then.
        """
        bundle = open_bundle(path, trusted=self._trusted, cache_dir=self._cache_dir)
        plans = {plan.key: plan for plan in plans_of(bundle, threads=self._threads)}
        if warm:
            plans[PlanKey(bundle.digest, bundle.manifest.default_cut)].stage.get()
        with self._writing:
            if bundle.digest not in self._bundles:
                self._plans = self._plans | plans
                self._bundles = {**self._bundles, bundle.digest: bundle}
        log.info("bundle served", extra=fields(bundle=bundle.name, digest=bundle.digest))
        return bundle

    def get(self, digest: bytes) -> Bundle | None:
        """The bundle of that digest, if it is served."""
        return self._bundles.get(digest)

    def plan(self, digest: bytes, cut: str) -> TailPlan | None:
        """How to compute a request, or None when the bundle or its cut is unknown."""
        return self._plans.get(PlanKey(digest, cut))

    def bundles(self) -> tuple[Bundle, ...]:
        """What is served, in the order it was loaded."""
        return tuple(self._bundles.values())

    def digests(self) -> tuple[bytes, ...]:
        """Their digests."""
        return tuple(self._bundles)
