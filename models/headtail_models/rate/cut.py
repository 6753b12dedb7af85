"""Ways to send what crosses a cut."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headtail_fabric.codec import TensorCodec
from headtail_fabric.codec.base import Array
from headtail_models.bundle import Bundle
from headtail_models.bundle.cut_rules import OFF
from headtail_models.bundle.manifest import Cut
from headtail_models.entrance import Entrance, Frame, entrance_for
from headtail_models.head_chain import GateSettings, HeadChain
from headtail_models.rate.method import Method, Sent, Whole, whole_network

TRAINED: Final = "cut "
"""How the families of a bundle's cuts with entropy coders of their own begin."""
NATURAL: Final = "natural cuts"
"""How the families of cuts without a trained bottleneck are called."""


class Crossing:
    """Head and tail on both sides of what crosses, shared by its codecs; the head runs once a
    sample."""

    def __init__(
        self,
        name: str,
        *,
        head: Callable[[Array], Array],
        tail: Whole,
        entrance: Entrance,
        origin: str = "",
    ) -> None:
        self.name, self.origin = name, origin
        self._head, self._tail, self._entrance = head, tail, entrance
        self._last: tuple[Frame, Array] | None = None

    def cross(self, frame: Frame) -> Array:
        """The tensor that crosses."""
        if self._last is None or self._last[0] is not frame:
            tensor, _ = self._entrance.prepare(frame)
            self._last = frame, self._head(tensor)
        return self._last[1]

    def finish(self, tensor: Array) -> dict[str, Array]:
        """The raw outputs for a tensor that has crossed."""
        return self._tail(tensor)


def cut_crossing(bundle: Bundle, cut: Cut, *, threads: int) -> Crossing:
    """Of a bundle's cut. Gates are off: what is compared here is what crosses when something does.

    Raises StageLoadError.
    """
    chain = HeadChain(
        cut,
        lambda entry: bundle.open_stage(entry, threads=threads),
        settings=GateSettings(exit_point=OFF, filter=False),
    )

    def head(tensor: Array) -> Array:
        crossing = chain.run(tensor).tensor
        assert crossing is not None  # all gates are off
        return crossing

    return Crossing(
        cut.name,
        head=head,
        tail=whole_network(bundle.open_stage(cut.tail, threads=threads)),
        entrance=entrance_for(bundle.manifest),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CutTensor:
    """What crosses a cut, in one of its codecs."""

    crossing: Crossing
    codec: TensorCodec
    family: str
    setting: str

    @property
    def cut(self) -> str:
        return self.crossing.name

    @property
    def origin(self) -> str:
        return self.crossing.origin

    @property
    def codec_id(self) -> str:
        return self.codec.id

    def send(self, frame: Frame) -> Sent:
        tensor = self.crossing.cross(frame)
        payload = self.codec.encode(tensor)
        arrived = self.codec.decode(payload, tensor.shape)
        return Sent(size_bytes=memoryview(payload).nbytes, outputs=self.crossing.finish(arrived))


def cut_methods(bundle: Bundle, *, cuts: Sequence[str] | None, threads: int) -> Iterator[Method]:
    """The entropy coders of the cuts that have some; all cuts, or those named.

    The coders of a cut make a curve. Raises UnknownCutError, StageLoadError, BadCoderError.
    """
    for cut in _chosen(bundle, cuts):
        if not cut.coders:
            continue
        crossing = cut_crossing(bundle, cut, threads=threads)
        table = bundle.codecs(cut.name)
        for name in cut.coders:
            yield CutTensor(
                crossing=crossing,
                codec=table.new(name),
                family=f"{TRAINED}{cut.name}, rans",
                setting=name,
            )


def natural_crossings(
    bundle: Bundle, *, cuts: Sequence[str] | None, threads: int
) -> Iterator[Crossing]:
    """The cuts without a coder of their own: places where a network was cut as it is.

    Raises UnknownCutError, StageLoadError.
    """
    for cut in _chosen(bundle, cuts):
        if not cut.coders:
            yield cut_crossing(bundle, cut, threads=threads)


def natural_methods(bundle: Bundle, crossings: Sequence[Crossing]) -> Iterator[Method]:
    """Natural cuts in each codec that ends with zstd; those with one codec make a curve."""
    for crossing in crossings:
        table = bundle.codecs(crossing.name)
        for name in table.ids:
            if name.endswith("+zstd"):
                yield CutTensor(
                    crossing=crossing,
                    codec=table.new(name),
                    family=f"{NATURAL}, {name}",
                    setting=crossing.name,
                )


def _chosen(bundle: Bundle, names: Sequence[str] | None) -> Sequence[Cut]:
    return bundle.manifest.cuts if names is None else [bundle.cut(name) for name in names]
