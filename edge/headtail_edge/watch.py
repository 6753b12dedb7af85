"""A folder of bundles that is followed: what is put there is served, what is taken away is not.

Bundles lie in it packed (`NAME.headtail`) or as folders. Best moved there under their final name in
one go; one that is being copied is left alone until it has been the same for two looks.
"""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headtail_edge.registry import BundleRegistry
from headtail_fabric.errors import HeadtailError, ResourceError
from headtail_fabric.logs import fields
from headtail_models.bundle.manifest import MANIFEST

PACKED: Final = ".headtail"
_LOOK_EVERY_S: Final = 1.0

log = logging.getLogger(__name__)

Stamp = tuple[int, int, int]
"""What changes whenever a bundle does: time, size, inode of its file or its manifest."""


class WatchFolderError(ResourceError):
    """The folder of bundles can't be read. Make it, or correct its permissions or the setting
    `watch`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is to be done, in this order: a new version is served before the old one goes."""

    load: tuple[str, ...] = ()
    unload: tuple[str, ...] = ()


@dataclass(slots=True)
class FolderState:
    """What was seen at the last look, and what was last acted upon, by name."""

    _seen: Mapping[str, Stamp] = field(default_factory=dict)
    _acted: dict[str, Stamp] = field(default_factory=dict)

    def look(self, found: Mapping[str, Stamp]) -> Changes:
        """Compare with what is there now."""
        settled = {name: stamp for name, stamp in found.items() if self._seen.get(name) == stamp}
        self._seen = dict(found)
        load = tuple(name for name, stamp in settled.items() if self._acted.get(name) != stamp)
        unload = tuple(name for name in self._acted if name not in found)
        for name in unload:
            del self._acted[name]
        self._acted.update((name, settled[name]) for name in load)
        return Changes(load=load, unload=unload)


class Watcher:
    """Looks at the folder once a second, in a thread; a bundle that can't be served is left out,
    and told in the log, until it changes."""

    def __init__(self, folder: Path, registry: BundleRegistry) -> None:
        """Raises WatchFolderError."""
        self._folder = folder
        self._registry = registry
        self._state = FolderState()
        self._served: dict[str, bytes] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._found()

    def __repr__(self) -> str:
        return f"<Watcher of {self._folder}, {len(self._served)} served>"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def look(self) -> None:
        """Do what the folder asks for. Raises WatchFolderError."""
        changes = self._state.look(self._found())
        for name in changes.load:
            self._load(name)
        for name in changes.unload:
            self._replace(name, None)

    def _load(self, name: str) -> None:
        others = set(self._registry.digests()) - set(self._served.values())
        try:
            bundle = self._registry.load(self._folder / name, warm=True)
        except HeadtailError as error:
            # What it took the place of goes on being served: better than nothing.
            log.error("bundle left out", extra=fields(path=self._folder / name, reason=error))
        else:
            # What is served for another reason too stays when it goes from here.
            self._replace(name, None if bundle.digest in others else bundle.digest)

    def _replace(self, name: str, digest: bytes | None) -> None:
        before = self._served.pop(name, None)
        if digest is not None:
            self._served[name] = digest
        if before is not None and before not in self._served.values():
            self._registry.unload(before)

    def _found(self) -> dict[str, Stamp]:
        try:
            names = sorted(entry.name for entry in self._folder.iterdir())
        except OSError as error:
            raise WatchFolderError(f"{self._folder}: {error.strerror}") from None
        stamps = {name: self._stamp(name) for name in names if not name.startswith(".")}
        return {name: stamp for name, stamp in stamps.items() if stamp is not None}

    def _stamp(self, name: str) -> Stamp | None:
        path = self._folder / name
        file = path / MANIFEST if path.is_dir() else path
        if file is path and path.suffix != PACKED:
            return None
        try:
            status = file.stat()
        except OSError:
            return None  # no bundle, or gone again
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.look()
            except WatchFolderError as error:
                log.warning("folder of bundles", extra=fields(reason=error.message))
            except Exception:  # the thread's border: the next look may go better
                log.exception("folder of bundles")
            self._stopped.wait(_LOOK_EVERY_S)
