"""What is measured on: labelled pictures or sounds, in splits that are never mixed.

The *report* split is only ever measured on: no training, choice or table has seen it. The
*calibration* split is for what a method must know beforehand (ranges, tables, steps).
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from headtail_models.audio.clips import Clip, Split
from headtail_models.audio.log_mel import LogMel
from headtail_models.bundle.manifest import DetectTask, Manifest
from headtail_models.bundle.manifest import LogMel as LogMelWay
from headtail_models.data import cifar10
from headtail_models.data.cifar10 import Cifar10
from headtail_models.data.coco_photos import CocoPhotos
from headtail_models.data.imagenet_photos import CLASSES, ImagenetPhotos
from headtail_models.entrance import Frame
from headtail_models.rate.errors import RateError
from headtail_models.training.yamnet_scenes import Scenes
from headtail_models.training.yamnet_sounds import open_clips

COCO: Final = "coco-photos.tar"
IMAGENET: Final = "imagenet-samples.tar"
CIFAR_BUNDLE: Final = "resnet-cifar10"
_CIFAR_REPORT: Final = 500
_PATCHES_A_CLIP: Final = 3
_DIGITS: Final = 100
_MIXTURES: Final = 150
_REPORT_SEED: Final = 77
_CALIBRATION_SEED: Final = 78


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """`truth`: boxes (m, 5) class, x1, y1, x2, y2; the class's index; None for sounds."""

    name: str
    file_bytes: int
    frame: Frame
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
                frame=photo.picture,
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
        name=photo.name, file_bytes=photo.file_bytes, frame=photo.picture, truth=photo.label
    )


class CifarSamples:
    """Pictures of the test split, spread over its classes; the calibration split is that of all
    trainings here. They are decoded once, into `cache`."""

    described = "CIFAR-10 test"

    def __init__(self, path: Path, cache: Path) -> None:
        self._pictures = Cifar10(path, cache=cache)

    def report(self, limit: int | None = None) -> Iterator[Sample]:
        return self._samples("test", min(limit or _CIFAR_REPORT, _CIFAR_REPORT))

    def calibration(self, limit: int | None = None) -> Iterator[Sample]:
        return self._samples("calibration", limit or _CIFAR_REPORT)

    def _samples(self, split: cifar10.Split, limit: int) -> Iterator[Sample]:
        known = self._pictures.split(split)
        for number in np.linspace(0, len(known) - 1, min(limit, len(known))).astype(int):
            yield Sample(
                name=f"{split}/{number}",
                file_bytes=int(known.sizes[number]),
                frame=np.ascontiguousarray(known.pictures[number]),
                truth=int(known.labels[number]),
            )


class SoundSamples:
    """Patches of the clips that are kept for tests, of spoken digits among them, and made-up
    mixtures of these clips; `path` is the folder that `headtail train yamnet-audio` takes.

    All as 16-bit samples have them. There are no labels.
    """

    described = "held-out clips, spoken digits and mixtures"

    def __init__(self, path: Path, front: LogMel) -> None:
        self._path, self._front = path, front

    def report(self, limit: int | None = None) -> Iterator[Sample]:
        return islice(self._samples("test", _REPORT_SEED), limit)

    def calibration(self, limit: int | None = None) -> Iterator[Sample]:
        return islice(self._samples("calibration", _CALIBRATION_SEED), limit)

    def _samples(self, split: Split, seed: int) -> Iterator[Sample]:
        clips = open_clips(self._path, split)
        digits = [clip for clip in clips if "/" not in clip.name]
        others = [clip for clip in clips if "/" in clip.name]
        length = self._front.patch_samples
        scenes = Scenes(
            clips=[clip.samples for clip in others or clips], length=length, rate=self._front.rate
        )
        random = np.random.default_rng(seed)
        mixed = [(f"mixture {number}", scenes.draw(random)) for number in range(_MIXTURES)]
        spoken = [(clip.name, clip.samples[:length]) for clip in digits[:_DIGITS]]
        # Taken in turns, so that the first few are of every kind.
        for kind in zip_longest(list(_patches(others, length)), spoken, mixed):
            for name, samples in filter(None, kind):
                whole = np.clip(np.rint(samples * 32768), -32768, 32767) / np.float32(32768)
                yield Sample(
                    name=name,
                    file_bytes=2 * whole.size,
                    frame=whole.astype(np.float32),
                    truth=None,
                )


def _patches(clips: list[Clip], length: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for clip in clips:
        starts = range(0, max(1, clip.samples.size - length // 2), length)
        for start in starts[:_PATCHES_A_CLIP]:
            yield f"{clip.name} {start}", clip.samples[start : start + length]


def file_for(manifest: Manifest) -> str:
    """The name of the sample set that suits a bundle; empty for the data's folder itself. Raises
    RateError."""
    if isinstance(manifest.task, DetectTask):
        return COCO
    if isinstance(manifest.preprocess, LogMelWay):
        return ""
    if len(manifest.labels) == CLASSES:
        return IMAGENET
    if manifest.name == CIFAR_BUNDLE:
        return cifar10.FILE
    raise RateError(
        f"{manifest.name} tells {len(manifest.labels)} classes apart: there is a sample set for "
        f"COCO's detectors, for ImageNet's {CLASSES} classes, for {CIFAR_BUNDLE} and for sounds"
    )


def open_samples(manifest: Manifest, path: Path, cache: Path) -> SampleSet:
    """The samples of a set for a bundle; `cache` for decoded pictures. Raises RateError,
    PhotoSetError, Cifar10Error."""
    if isinstance(manifest.preprocess, LogMelWay):
        return SoundSamples(path, manifest.preprocess.front())
    name = file_for(manifest)
    if name == cifar10.FILE:
        return CifarSamples(path, cache)
    return CocoSamples(path) if name == COCO else ImagenetSamples(path)


def fingerprint(samples: Iterator[Sample]) -> str:
    """Stands for the pixels, or the sound, and the labels of samples."""
    whole = hashlib.sha256()
    for sample in samples:
        whole.update(repr((sample.name, sample.frame.shape, sample.truth)).encode())
        whole.update(sample.frame.tobytes())
    return whole.hexdigest()
