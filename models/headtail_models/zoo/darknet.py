"""Networks in Darknet's two files: layers as text (`.cfg`), parameters as one run of floats.

Weights: a header (three int32, then `seen`, which counts training pictures: 8 bytes since version
0.2), then for each convolution its biases, with batch normalisation also scales, means and
variances, then its kernel (out, in, rows, columns); all little-endian float32.
(Darknet, `src/parser.c`.)
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.errors import ConfigError

Shape = tuple[int, int, int]
"""Channels, rows, columns."""
Floats = NDArray[np.float32]

_EPSILON: Final = 1e-6
"""Darknet adds this to the standard deviation, not to the variance (`src/blas.c`)."""
_MAX_LAYERS: Final = 1000
_MAX_SIDE: Final = 1 << 16


class DarknetError(ConfigError):
    """The Darknet files can't be turned into a network: a layer is unknown, or the weights are not
    those of the layers. Take a .cfg and a .weights file that belong together."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Convolution:
    """`kernel` (out, in, k, k) and `bias` (out,), batch normalisation folded into both."""

    kernel: Floats
    bias: Floats
    stride: int
    padding: int
    leaky: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPool:
    """`padding` is the total of both edges; the odd one lies at the end."""

    size: int
    stride: int
    padding: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsample:
    """Nearest neighbour."""

    factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The outputs of earlier layers, one after the other along the channels."""

    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Yolo:
    """The layer before is an output map of the network; anchors are w, h in input pixels."""

    anchors: tuple[tuple[float, float], ...]
    mask: tuple[int, ...]
    classes: int


Layer = Convolution | MaxPool | Upsample | Route | Yolo


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """Layers in order with the shape that each puts out."""

    input_shape: Shape
    layers: tuple[Layer, ...]
    shapes: tuple[Shape, ...]

    def sources(self, index: int) -> tuple[int, ...]:
        """The layers that layer `index` reads; -1 is the network's input."""
        layer = self.layers[index]
        return layer.sources if isinstance(layer, Route) else (index - 1,)

    def macs(self, index: int) -> int:
        """Multiplications with accumulation of one layer, for one picture."""
        layer = self.layers[index]
        if not isinstance(layer, Convolution):
            return 0
        return layer.kernel.size * self.shapes[index][1] * self.shapes[index][2]


def read_network(cfg: str, weights: bytes) -> Network:
    """The network of the text of a `.cfg` and the bytes of a `.weights` file.

    Raises DarknetError, also when the weights are not used up exactly.
    """
    sections = list(_sections(cfg))
    if not sections or sections[0].name not in ("net", "network"):
        raise DarknetError("the first section of the .cfg is not [net]")
    net = sections[0]
    shape: Shape = (net.number("channels"), net.number("height"), net.number("width"))
    parameters = _Parameters(weights)
    layers: list[Layer] = []
    shapes: list[Shape] = []
    for section in sections[1:]:
        layer = _layer(section, shape, len(layers), parameters)
        shape = _output_shape(section, layer, shape, shapes)
        layers.append(layer)
        shapes.append(shape)
    parameters.check_used_up()
    return Network(
        input_shape=(net.number("channels"), net.number("height"), net.number("width")),
        layers=tuple(layers),
        shapes=tuple(shapes),
    )


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    line: int
    options: Mapping[str, str]

    def fault(self, words: str) -> DarknetError:
        return DarknetError(f"[{self.name}] at line {self.line} of the .cfg: {words}")

    def number(self, option: str, default: int | None = None, *, least: int = 1) -> int:
        value = self.options.get(option)
        if value is None and default is not None:
            return default
        try:
            number = int(value or "")
        except ValueError:
            raise self.fault(f"{option} is {value!r}, not a whole number") from None
        if not least <= number <= _MAX_SIDE:
            raise self.fault(f"{option} is {number}")
        return number

    def numbers(self, option: str) -> tuple[float, ...]:
        value = self.options.get(option, "")
        try:
            numbers = tuple(float(word) for word in value.split(","))
        except ValueError:
            numbers = ()
        if not numbers or not all(map(isfinite, numbers)):
            raise self.fault(f"{option} is {value!r}, not a list of numbers")
        return numbers


def _sections(text: str) -> Iterator[_Section]:
    """Sections in order; several may have the same name."""
    name, start, options = "", 0, dict[str, str]()
    count = 0
    for number, raw in enumerate([*text.splitlines(), "[end]"], start=1):
        line = raw.partition("#")[0].partition(";")[0].strip()
        if line.startswith("[") and line.endswith("]"):
            if name:
                yield _Section(name, start, options)
            name, start, options = line[1:-1].strip(), number, {}
            count += 1
            if count > _MAX_LAYERS:
                raise DarknetError(f"the .cfg has more than {_MAX_LAYERS} sections")
        elif line:
            key, equals, value = line.partition("=")
            if not equals or not name:
                raise DarknetError(f"line {number} of the .cfg is not `option = value`: {line!r}")
            options[key.strip()] = value.strip()


