"""What an eavesdropper who has the bundle can see of a picture in what crosses a cut.

An inverter is trained for each cut and codec on other photos than those it is tried on; the photos
it draws are compared with the true ones. Needs a tar of COCO photos and the extra `train`.
"""

import argparse
import tempfile
from collections.abc import Iterator
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
from headtail_models import zoo
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.data.coco_photos import CocoPhotos
from headtail_models.entrance import PictureEntrance, pictures_of
from headtail_models.head_chain import HeadChain

_WAYS: Final = (
    "L5/q8",
    "L7/q4",
    "bottleneck/rans-fine",
    "bottleneck/rans",
    "bottleneck/rans-least",
    "light/rans",
)
_TRAINED_ON: Final = "train2017"
_TRIED_ON: Final = "val2017"
_SHOWN: Final = 4
_COLUMNS: Final = ("what crosses", "bytes", "PSNR dB", "SSIM")

Floats = NDArray[np.float32]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bundle", type=Path, metavar="PATH", help="default: yolov3-tiny-coco, built afresh"
    )
    parser.add_argument("--photos", type=Path, metavar="TAR", default=in_data(PHOTOS))
    parser.add_argument(
        "--ways", default=",".join(_WAYS), metavar="LIST", help="CUT/CODEC, comma-separated"
    )
    parser.add_argument("--steps", type=int, default=1500, metavar="N", help="of each (1500)")
    parser.add_argument("--limit", type=int, metavar="N", help="take N photos of each split only")
    parser.add_argument("--pictures", type=Path, metavar="PNG", help="write examples side by side")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to FILE")


def run(options: argparse.Namespace) -> Report:
    report = Report(
        "inversion",
        {
            "steps": options.steps,
            "limit": options.limit,
            "trained on": _TRAINED_ON,
            "tried on": _TRIED_ON,
        },
    )
    try:
        from headtail_models.inversion import attack, similarity
    except ImportError as missing:
        report.skip(f"needs {missing.name}: pip install 'headtail[train]'")
        return report
    if options.photos is None or not options.photos.exists():
        report.skip("no photo set: name one with --photos, or its folder with HEADTAIL_DATA")
        return report
    with tempfile.TemporaryDirectory() as folder:
        path = options.bundle or zoo.build(zoo.known()[0], Path(folder) / "bundle")
        bundle = open_bundle(path)
        report.settings["bundle"] = bundle.name
        photos = _Photos(bundle, CocoPhotos(options.photos), options.limit)
        rows, drawn = [], []
        with Progress(console=Console(stderr=True), transient=True) as bars:
            for way in options.ways.split(","):
                crossing = _Crossing(bundle, way)
                taught, tried = (crossing.pairs(inputs) for inputs in (photos.taught, photos.tried))
                inverter = attack.learn(
                    attack.Pairs(crossed=taught[0], pictures=photos.small(photos.taught)),
                    steps=options.steps,
                    progress=_Bar(bars, way, options.steps),
                )
                true = photos.small(photos.tried)
                seen = attack.draw(inverter, attack.Pairs(crossed=tried[0], pictures=true))
                pairs = list(zip(seen, true, photos.insides, strict=True))
                psnr = _mean(similarity.psnr, pairs)
                ssim = _mean(similarity.ssim, pairs)
                name = way.replace("/", "_").replace("-", "_")
                report.figure(f"psnr_{name}", psnr)
                report.figure(f"ssim_{name}", ssim)
                rows.append([way, f"{tried[1]:,.0f}", f"{psnr:.1f}", f"{ssim:.3f}"])
                drawn.append((way, seen[:_SHOWN]))
    report.table("What the attack recovers", _COLUMNS, rows)
    report.note("lower is more private; a larger attack with more photos would see more")
    if options.pictures is not None:
        _write(options.pictures, [("the picture", true[:_SHOWN]), *drawn])
    if options.markdown is not None:
        options.markdown.write_text(_markdown(rows), encoding="utf-8")
    return report


class _Bar:
    """Hears of the steps of one training."""

    def __init__(self, bars: Progress, name: str, steps: int) -> None:
        self._bars, self._task = bars, bars.add_task(name, total=steps)

    def __call__(self, done: int) -> None:
        self._bars.update(self._task, completed=done)


class _Photos:
    """Inputs of the network, (1, 3, h, w) each, and where the picture lies in them."""

    def __init__(self, bundle: Bundle, photos: CocoPhotos, limit: int | None) -> None:
        self._entrance = PictureEntrance(pictures_of(bundle.manifest))
        self.side = bundle.manifest.full.inputs[0].shape[1] // 2
        """Of the pictures that are drawn: half of the network's input."""
        self.taught = [image for image, _ in self._inputs(photos, _TRAINED_ON, limit)]
        tried = list(self._inputs(photos, _TRIED_ON, limit))
        self.tried = [image for image, _ in tried]
        self.insides = [inside for _, inside in tried]

    def small(self, images: list[Floats]) -> Floats:
        """All as one array (N, 3, side, side)."""
        shrunk = [
            cv2.resize(
                image[0].transpose(1, 2, 0), (self.side, self.side), interpolation=cv2.INTER_AREA
            )
            for image in images
        ]
        return np.ascontiguousarray(np.stack(shrunk).transpose(0, 3, 1, 2), dtype=np.float32)

    def _inputs(
        self, photos: CocoPhotos, split: str, limit: int | None
    ) -> Iterator[tuple[Floats, tuple[slice, slice]]]:
        for photo in photos.photos(split, limit=limit):
            image, geometry = self._entrance.prepare(photo.picture)
            scale = self.side / geometry.network_height
            top, left = round(geometry.top * scale), round(geometry.left * scale)
            rows = slice(top, top + round(geometry.inner_height * scale))
            columns = slice(left, left + round(geometry.inner_width * scale))
            yield image, (rows, columns)


class _Crossing:
    """What arrives on the other side of one cut in one codec."""

    def __init__(self, bundle: Bundle, way: str) -> None:
        cut, _, codec = way.partition("/")
        self._chain = HeadChain(bundle.cut(cut), bundle.open_stage)
        self._codec = bundle.codecs(cut).new(codec)

    def pairs(self, inputs: list[Floats]) -> tuple[Floats, float]:
        """All that arrives, (N, C, h, w), and the mean bytes of a payload."""
        arrived, sizes = [], []
        for image in inputs:
            tensor = self._chain.run(image, heed=False).tensor
            assert tensor is not None  # no gate was heeded
            payload = self._codec.encode(tensor)
            sizes.append(memoryview(payload).nbytes)
            arrived.append(self._codec.decode(payload, tensor.shape))
        return np.concatenate(arrived).astype(np.float32, copy=False), float(np.mean(sizes))


def _mean(measure: Any, pairs: list[tuple[Floats, Floats, tuple[slice, slice]]]) -> float:
    """Of the part that the picture covers."""
    values = []
    for seen, true, (rows, columns) in pairs:
        one, two = (image[:, rows, columns].transpose(1, 2, 0) for image in (seen, true))
        values.append(measure(one, two))
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
