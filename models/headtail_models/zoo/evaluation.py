"""How accurate a detector's bundle stays at each cut with each codec, and what that costs.

A picture goes the whole way: head, codec to bytes and back, tail, decoding, suppression. Sending
the picture itself, compressed, is measured in the same way.
"""

from dataclasses import dataclass, field
from typing import Final

import cv2
import numpy as np
from msgspec.structs import replace

from headtail_fabric.codec import TensorCodec, codec_for
from headtail_fabric.codec.base import Array
from headtail_fabric.wire import Buffer, DType
from headtail_models.bundle import Bundle
from headtail_models.bundle.manifest import Cut, DetectTask
from headtail_models.data.coco_photos import LabelledPhoto
from headtail_models.entrance import PictureEntrance, pictures_of
from headtail_models.head_chain import HeadChain
from headtail_models.task import DETECTIONS, Geometry, Picture, task_for
from headtail_models.vision.average_precision import (
    Floats,
    Precision,
    agreement,
    mean_average_precision,
)

BASES: Final = ("q8", "q4")
PICTURES: Final = (
    *(("jpeg", quality) for quality in (95, 90, 80, 75, 50)),
    *(("webp", quality) for quality in (90, 75)),
)
PICTURE: Final = "picture"
"""Stands for a cut's name where the picture itself is sent."""
SHRUNK: Final = "shrunk picture"
"""The picture scaled on the device to what the network looks at, then sent."""

