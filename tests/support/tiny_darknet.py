"""A detector in Darknet's format that is small enough to compute by hand, and the computing."""

import struct
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from headtail_models.bundle import write_bundle
from headtail_models.bundle.manifest import Measured
from headtail_models.zoo import yolov3_tiny
from headtail_models.zoo.calibrate import Trunk, calibrate
from headtail_models.zoo.darknet import Convolution, MaxPool, Network, Route, Upsample, Yolo
from headtail_models.zoo.records import Accuracy, Calibration

LABELS = ("cat", "dog")
CFG = """
[net]
# what a comment is
channels=3
height=32
width = 32

[convolutional]
batch_normalize=1
filters=4
size=3
pad=1
activation=leaky

[maxpool]
size=2
stride=2

[convolutional]
batch_normalize=1
filters=6
size=3
stride=1
pad=1
activation=leaky

[maxpool]
size=2
stride=2

[convolutional]
batch_normalize=1
filters=8
size=3
stride=1
pad=1
activation=leaky

[maxpool]
size=2
stride=2

[maxpool]
size=2
stride=1

[convolutional]
batch_normalize=1
filters=10
size=1
pad=1
activation=leaky

[convolutional]
filters=21
size=1
activation=linear

[yolo]
mask = 1,2,3
anchors = 2,3, 4,4, 8,6, 20,24
classes=2

[route]
layers = -3

[convolutional]
batch_normalize=1
filters=4
size=1
activation=leaky

[upsample]
stride=2

[route]
layers = -1, 4

[convolutional]
filters=21
size=1
activation=linear

[yolo]
mask = 0,1,2
anchors = 2,3, 4,4, 8,6, 20,24
classes=2
"""
CUTS = (0, 1, 2, 3, 4)
_CONVOLUTIONS = (
    (4, 3, 3, True),
    (6, 4, 3, True),
    (8, 6, 3, True),
    (10, 8, 1, True),
    (21, 10, 1, False),
    (4, 10, 1, True),
    (21, 12, 1, False),
)
"""Filters, input channels, size, batch normalisation."""

ACCURACY = Accuracy(
    network="tiny",
    metric="mAP50",
    split="none",
    full_value=0.6,
    cuts={"L2": (Measured(codec="q8", value=0.5, drop=0.1, mean_bytes=100),)},
)

Floats = NDArray[np.float32]


def weights(seed: int = 0) -> bytes:
    """A weights file that fits `CFG`."""
    return struct.pack("<3iQ", 0, 2, 0, 32013312) + floats(seed).tobytes()


def floats(seed: int = 0) -> Floats:
    """The floats behind the header."""
    source = np.random.default_rng(seed)
    parts: list[NDArray[np.float64]] = []
    for filters, channels, size, normalised in _CONVOLUTIONS:
        parts.append(source.normal(0, 0.5, filters))
        if normalised:
            parts.append(source.uniform(0.5, 1.5, filters))
            parts.append(source.normal(0, 0.3, filters))
            parts.append(source.uniform(0.5, 2.0, filters))
        fan_in = channels * size * size
        parts.append(source.normal(0, (2 / fan_in) ** 0.5, filters * fan_in))
    return np.concatenate(parts).astype("<f4")


def asset_files(folder: Path) -> dict[str, Path]:
    """Stand-ins for the files of the asset `yolov3-tiny`, written into `folder`."""
    contents = {
        "yolov3-tiny.cfg": CFG.encode(),
        "yolov3-tiny.weights": weights(),
        "coco.names": "\n".join([*LABELS, "", ""]).encode(),
    }
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {name: folder / name for name in contents}


def build(folder: Path) -> Path:
    """A bundle of the small network by the built-in recipe; L2 has a measured accuracy."""
    files = asset_files(folder / "asset")
    network = yolov3_tiny.read(files)
    for name in ("trunk", "stages"):
        (folder / name).mkdir()
    random = np.random.default_rng(3)
    pictures = [random.integers(0, 256, (24, 40, 3), dtype=np.uint8) for _ in range(3)]
    cuts = calibrate(Trunk.of(network, folder / "trunk"), pictures, fill=127)
    manifest = yolov3_tiny.write(
        network,
        yolov3_tiny.labels(files),
        folder / "stages",
        calibration=Calibration(network="tiny", photos="noise", cuts=cuts),
        accuracy=ACCURACY,
    )
    # The recipe's default is a cut that this network does not have.
    return write_bundle(folder / "stages", replace(manifest, default_cut="L3"), folder / "bundle")


def run(network: Network, image: Floats) -> dict[int, Floats]:
    """Every layer's output (C, rows, columns) for one image, with plain loops."""
    outputs = {-1: image}
    for index, layer in enumerate(network.layers):
        inputs = [outputs[source] for source in network.sources(index)]
        if isinstance(layer, Convolution):
            outputs[index] = _convolve(layer, inputs[0])
        elif isinstance(layer, MaxPool):
            outputs[index] = _pool(layer, inputs[0])
        elif isinstance(layer, Upsample):
            outputs[index] = inputs[0].repeat(layer.factor, axis=1).repeat(layer.factor, axis=2)
        elif isinstance(layer, Route | Yolo):
            outputs[index] = np.concatenate(inputs)
    return outputs


def _convolve(layer: Convolution, image: Floats) -> Floats:
    pad, size = layer.padding, layer.kernel.shape[2]
    padded = np.pad(image.astype(np.float64), ((0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(1, 2))
    windows = windows[:, :: layer.stride, :: layer.stride]
    linear = np.einsum("oikl,ihwkl->ohw", layer.kernel.astype(np.float64), windows)
    linear += layer.bias[:, None, None]
    if layer.leaky:
        linear[linear < 0] *= 0.1
    return np.asarray(linear, dtype=np.float32)


def _pool(layer: MaxPool, image: Floats) -> Floats:
    begin = layer.padding // 2
    edges = (begin, layer.padding - begin)
    padded = np.pad(image, ((0, 0), edges, edges), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (layer.size,) * 2, axis=(1, 2))
    return np.asarray(windows[:, :: layer.stride, :: layer.stride].max(axis=(3, 4)))
