"""Find the quantiser tables of the classifier's natural cuts on photos, and write them as JSON.

    python -m headtail_models.zoo.mobilenet_v2_calibrate imagenet-samples.tar \\
        calibration/mobilenetv2-imagenet.json

The photos are those of the calibration split, never those that accuracy is reported on.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from headtail_fabric.codec import Quantiser
from headtail_fabric.errors import HeadtailError
from headtail_models.assets import fetch
from headtail_models.bundle.manifest import QuantiserTable
from headtail_models.data.imagenet_photos import ImagenetPhotos
from headtail_models.splitting.calibration import searched_quantisers
from headtail_models.splitting.model import OnnxModel, open_model
from headtail_models.vision.geometry import Geometry
from headtail_models.vision.prepare import Picture, centre_crop
from headtail_models.zoo import mobilenet_v2
from headtail_models.zoo.mobilenet_v2_graph import INPUT, block_name
from headtail_models.zoo.records import Calibration, encode

SPLIT: Final = "calibration"


def calibrate(
    model: OnnxModel, images: Sequence[NDArray[np.float32]], cuts: Iterable[str]
) -> dict[str, dict[str, QuantiserTable]]:
    """Tables by cut and codec, found on `images`, each (1, 3, 224, 224)."""
    tables = {}
    for cut in cuts:
        head = model.load(model.split(model.cut_at(cut)).head, f"head-{cut}.onnx")
        seen = [head.run({INPUT: image}, [cut])[cut] for image in images]
        tables[cut] = {name: _table(one) for name, one in searched_quantisers(seen).items()}
    return tables


def _image(picture: Picture) -> NDArray[np.float32]:
    way = mobilenet_v2.PREPROCESS
    geometry = Geometry.centre_crop(
        *picture.shape[:2],
        resize=way.resize or way.height,
        to_height=way.height,
        to_width=way.width,
    )
    return centre_crop(picture, geometry, mean=way.mean, std=way.std)


def _table(quantiser: Quantiser) -> QuantiserTable:
    return QuantiserTable(low=_rounded(quantiser.low), high=_rounded(quantiser.high))


def _rounded(values: NDArray[Any]) -> tuple[float, ...]:
    """Six digits: a millionth of a range is no loss, and the file stays readable."""
    return tuple(float(f"{value:.6g}") for value in values)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m headtail_models.zoo.mobilenet_v2_calibrate")
    parser.add_argument("photos", type=Path, help="tar of ImageNet photos")
    parser.add_argument("out", type=Path, help="JSON file to write")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    try:
        photos = ImagenetPhotos(options.photos)
        images = [_image(photo.picture) for photo in photos.photos(SPLIT)]
        weights = mobilenet_v2.parameters(fetch(mobilenet_v2.ASSET))
        with tempfile.TemporaryDirectory() as folder:
            whole = Path(folder) / "whole.onnx"
            mobilenet_v2.write_graph(weights, whole)
            (Path(folder) / "parts").mkdir()
            model = open_model(whole, Path(folder) / "parts")
            names = [block_name(number) for number in mobilenet_v2.NATURAL_CUTS]
            cuts = calibrate(model, images, track(names, "cuts", console=console))
    except HeadtailError as error:
        console.print(f"{error}\n{error.advice}", style="red", markup=False)
        return 1
    described = f"{len(images)} photos of ImageNet, the classes set aside for calibration"
    record = Calibration(network=mobilenet_v2.NAME, photos=described, cuts=cuts)
    options.out.write_bytes(encode(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