_THRESHOLD: Final = 0.005
"""Average precision wants the unlikely detections too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to divide the work: a cut with a codec, or a picture codec with its quality.

    `agreement` is with the full model's own detections (`vision.average_precision`).
    """

    place: str
    codec: str
    mean_bytes: float
    precision: Precision
    agreement: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What was measured. `stored_bytes` is the mean size of the photos' own files,
    `split_difference` the largest deviation of any raw output, head and tail in float32 against
    the full model, over the cuts that leave its layers as they are."""

    photos: int
    true_boxes: int
    stored_bytes: float
    full: Precision
    split_difference: float
    variants: tuple[Variant, ...]


@dataclass(slots=True)
class _Tally:
    """What one variant found in each picture, and the sizes of its payloads by codec."""

    found: list[Floats] = field(default_factory=list)
    sizes: dict[str, list[int]] = field(default_factory=dict)


class _Split:
    """One cut of a bundle: its stages and codecs."""

    def __init__(self, bundle: Bundle, cut: Cut, threads: int) -> None:
        self.cut = cut
        self._chain = HeadChain(cut, lambda entry: bundle.open_stage(entry, threads=threads))
        self._tail = bundle.open_stage(cut.tail, threads=threads)
        codecs = bundle.codecs(cut.name)
        self.coders = [codecs.new(codec_id) for codec_id in cut.coders]
        self.quantisers = [
            (codecs.new(base), codecs.new(f"{base}+zstd")) for base in BASES if base in codecs.ids
        ]

    def cross(self, image: Array) -> Array:
        """The tensor that crosses, whatever the gates say."""
        tensor = self._chain.run(image, heed=False).tensor
        assert tensor is not None  # no gate was heeded
        return tensor

    def finish(self, tensor: Array) -> dict[str, Array]:
        """The raw outputs for a tensor that has crossed."""
        return self._tail.run({self.cut.tensor.name: tensor})


class Evaluator:
    """Takes photos one by one; keeps their detections, not the pictures.

    The bundle detects the classes of the photos. Each run takes `threads` threads.
    """

    def __init__(self, bundle: Bundle, *, threads: int = 1) -> None:
        """Raises ValueError for a bundle that does not detect, StageLoadError."""
        manifest = bundle.manifest
        if not isinstance(manifest.task, DetectTask):
            raise ValueError(f"{bundle.name} does not detect")
        lenient = replace(manifest.task, threshold=_THRESHOLD)
        self._task = task_for(replace(manifest, task=lenient))
        self._entrance = PictureEntrance(pictures_of(manifest))
        self._sure = manifest.task.threshold
        self._full = bundle.open_stage(bundle.full(), threads=threads)
        self._splits = [_Split(bundle, cut, threads) for cut in manifest.cuts]
        self._full_found: list[Floats] = []
        self._tallies: dict[tuple[str, str], _Tally] = {}
        self._true: list[Floats] = []
        self._stored: list[int] = []
        self._difference = 0.0

    def add(self, photo: LabelledPhoto) -> None:
        """Try every variant on one photo."""
        self._true.append(photo.boxes)
        self._stored.append(photo.file_bytes)
        image, geometry = self._entrance.prepare(photo.picture)
        outputs = self._full.run({self._full.inputs[0].name: image})
        self._full_found.append(self._detections(outputs, geometry))
        for split in self._splits:
            self._try_cut(split, image, geometry, outputs)
        size = (geometry.inner_width, geometry.inner_height)
        shrunk = cv2.resize(photo.picture, size, interpolation=cv2.INTER_AREA)
        for place, picture in ((PICTURE, photo.picture), (SHRUNK, shrunk.astype(np.uint8))):
            for codec_id, quality in PICTURES:
                codec = codec_for(codec_id, dtype=DType.UINT8, quality=quality)
                self._try_picture((place, f"{codec_id} {quality}"), codec, picture, geometry)

    def result(self) -> Evaluation:
        """What came out so far. Raises ValueError before the first photo."""
        if not self._true:
            raise ValueError("nothing was evaluated")
        return Evaluation(
            photos=len(self._true),
            true_boxes=sum(map(len, self._true)),
            stored_bytes=float(np.mean(self._stored)),
            full=mean_average_precision(self._full_found, self._true),
            split_difference=self._difference,
            variants=tuple(
                variant
                for (place, _), tally in self._tallies.items()
                for variant in self._variants(place, tally)
            ),
        )

    def _try_cut(
        self, split: _Split, image: Array, geometry: Geometry, outputs: dict[str, Array]
    ) -> None:
        tensor = split.cross(image)
        if not split.coders:  # else the tail was trained for what the coder leaves
            for name, output in split.finish(tensor).items():
                deviation = float(np.abs(output - outputs[name]).max())
                self._difference = max(self._difference, deviation)
        for coder in split.coders:
            self._try_codec(split, coder, (), tensor, geometry)
        for codec, wrapped in split.quantisers:
            self._try_codec(split, codec, (wrapped,), tensor, geometry)

    def _try_codec(
        self,
        split: _Split,
        codec: TensorCodec,
        exact: tuple[TensorCodec, ...],
        tensor: Array,
        geometry: Geometry,
    ) -> None:
        """One codec, and others that lose nothing beside it: those change the size only."""
        payload = codec.encode(tensor)
        arrived = split.finish(codec.decode(payload, tensor.shape))
        sizes = {codec.id: payload} | {other.id: other.encode(tensor) for other in exact}
        self._record((split.cut.name, codec.id), sizes, self._detections(arrived, geometry))

    def _try_picture(
        self, key: tuple[str, str], codec: TensorCodec, picture: Picture, geometry: Geometry
    ) -> None:
        payload = codec.encode(picture[np.newaxis])
        image, _ = self._entrance.prepare(codec.decode(payload, (1, *picture.shape))[0])
        outputs = self._full.run({self._full.inputs[0].name: image})
        # However large it was sent, the picture lies in the network's input in the same way.
        self._record(key, {key[1]: payload}, self._detections(outputs, geometry))

    def _detections(self, outputs: dict[str, Array], geometry: Geometry) -> Floats:
        rows = self._task.finish(outputs)[0][DETECTIONS]
        corners = geometry.to_picture(rows[:, :4])
        inside = np.all(corners[:, 2:] > corners[:, :2], axis=1)
        return np.column_stack([corners, rows[:, 4:]])[inside].astype(np.float32, copy=False)

    def _record(self, key: tuple[str, str], payloads: dict[str, Buffer], found: Floats) -> None:
        tally = self._tallies.setdefault(key, _Tally())
        tally.found.append(found)
        for codec_id, payload in payloads.items():
            tally.sizes.setdefault(codec_id, []).append(memoryview(payload).nbytes)

    def _variants(self, place: str, tally: _Tally) -> list[Variant]:
        precision = mean_average_precision(tally.found, self._true)
        sure = [rows[rows[:, 4] >= self._sure] for rows in self._full_found]
        agreed = agreement(tally.found, sure)
        return [
            Variant(
                place=place,
                codec=codec_id,
                mean_bytes=float(np.mean(sizes)),
                precision=precision,
                agreement=agreed,
            )
            for codec_id, sizes in tally.sizes.items()
        ]