def _layer(section: _Section, shape: Shape, index: int, parameters: "_Parameters") -> Layer:
    if section.name == "convolutional":
        return _convolution(section, shape, parameters)
    if section.name == "maxpool":
        stride = section.number("stride", 1)
        size = section.number("size", stride)
        padding = section.number("padding", size - 1, least=0)
        return MaxPool(size=size, stride=stride, padding=padding)
    if section.name == "upsample":
        return Upsample(factor=section.number("stride", 2))
    if section.name == "route":
        return _route(section, index)
    if section.name == "yolo":
        return _yolo(section)
    raise section.fault("this kind of layer is not known here")


def _convolution(section: _Section, shape: Shape, parameters: "_Parameters") -> Convolution:
    if section.number("groups", 1) != 1:
        raise section.fault("grouped convolutions are not known here")
    activation = section.options.get("activation", "logistic")
    if activation not in ("leaky", "linear"):
        raise section.fault(f"activation {activation!r} is not known here")
    filters, size = section.number("filters", 1), section.number("size", 1)
    padded = section.number("pad", 0, least=0)
    padding = size // 2 if padded else section.number("padding", 0, least=0)
    bias = parameters.take((filters,), section)
    scale = np.ones(filters, dtype=np.float64)
    if section.number("batch_normalize", 0, least=0):
        gain, mean, variance = (parameters.take((filters,), section) for _ in range(3))
        if not (variance >= 0).all():
            raise section.fault("a variance is negative or not a number")
        scale = gain / (np.sqrt(variance) + _EPSILON)
        bias = bias - mean * scale
    kernel = parameters.take((filters, shape[0], size, size), section)
    return Convolution(
        kernel=(kernel * scale[:, None, None, None]).astype(np.float32),
        bias=bias.astype(np.float32),
        stride=section.number("stride", 1),
        padding=padding,
        leaky=activation == "leaky",
    )


def _route(section: _Section, index: int) -> Route:
    if "groups" in section.options:
        raise section.fault("routes of a part of the channels are not known here")
    named = [int(number) for number in section.numbers("layers")]
    sources = tuple(index + layer if layer < 0 else layer for layer in named)
    if not all(0 <= source < index for source in sources):
        raise section.fault(f"layers {named} do not all come before layer {index}")
    return Route(sources=sources)


def _yolo(section: _Section) -> Yolo:
    sides = section.numbers("anchors")
    anchors = tuple(pairwise(sides))[::2]
    mask = tuple(int(number) for number in section.numbers("mask"))
    if len(sides) % 2 or not all(0 <= index < len(anchors) for index in mask):
        raise section.fault(f"mask {mask} does not choose among {len(sides)} / 2 anchors")
    return Yolo(anchors=anchors, mask=mask, classes=section.number("classes", 20))


def _output_shape(section: _Section, layer: Layer, shape: Shape, before: list[Shape]) -> Shape:
    channels, rows, columns = shape
    if isinstance(layer, Convolution):
        size, filters = layer.kernel.shape[2], layer.kernel.shape[0]
        sides = [(side + 2 * layer.padding - size) // layer.stride + 1 for side in (rows, columns)]
        shape = (filters, *sides)
    elif isinstance(layer, MaxPool):
        sides = [
            (side + layer.padding - layer.size) // layer.stride + 1 for side in (rows, columns)
        ]
        shape = (channels, *sides)
    elif isinstance(layer, Upsample):
        shape = (channels, rows * layer.factor, columns * layer.factor)
    elif isinstance(layer, Route):
        parts = [before[source] for source in layer.sources]
        if len({part[1:] for part in parts}) != 1:
            raise section.fault(f"the maps {parts} do not have the same size")
        shape = (sum(part[0] for part in parts), *parts[0][1:])
    elif channels != len(layer.mask) * (5 + layer.classes):
        raise section.fault(
            f"{channels} channels for {len(layer.mask)} anchors of {layer.classes} classes"
        )
    if not all(1 <= side <= _MAX_SIDE for side in shape):
        raise section.fault(f"the output has shape {shape}")
    return shape


class _Parameters:
    """The floats of a weights file, taken from the front."""

    def __init__(self, weights: bytes) -> None:
        if len(weights) < 20:
            raise DarknetError(f"a weights file of {len(weights)} bytes")
        major, minor, _ = struct.unpack_from("<3i", weights)
        header = 20 if major * 10 + minor >= 2 else 16
        if (len(weights) - header) % 4:
            raise DarknetError("the weights file does not hold whole floats")
        self._floats = np.frombuffer(weights, dtype="<f4", offset=header)
        self._at = 0

    def take(self, shape: tuple[int, ...], section: _Section) -> NDArray[np.float64]:
        size = prod(shape)
        left = self._floats.size - self._at
        if size > left:
            raise section.fault(f"needs {size} floats, the weights file has {left} left")
        taken = self._floats[self._at : self._at + size].astype(np.float64).reshape(shape)
        if not np.isfinite(taken).all():
            raise section.fault("its weights are not all finite")
        self._at += size
        return taken

    def check_used_up(self) -> None:
        left = self._floats.size - self._at
        if left:
            raise DarknetError(f"{left} floats of the weights file belong to no layer")
