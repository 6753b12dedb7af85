"""What the device computes: heads, encodings, and the whole model when the edge can't be had."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from headtail_device.placement import Offload, Remote, Split
from headtail_fabric.clock import Clock
from headtail_fabric.codec import TensorCodec, codec_for
from headtail_fabric.codec.base import CODES, Array
from headtail_fabric.errors import ConfigError
from headtail_fabric.wire import Buffer, DType, Frames, TensorInfo
from headtail_models.bundle import Bundle
from headtail_models.bundle.manifest import INPUT
from headtail_models.stage import Stage
from headtail_models.task import Answer, Geometry, Picture, task_for

PICTURE_CODECS: Final = ("jpeg", "webp")


class CodecNotAllowedError(ConfigError):
    """The bundle's tensor can't be sent in that codec. Choose one that `headtail bundle show`
    lists at the cut; for the cut `input`, where the picture itself is sent, jpeg or webp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A request's content, and what it cost to make, in seconds."""

    tensors: tuple[TensorInfo, ...]
    payloads: tuple[Buffer, ...]
    geometry: Geometry
    prepare_s: float
    compute_s: float
    encode_s: float

    @property
    def head_s(self) -> float:
        return self.prepare_s + self.compute_s + self.encode_s

    @property
    def payload_bytes(self) -> int:
        return sum(memoryview(payload).nbytes for payload in self.payloads)


class Head(Protocol):
    """The seam between the runner and the network."""

    @property
    def digest(self) -> bytes:
        """The bundle's digest (32 bytes)."""
        ...

    def encode(self, picture: Picture, way: Remote) -> Encoded:
        """The request for the edge. Raises HeadtailError, ValueError when it can't be made."""
        ...

    def decode(self, tensors: Sequence[TensorInfo], payloads: Frames, geometry: Geometry) -> Answer:
        """What the edge answered. Raises PeerError when it makes no sense."""
        ...

    def whole(self, picture: Picture) -> Answer:
        """The answer of the whole model, computed here. Raises HeadtailError, ValueError."""
        ...


class HeadRunner:
    """The stages of one bundle, each opened when it is first needed. Not thread-safe."""

    def __init__(self, bundle: Bundle, *, threads: int, clock: Clock) -> None:
        """Raises TaskError when the bundle's task can't be carried out."""
        self.digest = bundle.digest
        self._bundle = bundle
        self._task = task_for(bundle.manifest)
        self._threads = threads
        self._clock = clock
        self._full: Stage | None = None
        self._heads: dict[str, Stage] = {}
        self._codecs: dict[Remote, TensorCodec] = {}

    def __repr__(self) -> str:
        opened = [*self._heads, *(["full"] if self._full else [])]
        return f"<HeadRunner {self._bundle.name} opened={opened}>"

    def warm_up(self, *, way: Remote | None, whole: bool) -> None:
        """Open what `way` and, with `whole`, the fallback need, and run it once on a black
        picture, so that no frame waits for it and nothing that can't work is found out later.

        Raises UnknownCutError, CodecNotAllowedError, StageError.
        """
        size = self._bundle.manifest.preprocess
        black = np.zeros((size.height, size.width, 3), dtype=np.uint8)
        if way is not None:
            self.encode(black, way)
        if whole:
            self.whole(black)

    def encode(self, picture: Picture, way: Remote) -> Encoded:
        codec = self._codecs.get(way)
        if codec is None:
            codec = self._codecs[way] = self._codec(way)
        return (
            self._offload(picture, codec) if way.cut == INPUT else self._split(picture, way, codec)
        )

    def decode(self, tensors: Sequence[TensorInfo], payloads: Frames, geometry: Geometry) -> Answer:
        received: dict[str, Array] = {
            info.name: codec_for(info.codec, dtype=info.dtype).decode(payload, info.shape)
            for info, payload in zip(tensors, payloads, strict=True)
        }
        return self._task.answer(received, geometry)

    def whole(self, picture: Picture) -> Answer:
        entry = self._bundle.full()
        if self._full is None:
            self._full = self._bundle.open_stage(entry, threads=self._threads)
        tensor, geometry = self._task.prepare(picture)
        outputs = self._full.run({entry.inputs[0].name: tensor})
        return self._task.answer(self._task.finish(outputs)[0], geometry)

    def _split(self, picture: Picture, way: Remote, codec: TensorCodec) -> Encoded:
        cut = self._bundle.cut(way.cut)
        stage = self._heads.get(cut.name)
        if stage is None:
            stage = self._bundle.open_stage(cut.head, threads=self._threads)
            self._heads[cut.name] = stage
        began_at = self._clock.now()
        tensor, geometry = self._task.prepare(picture)
        prepared_at = self._clock.now()
        crossing = stage.run({cut.head.inputs[0].name: tensor})[cut.tensor.name]
        computed_at = self._clock.now()
        payload = codec.encode(crossing)
        base = _base(way.codec)
        info = TensorInfo(
            name=cut.tensor.name,
            dtype=CODES[crossing.dtype],
            shape=crossing.shape,
            codec=codec.id,
            quantiser=base if base in cut.quantisers else "",
        )
        return Encoded(
            tensors=(info,),
            payloads=(payload,),
            geometry=geometry,
            prepare_s=prepared_at - began_at,
            compute_s=computed_at - prepared_at,
            encode_s=self._clock.now() - computed_at,
        )

    def _offload(self, picture: Picture, codec: TensorCodec) -> Encoded:
        began_at = self._clock.now()
        geometry = self._task.geometry(picture.shape[0], picture.shape[1])
        payload = codec.encode(picture[np.newaxis])
        info = TensorInfo(name=INPUT, dtype=DType.UINT8, shape=(1, *picture.shape), codec=codec.id)
        return Encoded(
            tensors=(info,),
            payloads=(payload,),
            geometry=geometry,
            prepare_s=0.0,
            compute_s=0.0,
            encode_s=self._clock.now() - began_at,
        )

    def _codec(self, way: Remote) -> TensorCodec:
        if isinstance(way, Offload):
            _check_allowed(way, PICTURE_CODECS)
            return codec_for(way.codec, dtype=DType.UINT8, quality=way.quality)
        cut = self._bundle.cut(way.cut)
        _check_allowed(way, cut.codecs)
        base = _base(way.codec)
        quantiser = self._bundle.quantiser(cut.name, base) if base in cut.quantisers else None
        return codec_for(way.codec, dtype=DType[cut.tensor.dtype.upper()], quantiser=quantiser)


def _base(codec_id: str) -> str:
    return codec_id.partition("+")[0]


def _check_allowed(way: Split | Offload, allowed: Sequence[str]) -> None:
    if way.codec not in allowed:
        raise CodecNotAllowedError(
            f"codec {way.codec!r} at cut {way.cut!r}, allowed there: {', '.join(allowed)}",
            cut=way.cut,
            codec=way.codec,
        )
