"""The bundles that an edge serves, by digest."""

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from headtail_edge.plan import PlanKey, TailPlan, plans_of
from headtail_edge.stage_memory import StageMemory
from headtail_fabric.logs import fields
from headtail_models.bundle.keys import PublicKey
from headtail_models.bundle.reader import Bundle, open_bundle

log = logging.getLogger(__name__)

Listener = Callable[[Sequence[bytes]], None]


class BundleRegistry:
    """Loaded bundles and a plan for each of their cuts.

    May be read from any thread without a lock: what is served is replaced as a whole, never
    changed. `threads` compute one batch; with `trusted` keys one of them must have signed every
    bundle. Bundles in `pinned`, by name or name-version, keep their stages open, whatever `memory`
    has to spare.
    """

    def __init__(
        self,
        *,
        threads: int = 1,
        trusted: Sequence[PublicKey] | None = None,
        cache_dir: Path | None = None,
        memory: StageMemory | None = None,
        pinned: Sequence[str] = (),
    ) -> None:
        self._threads = threads
        self._trusted = trusted
        self._cache_dir = cache_dir
        self._memory = memory or StageMemory()
        self._pinned = frozenset(pinned)
        self._writing = threading.Lock()
        self._listeners: list[Listener] = []
        self._bundles: dict[bytes, Bundle] = {}
        self._plans: dict[PlanKey, TailPlan] = {}

    def __repr__(self) -> str:
        names = ", ".join(bundle.name for bundle in self._bundles.values())
        return f"<BundleRegistry {names or 'empty'}>"

    def __len__(self) -> int:
        return len(self._bundles)

    def subscribe(self, listener: Listener) -> None:
        """Tell `listener` the digests of what is served, now and whenever that changes, one change
        after the other."""
        with self._writing:
            self._listeners.append(listener)
            listener(self.digests())

    def load(self, path: Path, *, warm: bool = False) -> Bundle:
        """Verify the bundle at `path` and serve it from now on.

        With `warm` the tail at its default cut is opened at once. Raises BundleError (also for a
        coder that does not fit) or BundleStorageError, TaskError, StageLoadError; nothing is served
        then.
        """
        bundle = open_bundle(path, trusted=self._trusted, cache_dir=self._cache_dir)
        pinned = bool(self._pinned & {bundle.name, bundle.manifest.name})
        plans = {
            plan.key: plan
            for plan in plans_of(bundle, threads=self._threads, memory=self._memory, pinned=pinned)
        }
        if warm and bundle.digest not in self._bundles:
            plans[PlanKey(bundle.digest, bundle.manifest.default_cut)].stage.get()
        with self._writing:
            if bundle.digest not in self._bundles:
                self._plans = self._plans | plans
                self._bundles = {**self._bundles, bundle.digest: bundle}
                self._tell()
        log.info("bundle served", extra=fields(bundle=bundle.name, digest=bundle.digest))
        return bundle

    def unload(self, digest: bytes) -> bool:
        """Serve the bundle no more; returns whether it was. What was accepted is still computed."""
        with self._writing:
            bundle = self._bundles.get(digest)
            if bundle is None:
                return False
            gone = [plan for key, plan in self._plans.items() if key.digest == digest]
            self._plans = {key: plan for key, plan in self._plans.items() if key.digest != digest}
            self._bundles = {known: b for known, b in self._bundles.items() if known != digest}
            self._tell()
        for plan in gone:
            plan.forget()
        log.info("bundle not served any more", extra=fields(bundle=bundle.name, digest=digest))
        return True

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

    def _tell(self) -> None:
        for listener in self._listeners:
            listener(self.digests())
