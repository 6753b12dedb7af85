"""Find the quantiser tables of a built-in network on photos, and write them as JSON.

    python -m headtail_models.zoo.calibrate coco-photos.tar calibration/yolov3-tiny-coco.json

The photos are those of COCO's train2017, never those that accuracy is measured on. Only the part
of each tensor that the photo covers counts: the grey of a letterbox carries nothing.
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from headtail_fabric.errors import HeadtailError
from headtail_models.assets import fetch
from headtail_models.bundle.manifest import QuantiserTable
from headtail_models.data.coco_photos import CocoPhotos
from headtail_models.stage import OnnxStage
from headtail_models.vision.geometry import Geometry
from headtail_models.vision.prepare import Picture, letterbox
from headtail_models.zoo import yolov3_tiny
from headtail_models.zoo.darknet import Network
from headtail_models.zoo.ranges import Histogram, best_ranges
from headtail_models.zoo.records import Calibration, encode
from headtail_models.zoo.stages import WEIGHTS, cut_name, cut_points, write_stage, write_weights

SPLIT: Final = "train2017"
_BITS: Final = {"q8": 8, "q4": 4}
Tensors = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Trunk:
    """The layers up to the last cut, run piece by piece so that every cut's tensor is seen."""

    pieces: tuple[OnnxStage, ...]

    @classmethod
    def of(cls, network: Network, folder: Path) -> "Trunk":
        """The trunk of a network, its files written into `folder`."""
        parameters = write_weights(network, folder / WEIGHTS)
        pieces, after = [], -1
        for layer in cut_points(network):
            path = folder / f"{cut_name(layer)}.onnx"
            write_stage(network, path, after=after, until=layer, parameters=parameters)
            pieces.append(OnnxStage(path))
            after = layer
        return cls(tuple(pieces))

    def tensors(self, picture: Picture, *, fill: int) -> Tensors:
        """The tensor (C, rows, columns) at each cut, without the letterbox's padding."""
        height, width = self.pieces[0].inputs[0].shape[1:]
        geometry = Geometry.letterbox(*picture.shape[:2], to_height=height, to_width=width)
        tensor, found = letterbox(picture, geometry, fill=fill), {}
        for piece in self.pieces:
            tensor = piece.run({piece.inputs[0].name: tensor})[piece.outputs[0].name]
            found[piece.outputs[0].name] = tensor[0][:, *_inside(geometry, tensor.shape)]
        return found


def calibrate(
    trunk: Trunk, pictures: Iterable[Picture], *, fill: int
) -> dict[str, dict[str, QuantiserTable]]:
    """Tables by cut and codec. `pictures` is gone through twice."""
    lows: Tensors = {}
    highs: Tensors = {}
    for picture in pictures:
        for cut, tensor in trunk.tensors(picture, fill=fill).items():
            low, high = tensor.min(axis=(1, 2)), tensor.max(axis=(1, 2))
            lows[cut] = np.minimum(lows.get(cut, low), low)
            highs[cut] = np.maximum(highs.get(cut, high), high)
    histograms = {cut: Histogram(lows[cut], highs[cut]) for cut in lows}
    for picture in pictures:
        for cut, tensor in trunk.tensors(picture, fill=fill).items():
            histograms[cut].add(tensor)
    return {
        cut: {codec: _table(*best_ranges(histogram, bits)) for codec, bits in _BITS.items()}
        for cut, histogram in histograms.items()
    }


def _inside(geometry: Geometry, shape: tuple[int, ...]) -> tuple[slice, slice]:
    """The rows and columns of a tensor that the picture reaches into."""
    row = geometry.network_height / shape[2]
    column = geometry.network_width / shape[3]
    return (
        slice(
            math.floor(geometry.top / row),
            math.ceil((geometry.top + geometry.inner_height) / row),
        ),
        slice(
            math.floor(geometry.left / column),
            math.ceil((geometry.left + geometry.inner_width) / column),
        ),
    )


def _table(low: NDArray[np.float64], high: NDArray[np.float64]) -> QuantiserTable:
    return QuantiserTable(low=_rounded(low), high=_rounded(high))


def _rounded(values: NDArray[np.float64]) -> tuple[float, ...]:
    """Six digits: a millionth of a range is no loss, and the file stays readable."""
    return tuple(float(f"{value:.6g}") for value in values)


class _Pictures:
    """The photos of a split, as often as they are asked for, with a bar."""

    def __init__(self, photos: CocoPhotos, split: str, console: Console) -> None:
        self._photos, self._split, self._console = photos, split, console

    def __iter__(self) -> Iterator[Picture]:
        total = len(self._photos.names(self._split))
        for photo in track(
            self._photos.photos(self._split), "photos", total, console=self._console
        ):
            yield photo.picture


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m headtail_models.zoo.calibrate")
    parser.add_argument("photos", type=Path, help="tar of COCO photos")
    parser.add_argument("out", type=Path, help="JSON file to write")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    try:
        photos = CocoPhotos(options.photos)
        network = yolov3_tiny.read(fetch(yolov3_tiny.ASSET))
        with tempfile.TemporaryDirectory() as folder:
            trunk = Trunk.of(network, Path(folder))
            pictures = _Pictures(photos, SPLIT, console)
            cuts = calibrate(trunk, pictures, fill=yolov3_tiny.FILL)
    except HeadtailError as error:
        console.print(f"{error}\\n{error.advice}", style="red", markup=False)
        return 1
    described = f"{len(photos.names(SPLIT))} photos of COCO {SPLIT}"
    record = Calibration(network=yolov3_tiny.NAME, photos=described, cuts=cuts)
    options.out.write_bytes(encode(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
