"""Ways to get an answer from a server, and what each sends.

A *family* is a curve: one way with several settings. `send` gives the payload's size and the raw
outputs that the server then has.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from headtail_fabric.codec import TensorCodec
from headtail_fabric.codec.base import Array
from headtail_models.bundle import Bundle
from headtail_models.bundle.cut_rules import OFF
from headtail_models.bundle.manifest import Cut
from headtail_models.head_chain import GateSettings, HeadChain
from headtail_models.rate import codecs
from headtail_models.rate.view import Viewer, shrunk
from headtail_models.stage import OnnxStage
from headtail_models.vision.prepare import Picture

Whole = Callable[[Array], dict[str, Array]]
"""The full network on the server: its input to its raw outputs."""

QUALITIES: Final[Mapping[str, tuple[int, ...]]] = {
    "jpeg": (5, 10, 15, 20, 30, 40, 50, 75, 90, 95),
    "webp": (1, 5, 15, 30, 50, 75, 90, 95),
    "avif": (20, 30, 40, 50, 60, 70, 80),
}
NATURAL: Final = "natural cuts"
"""How the families of cuts without a trained bottleneck are called."""
SHARES: Final = (0.75, 0.5)
"""Sides of a shrunk picture over those of the network's view."""
SHRUNK_QUALITIES: Final[Mapping[str, tuple[int, ...]]] = {
    "jpeg": (20, 50, 75, 90),
    "webp": (5, 30, 50, 75, 90),
    "avif": (30, 50, 70),
}


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

    def send(self, picture: Picture) -> Sent: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NativePicture:
    """The picture as it is, in a picture codec."""

    codec: codecs.Kind
    quality: int
    viewer: Viewer
    whole: Whole
    cut: str = ""

    @property
    def codec_id(self) -> str:
        return self.codec

    @property
    def family(self) -> str:
        return f"{self.codec}, native"

    @property
    def setting(self) -> str:
        return f"q{self.quality}"

    def send(self, picture: Picture) -> Sent:
        data = codecs.encode(picture, self.codec, self.quality)
        view = self.viewer.view(codecs.decode(data))
        tensor = self.viewer.tensor(view, (view.shape[1], view.shape[0]))
        return Sent(size_bytes=len(data), outputs=self.whole(tensor))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ViewedPicture:
    """The network's view of the picture, or that shrunk to `share`, in a picture codec; the server
    enlarges it again."""

    codec: codecs.Kind
    quality: int
    share: float
    viewer: Viewer
    whole: Whole
    cut: str = ""

    @property
    def codec_id(self) -> str:
        return self.codec

    @property
    def family(self) -> str:
        return f"{self.codec}, {'network size' if self.share == 1 else 'shrunk'}"

    @property
    def setting(self) -> str:
        return f"q{self.quality}" if self.share == 1 else f"{self.share:.3g} q{self.quality}"

    def send(self, picture: Picture) -> Sent:
        view = self.viewer.view(picture)
        sent = view if self.share == 1 else shrunk(view, self.share)
        data = codecs.encode(sent, self.codec, self.quality)
        tensor = self.viewer.tensor(codecs.decode(data), (view.shape[1], view.shape[0]))
        return Sent(size_bytes=len(data), outputs=self.whole(tensor))


class CutRun:
    """Head and tail of a cut, shared by its codecs; the head runs once a picture. Gates are off:
    what is compared here is what crosses when something does."""

    def __init__(self, bundle: Bundle, cut: Cut, viewer: Viewer, *, threads: int) -> None:
        """Raises StageLoadError."""
        self.cut = cut
        self._head = HeadChain(
            cut,
            lambda entry: bundle.open_stage(entry, threads=threads),
            settings=GateSettings(exit_point=OFF, filter=False),
        )
        self._tail = bundle.open_stage(cut.tail, threads=threads)
        self._viewer = viewer
        self._last: tuple[Picture, Array] | None = None

    def cross(self, picture: Picture) -> Array:
        """The tensor that crosses."""
        if self._last is None or self._last[0] is not picture:
            view = self._viewer.view(picture)
            tensor = self._viewer.tensor(view, (view.shape[1], view.shape[0]))
            crossing = self._head.run(tensor).tensor
            assert crossing is not None  # all gates are off
            self._last = picture, crossing
        return self._last[1]

    def finish(self, tensor: Array) -> dict[str, Array]:
        """The raw outputs for a tensor that has crossed."""
        return self._tail.run({self.cut.tensor.name: tensor})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CutTensor:
    """What crosses a cut, in one of its codecs."""

    run: CutRun
    codec: TensorCodec
    family: str
    setting: str

    @property
    def cut(self) -> str:
        return self.run.cut.name

    @property
    def codec_id(self) -> str:
        return self.codec.id

    def send(self, picture: Picture) -> Sent:
        tensor = self.run.cross(picture)
        payload = self.codec.encode(tensor)
        arrived = self.codec.decode(payload, tensor.shape)
        return Sent(size_bytes=memoryview(payload).nbytes, outputs=self.run.finish(arrived))


def picture_methods(
    viewer: Viewer, whole: Whole, *, kinds: Sequence[codecs.Kind]
) -> Iterator[Method]:
    """Every rival that sends a picture."""
    for kind in kinds:
        for quality in QUALITIES[kind]:
            yield NativePicture(codec=kind, quality=quality, viewer=viewer, whole=whole)
        for share in (1.0, *SHARES):
            for quality in (QUALITIES if share == 1 else SHRUNK_QUALITIES)[kind]:
                yield ViewedPicture(
                    codec=kind, quality=quality, share=share, viewer=viewer, whole=whole
                )


def cut_methods(
    bundle: Bundle, viewer: Viewer, *, cuts: Sequence[str] | None, threads: int
) -> Iterator[Method]:
    """The entropy coders of the cuts that have some; all cuts, or those named.

    The coders of a cut make a curve. Raises UnknownCutError, StageLoadError, BadCoderError.
    """
    for cut in _chosen(bundle, cuts):
        if not cut.coders:
            continue
        run = CutRun(bundle, cut, viewer, threads=threads)
        table = bundle.codecs(cut.name)
        for name in cut.coders:
            yield CutTensor(
                run=run, codec=table.new(name), family=f"cut {cut.name}, rans", setting=name
            )


def natural_runs(
    bundle: Bundle, viewer: Viewer, *, cuts: Sequence[str] | None, threads: int
) -> Iterator[CutRun]:
    """The cuts without a coder of their own: places where a network was cut as it is.

    Raises UnknownCutError, StageLoadError.
    """
    for cut in _chosen(bundle, cuts):
        if not cut.coders:
            yield CutRun(bundle, cut, viewer, threads=threads)


def natural_methods(bundle: Bundle, runs: Sequence[CutRun]) -> Iterator[Method]:
    """Natural cuts in each codec that ends with zstd; those with one codec make a curve."""
    for run in runs:
        table = bundle.codecs(run.cut.name)
        for name in table.ids:
            if name.endswith("+zstd"):
                yield CutTensor(
                    run=run,
                    codec=table.new(name),
                    family=f"{NATURAL}, {name}",
                    setting=run.cut.name,
                )


def _chosen(bundle: Bundle, names: Sequence[str] | None) -> Sequence[Cut]:
    return bundle.manifest.cuts if names is None else [bundle.cut(name) for name in names]


def whole_network(stage: OnnxStage) -> Whole:
    """The full network as a function of its one input."""
    name = stage.inputs[0].name
    return lambda tensor: stage.run({name: np.ascontiguousarray(tensor)})
