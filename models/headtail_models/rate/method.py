"""Ways to get an answer from a server, and what each sends.

A *family* is a curve: one way with several settings. `send` gives the payload's size and the raw
outputs that the server then has.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from headtail_fabric.codec.base import Array
from headtail_models.entrance import Frame
from headtail_models.stage import OnnxStage

Whole = Callable[[Array], dict[str, Array]]
"""The full network on the server, or a tail: its input to its raw outputs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sent:
    """One sample's payload, and what the server makes of it."""

    size_bytes: int
    outputs: Mapping[str, Array]


class Method(Protocol):
    """One point of a curve."""

    @property
    def family(self) -> str: ...

    @property
    def setting(self) -> str: ...

    @property
    def cut(self) -> str:
        """Where the network is cut; empty where the picture is sent."""
        ...

    @property
    def codec_id(self) -> str:
        """What the payload is written with."""
        ...

    @property
    def origin(self) -> str:
        """Stands for what runs beside the bundle's own stages; empty where nothing does."""
        ...

    def send(self, frame: Frame) -> Sent: ...


def whole_network(stage: OnnxStage) -> Whole:
    """A stage as a function of its one input."""
    name = stage.inputs[0].name
    return lambda tensor: stage.run({name: np.ascontiguousarray(tensor)})
