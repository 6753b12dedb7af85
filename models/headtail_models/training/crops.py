"""Random square crops of a picture, as a letterboxing network would see parts of it."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from headtail_models.training.pictures import Picture

GREY: Final = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class CropStyle:
    """`side` of the crop and `longest` side of a scaled picture, both in pixels.

    The scale varies by a factor of exp(+-`spread`); a share `banded` gets a band of grey at an
    edge, as a letterbox has; a share `toned` other brightness and contrast.
    """

    side: int
    longest: int
    spread: float = 0.35
    banded: float = 0.25
    toned: float = 0.3
    fill: int = GREY


def crop(picture: Picture, style: CropStyle, random: np.random.Generator) -> Picture:
    """One crop (side, side, 3); grey where it leaves the picture."""
    scale = style.longest / max(picture.shape[:2])
    scale *= math.exp(random.uniform(-style.spread, style.spread))
    size = [max(8, round(length * scale)) for length in picture.shape[1::-1]]
    way = cv2.INTER_AREA if scale < 0.5 else cv2.INTER_LINEAR
    scaled = cv2.resize(picture, size, interpolation=way)
    canvas = np.full((style.side, style.side, 3), style.fill, dtype=np.uint8)
    top, left = (_place(length, style.side, random) for length in scaled.shape[:2])
    rows = slice(max(0, top), max(0, top) + style.side)
    columns = slice(max(0, left), max(0, left) + style.side)
    part = _toned(scaled[rows, columns], style, random)
    down, right = max(0, -top), max(0, -left)
    canvas[down : down + part.shape[0], right : right + part.shape[1]] = part
    if random.random() < style.banded:
        _band(canvas, style, random)
    return canvas[:, ::-1].copy() if random.random() < 0.5 else canvas


def crop_batches(
    sources: Iterable[tuple[Picture, int]],
    style: CropStyle,
    random: np.random.Generator,
    *,
    count: int,
) -> Iterator[NDArray[np.float32]]:
    """Crops of every picture, so many of each, as batches of at most `count` of a network's input
    (n, 3, side, side), RGB / 255. Always the same for the same generator."""
    crops = (crop(picture, style, random) for picture, number in sources for _ in range(number))
    while some := list(islice(crops, count)):
        yield planes(np.stack(some))


def planes(crops: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Crops (N, side, side, 3), BGR, as a network's input (N, 3, side, side), RGB / 255."""
    ordered = np.ascontiguousarray(crops[..., ::-1].transpose(0, 3, 1, 2), dtype=np.float32)
    ordered *= np.float32(1 / 255)
    return ordered


def _place(length: int, side: int, random: np.random.Generator) -> int:
    spare = length - side
    return int(random.integers(0, spare + 1)) if spare >= 0 else -int(random.integers(0, 1 - spare))


def _toned(
    part: NDArray[np.generic], style: CropStyle, random: np.random.Generator
) -> NDArray[np.uint8]:
    values = part.astype(np.float32)
    if random.random() < style.toned:
        values = (values - 127) * random.uniform(0.7, 1.3) + 127 + random.uniform(-30, 30)
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def _band(canvas: Picture, style: CropStyle, random: np.random.Generator) -> None:
    width = int(random.integers(8, style.side // 3))
    # A view turned so that the band's edge lies at its top.
    np.rot90(canvas, k=int(random.integers(4)))[:width] = style.fill
