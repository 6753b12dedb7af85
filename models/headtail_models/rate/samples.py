"""What is measured on: pictures with labels, in splits that are never mixed.

The *report* split is only ever measured on: no training, choice or table has seen it. The
*calibration* split is for what a method must know beforehand (ranges, tables, steps).
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headtail_models.bundle.manifest import DetectTask, Manifest
from headtail_models.data.coco_photos import CocoPhotos
from headtail_models.data.imagenet_photos import CLASSES, ImagenetPhotos
from headtail_models.rate.errors import RateError
from headtail_models.vision.prepare import Picture

COCO = "coco-photos.tar"
IMAGENET = "imagenet-samples.tar"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """`truth`: boxes (m, 5) class, x1, y1, x2, y2, or the class's index."""

    name: str
    file_bytes: int
    picture: Picture
    truth: Any


class SampleSet(Protocol):
    """Samples by split, always in the same order."""

    @property
    def described(self) -> str:
        """The report split, for people."""
        ...

    def report(self, limit: int | None = None) -> Iterator[Sample]:
        """Raises PhotoSetError."""
        ...

    def calibration(self, limit: int | None = None) -> Iterator[Sample]:
        """Raises PhotoSetError."""
        ...


class CocoSamples:
    """val2017 is reported; train2017 is for calibration."""

    described = "COCO val2017"

    def __init__(self, path: Path) -> None:
        self._photos = CocoPhotos(path)

    def report(self, limit: int | None = None) -> Iterator[Sample]:
        return self._samples("val2017", limit)

    def calibration(self, limit: int | None = None) -> Iterator[Sample]:
        return self._samples("train2017", limit)

    def _samples(self, split: str, limit: int | None) -> Iterator[Sample]:
        for photo in self._photos.photos(split, limit=limit):
            yield Sample(
                name=photo.name,
                file_bytes=photo.file_bytes,
                picture=photo.picture,
                truth=photo.boxes,
            )


class ImagenetSamples:
    """The splits of `data.imagenet_photos`."""

    described = "ImageNet, the classes set aside for reports"

    def __init__(self, path: Path) -> None:
        self._photos = ImagenetPhotos(path)

    def report(self, limit: int | None = None) -> Iterator[Sample]:
        for photo in self._photos.photos("report", limit=limit):
            yield _of_class(photo)

    def calibration(self, limit: int | None = None) -> Iterator[Sample]:
        for photo in self._photos.photos("calibration", limit=limit):
            yield _of_class(photo)


def _of_class(photo: Any) -> Sample:
    return Sample(
        name=photo.name, file_bytes=photo.file_bytes, picture=photo.picture, truth=photo.label
    )


def file_for(manifest: Manifest) -> str:
    """The name of the photo set that suits a bundle. Raises RateError."""
    if isinstance(manifest.task, DetectTask):
        return COCO
    if len(manifest.labels) == CLASSES:
        return IMAGENET
    raise RateError(
        f"{manifest.name} tells {len(manifest.labels)} classes apart: there is a photo set for "
        f"COCO's detectors and for ImageNet's {CLASSES} classes"
    )


def open_samples(manifest: Manifest, path: Path) -> SampleSet:
    """The samples of a photo set for a bundle. Raises RateError, PhotoSetError."""
    return CocoSamples(path) if file_for(manifest) == COCO else ImagenetSamples(path)


def fingerprint(samples: Iterator[Sample]) -> str:
    """Stands for the pixels and labels of samples."""
    whole = hashlib.sha256()
    for sample in samples:
        whole.update(repr((sample.name, sample.picture.shape, sample.truth)).encode())
        whole.update(sample.picture.tobytes())
    return whole.hexdigest()
