"""Boxes and labels drawn onto a picture."""

from collections.abc import Sequence
from functools import cache
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from headtail_models.vision.answer import Box

Colour = tuple[int, int, int]

_FONT: Final = cv2.FONT_HERSHEY_SIMPLEX
_GOLDEN_ANGLE: Final = 137.508
"""Degrees: neighbouring class numbers get hues far apart, however many there are."""


def draw_boxes(picture: NDArray[np.uint8], boxes: Sequence[Box]) -> NDArray[np.uint8]:
    """A copy of a BGR picture with the boxes and their labels; line and letter sizes follow the
    picture's size. The best boxes lie on top."""
    canvas = picture.copy()
    unit = max(1.0, min(canvas.shape[:2]) / 480)
    for box in reversed(boxes):
        _draw(canvas, box, unit)
    return canvas


@cache
def class_colour(class_id: int) -> Colour:
    """A bright BGR colour, the same for a class in every picture."""
    hue = int(class_id * _GOLDEN_ANGLE % 360 / 2)
    pixel = cv2.cvtColor(np.array([[[hue, 200, 255]]], dtype=np.uint8), cv2.COLOR_HSV2BGR)[0, 0]
    return int(pixel[0]), int(pixel[1]), int(pixel[2])


def _draw(canvas: NDArray[np.uint8], box: Box, unit: float) -> None:
    height, width = canvas.shape[:2]
    colour, line = class_colour(box.class_id), max(1, round(2 * unit))
    left, top = round(box.x1), round(box.y1)
    cv2.rectangle(canvas, (left, top), (round(box.x2), round(box.y2)), colour, line, cv2.LINE_AA)
    words, scale = f"{box.label} {box.score:.2f}", 0.5 * unit
    weight = max(1, round(unit))
    (text_width, text_height), below = cv2.getTextSize(words, _FONT, scale, weight)
    plate = text_height + below + 2 * weight
    # Above the box, or inside it at the picture's upper edge; never beyond the right edge.
    bottom = top if top >= plate else min(top + plate, height)
    left = max(0, min(left, width - text_width - 2 * weight))
    cv2.rectangle(
        canvas,
        (left, bottom - plate),
        (left + text_width + 2 * weight, bottom),
        colour,
        cv2.FILLED,
    )
    origin = (left + weight, bottom - below - weight)
    cv2.putText(canvas, words, origin, _FONT, scale, _ink(colour), weight, cv2.LINE_AA)


def _ink(colour: Colour) -> Colour:
    """Black or white, whichever is read better on the colour (Rec. 601 luma)."""
    blue, green, red = colour
    return (0, 0, 0) if 0.114 * blue + 0.587 * green + 0.299 * red > 128 else (255, 255, 255)
