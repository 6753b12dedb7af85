"""Models by name and version."""

from collections.abc import Iterable
from typing import Generic, TypeVar

from headtail_cloud.engines.served_tail import NothingServedError, TailModel
from headtail_fabric.errors import ConfigError


class TwiceServedError(ConfigError):
    """Two different bundles have the same name and version. Serve one of them, or give the other
    a new version when you build it."""


_ModelT = TypeVar("_ModelT", bound=TailModel)


class Catalogue(Generic[_ModelT]):
    """What is served. Raises NothingServedError, TwiceServedError for what can't be."""

    def __init__(self, tails: Iterable[_ModelT]) -> None:
        self._versions: dict[str, dict[str, _ModelT]] = {}
        for tail in tails:
            versions = self._versions.setdefault(tail.name, {})
            known = versions.setdefault(tail.version, tail)
            if known.digest != tail.digest:
                raise TwiceServedError(f"{tail.name} {tail.version} stands for two bundles")
        if not self._versions:
            raise NothingServedError("there is nothing to serve")

    @property
    def tails(self) -> tuple[_ModelT, ...]:
        return tuple(tail for versions in self._versions.values() for tail in versions.values())

    def find(self, name: str, version: str | None = None) -> _ModelT | None:
        """That version of a model, or its newest one."""
        versions = self._versions.get(name)
        if versions is None:
            return None
        if version is not None:
            return versions.get(version)
        return versions[max(versions, key=_order)]

    def versions(self, name: str) -> list[str]:
        """All of a model's, the oldest first."""
        return sorted(self._versions.get(name, ()), key=_order)


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
