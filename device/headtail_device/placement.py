"""Where a frame can be computed, and what is known when that is to be decided."""

from dataclasses import dataclass, field
from typing import Final, assert_never

from headtail_fabric.link import LinkEstimate
from headtail_fabric.wire import Hints
from headtail_models.bundle.manifest import INPUT, Manifest

LOCAL: Final = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """The whole model on the device; `degraded` when the edge would have been preferred."""

    degraded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The head here, its tensor sent at `cut` in `codec`, the tail on the edge."""

    cut: str
    codec: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """The picture sent as a file of that codec (`jpeg`, `webp`) and quality (1-100)."""

    codec: str
    quality: int

    @property
    def cut(self) -> str:
        return INPUT


Remote = Split | Offload
Placement = Local | Remote


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is known when a frame waits to be placed.

    `edge_ready`: connected, and the edge serves the bundle. `retry_in_s`: how long the edge asked
    to be left alone. `remaining_s`: what is left of the frame's deadline. `oldest_s`: for how long
    the first of those in flight has been on its way; 0 without one.
    """

    now: float
    edge_ready: bool
    free_window: int
    in_flight: int
    oldest_s: float = 0.0
    retry_in_s: float
    remaining_s: float
    hints: Hints | None = None
    link: LinkEstimate = field(default_factory=LinkEstimate)

    @property
    def edge_usable(self) -> bool:
        """Whether the frame could go to the edge now."""
        usable = self.edge_ready and self.free_window > 0 and self.retry_in_s <= 0
        return usable and self.remaining_s > 0

    @property
    def obstacle(self) -> str:
        """Why a frame can't go to the edge, where it can't."""
        if not self.edge_ready:
            return "the edge can't be used now"
        if self.remaining_s <= 0:
            return "its deadline passed before its turn"
        return "the edge was too busy"


def way_name(placement: Placement) -> str:
    """`local`, `L7 q4+zstd`, `input jpeg 75`: what costs are kept under."""
    match placement:
        case Local():
            return LOCAL
        case Split():
            return f"{placement.cut} {placement.codec}"
        case Offload():
            return f"{placement.cut} {placement.codec} {placement.quality}"
        case _:
            assert_never(placement)


def remote_for(manifest: Manifest, *, cut: str, codec: str, quality: int) -> Remote:
    """The way to the edge that an operator chose; what is empty is the bundle's default.

    Whether the bundle has that cut and codec is found out by whoever computes.
    """
    if cut == INPUT:
        return Offload(codec=codec or "jpeg", quality=quality)
    name = cut or manifest.default_cut
    if not codec:
        known = manifest.cut(name)
        allowed = known.codecs if known else ()
        default = manifest.default_codec
        codec = default if default in allowed or not allowed else allowed[0]
    return Split(cut=name, codec=codec)
