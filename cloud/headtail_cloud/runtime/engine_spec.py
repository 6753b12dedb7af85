"""Which engine a process is to load: the name of a function, and what it is given."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import msgspec

from headtail_cloud.core.engine import Engine
from headtail_cloud.core.request import Segment
from headtail_fabric.errors import ConfigError


class NoSuchFactoryError(ConfigError):
    """An engine's factory is not there. Name it as `package.module:function`, and install its
    package where the workers run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedEngine:
    """`segments`: what it runs of tails."""

    engine: Engine
    segments: tuple[Segment, ...] = ()


class EngineSpec(msgspec.Struct, frozen=True, kw_only=True):
    """`factory` is `package.module:function`; it takes `options` by name, which are what JSON can
    hold, and gives a `LoadedEngine`."""

    factory: str
    options: dict[str, Any] = {}

    def find(self) -> Callable[..., LoadedEngine]:
        """Import the factory and what it needs. Raises NoSuchFactoryError, and whatever importing
        it raises."""
        module_name, _, name = self.factory.partition(":")
        try:
            return cast("Callable[..., LoadedEngine]", getattr(import_module(module_name), name))
        except (ModuleNotFoundError, AttributeError, ValueError) as error:
            raise NoSuchFactoryError(f"no engine {self.factory[:200]!r}: {error}") from None

    def load(self) -> LoadedEngine:
        """Raises NoSuchFactoryError, and what the factory does."""
        return self.find()(**self.options)
