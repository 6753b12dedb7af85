"""What an eavesdropper who has the bundle can see of a picture in what crosses a cut.

An inverter is trained for each cut and codec on other photos than those it is tried on; the photos
it draws are compared with the true ones. Examples are drawn from frames of a public clip, since the
photos may not be passed on. Needs a tar of COCO photos and the extra `train`.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from headtail.bench.accuracy import PHOTOS
from headtail.bench.report import Report
from headtail.data_folder import in_data
from headtail.provision import ensure_bundle, ensure_clip
from headtail.rates.blocks import block_crossings
from headtail_fabric.codec import TensorCodec
from headtail_fabric.codec.affine import AffineCodec
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.manifest import Preprocess
from headtail_models.data.coco_photos import CocoPhotos
from headtail_models.data.imagenet_photos import ImagenetPhotos
from headtail_models.entrance import PictureEntrance, pictures_of
from headtail_models.rate.block import ranges
from headtail_models.rate.cut import Crossing, cut_crossing
from headtail_models.rate.errors import RateError
from headtail_models.rate.samples import IMAGENET
from headtail_models.training.pictures import read_pictures
from headtail_models.vision.prepare import Picture

_BUNDLE: Final = "yolov3-tiny-coco"
_WAYS: Final[Mapping[str, tuple[str, ...]]] = {
    _BUNDLE: (
        "L5/raw",
        "L7/q4",
        "bottleneck/rans-fine",
        "bottleneck/rans",
        "bottleneck/rans-least",
        "light/rans",
    ),
    "mobilenetv2-imagenet": (
        "f2/raw",
        "f6/q4",
        "bottleneck/rans-fine",
        "bottleneck/rans",
        "bottleneck/rans-least",
    ),
}
_TRAINED_ON: Final = "train2017"
_TRIED_ON: Final = "val2017"
_SHOWN: Final = 4
_BLOCK_BITS: Final = 8
_COLUMNS: Final = ("what crosses", "bytes", "PSNR dB", "SSIM")

Floats = NDArray[np.float32]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bundle", default=_BUNDLE, help=f"a bundle's path or name (default {_BUNDLE})"
    )
    parser.add_argument("--photos", type=Path, metavar="TAR", default=in_data(PHOTOS))
    parser.add_argument(
        "--also",
        type=Path,
        metavar="TAR",
        default=in_data(IMAGENET),
        help="ImageNet photos that the attack learns from, too; default: of the data's folder",
    )
    parser.add_argument("--ways", metavar="LIST", help="CUT/CODEC, comma-separated")
    parser.add_argument(
        "--blocks", type=Path, metavar="DIR", help="published blocks too, as for rate-accuracy"
    )
    parser.add_argument("--steps", type=int, default=2000, metavar="N", help="of each (2000)")
    parser.add_argument("--limit", type=int, metavar="N", help="take N photos of each split only")
    parser.add_argument(
        "--pictures", type=Path, metavar="PNG", help="write frames of the clip, side by side"
    )
    parser.add_argument(
        "--clip", type=Path, metavar="VIDEO", help="of those frames; default: a public one"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to FILE")


def run(options: argparse.Namespace) -> Report:
    report = Report("inversion", {"steps": options.steps, "limit": options.limit})
    try:
        from headtail_models.inversion import attack, similarity
    except ImportError as missing:
        report.skip(f"needs {missing.name}: pip install 'headtail[train]'")
        return report
    if options.photos is None or not options.photos.exists():
        report.skip("no photo set: name one with --photos, or its folder with HEADTAIL_DATA")
        return report
    bundle = open_bundle(ensure_bundle(options.bundle))
    scenes = _Scenes(bundle, options)
    report.settings |= {
        "bundle": bundle.name,
        "trained on": f"{len(scenes.taught.pictures)} photos of {_TRAINED_ON} and ImageNet",
        "tried on": f"{len(scenes.tried.pictures)} photos of {_TRIED_ON}",
    }
    rows, drawn = [], []
    with Progress(console=Console(stderr=True), transient=True) as bars:
        for way in _ways(bundle, options, scenes):
            taught, _ = way.cross(scenes.taught.pictures)
            inverter = attack.learn(
                attack.Pairs(crossed=taught, pictures=scenes.taught.small),
                steps=options.steps,
                progress=_Bar(bars, way.name, options.steps),
            )
            crossed, size = way.cross(scenes.tried.pictures)
            pairs = attack.Pairs(crossed=crossed, pictures=scenes.tried.small)
            seen = attack.draw(inverter, pairs)
            psnr = _mean(similarity.psnr, seen, scenes.tried)
            ssim = _mean(similarity.ssim, seen, scenes.tried)
            name = way.name.replace("/", "_").replace("-", "_")
            report.figure(f"psnr_{name}", psnr)
            report.figure(f"ssim_{name}", ssim)
            rows.append([way.name, f"{size:,.0f}", f"{psnr:.1f}", f"{ssim:.3f}"])
            if scenes.shown is not None:
                crossed, _ = way.cross(scenes.shown.pictures)
                pairs = attack.Pairs(crossed=crossed, pictures=scenes.shown.small)
                drawn.append((way.name, attack.draw(inverter, pairs)))
    report.table("What the attack recovers", _COLUMNS, rows)
    report.note("lower is more private; a larger attack with more photos would see more")
    if scenes.shown is not None:
        _write(options.pictures, [("the picture", scenes.shown.small), *drawn])
    if options.markdown is not None:
        options.markdown.write_text(_markdown(rows), encoding="utf-8")
    return report


class _Bar:
    """Hears of the steps of one training."""

    def __init__(self, bars: Progress, name: str, steps: int) -> None:
        self._bars, self._task = bars, bars.add_task(name, total=steps)

    def __call__(self, done: int) -> None:
        self._bars.update(self._task, completed=done)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Split:
    """Pictures; how the network sees them, at half of its size, (N, 3, side, side) from 0 to 1; and
    where in that each lies."""

    pictures: Sequence[Picture]
    small: Floats
    insides: Sequence[tuple[slice, slice]]


class _Scenes:
    """What the attack learns from, what it is tried on, and what is shown of it."""

    def __init__(self, bundle: Bundle, options: argparse.Namespace) -> None:
        self._way = pictures_of(bundle.manifest)
        self._entrance = PictureEntrance(self._way)
        limit = options.limit
        photos = CocoPhotos(options.photos)
        taught = [photo.picture for photo in photos.photos(_TRAINED_ON, limit=limit)]
        if options.also is not None and options.also.exists():
            also = ImagenetPhotos(options.also)
            taught += [photo.picture for photo in also.photos("train", limit=limit)]
        self.taught = self._split(taught)
        self.tried = self._split([photo.picture for photo in photos.photos(_TRIED_ON, limit=limit)])
        self.shown = None if options.pictures is None else self._split(_frames(options.clip))

    def _split(self, pictures: Sequence[Picture]) -> _Split:
        side = self._way.height // 2
        small, insides = [], []
        for picture in pictures:
            tensor, geometry = self._entrance.prepare(picture)
            plane = _from_0_to_1(tensor[0], self._way).transpose(1, 2, 0)
            small.append(cv2.resize(plane, (side, side), interpolation=cv2.INTER_AREA))
            scale = side / geometry.network_height
            insides.append(
                (
                    _inside(geometry.top * scale, geometry.inner_height * scale, side),
                    _inside(geometry.left * scale, geometry.inner_width * scale, side),
                )
            )
        planes = np.stack(small).transpose(0, 3, 1, 2)
        return _Split(
            pictures=pictures,
            small=np.ascontiguousarray(planes, dtype=np.float32),
            insides=insides,
        )


def _inside(start: float, length: float, side: int) -> slice:
    return slice(max(0, round(start)), min(side, round(start) + round(length)))


def _from_0_to_1(tensor: Floats, way: Preprocess) -> Floats:
    if not way.mean:
        return tensor
    mean, std = (np.array(one, dtype=np.float32).reshape(3, 1, 1) for one in (way.mean, way.std))
    planes: Floats = np.clip(tensor * std + mean, 0, 1)
    return planes


def _frames(clip: Path | None) -> list[Picture]:
    """Some frames of the clip, from all of its length."""
    frames = list(read_pictures(clip or ensure_clip()))
    places = np.linspace(0, len(frames) - 1, _SHOWN + 2)[1:-1].astype(int)
    return [frames[place] for place in places]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Way:
    """A cut in a codec."""

    name: str
    crossing: Crossing
    codec: TensorCodec

    def cross(self, pictures: Sequence[Picture]) -> tuple[Floats, float]:
        """All that arrives, (N, C, h, w), and the mean bytes of a payload."""
        arrived, sizes = [], []
        for picture in pictures:
            tensor = self.crossing.cross(picture)
            payload = self.codec.encode(tensor)
            sizes.append(memoryview(payload).nbytes)
            arrived.append(self.codec.decode(payload, tensor.shape))
        return np.concatenate(arrived).astype(np.float32, copy=False), float(np.mean(sizes))


def _ways(bundle: Bundle, options: argparse.Namespace, scenes: _Scenes) -> Iterator[_Way]:
    known = _WAYS.get(bundle.manifest.name)
    names = known if options.ways is None else options.ways.split(",")
    if names is None:
        raise RateError(f"name the cuts and codecs of {bundle.name} with --ways CUT/CODEC,...")
    for name in names:
        cut, _, codec = name.partition("/")
        yield _Way(
            name=name,
            crossing=cut_crossing(bundle, bundle.cut(cut), threads=1),
            codec=bundle.codecs(cut).new(codec),
        )
    if options.blocks is None:
        return
    for crossing in block_crossings(bundle, options.blocks):
        tensors = [crossing.cross(picture) for picture in scenes.taught.pictures]
        codec = AffineCodec(bits=_BLOCK_BITS, quantiser=ranges(tensors))
        yield _Way(name=f"{crossing.name}/{codec.id}", crossing=crossing, codec=codec)


def _mean(measure: Any, seen: Floats, split: _Split) -> float:
    """Of the part that the picture covers."""
    values = []
    for one, true, (rows, columns) in zip(seen, split.small, split.insides, strict=True):
        found, wanted = (image[:, rows, columns].transpose(1, 2, 0) for image in (one, true))
        values.append(measure(found, wanted))
    return float(np.mean(values))


def _write(path: Path, rows: list[tuple[str, Floats]]) -> None:
    """A picture of pictures: a row a way, its name before it."""
    strips = []
    for name, pictures in rows:
        label = np.full((pictures.shape[2], 190, 3), 255, dtype=np.uint8)
        cv2.putText(
            label, name, (6, pictures.shape[2] // 2), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (0, 0, 0), 1
        )
        images = [np.rint(one.transpose(1, 2, 0)[..., ::-1] * 255) for one in pictures]
        strips.append(np.hstack([label, *[image.astype(np.uint8) for image in images]]))
    cv2.imwrite(str(path), np.vstack(strips))


def _markdown(rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(_COLUMNS)} |", "|---|---:|---:|---:|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
