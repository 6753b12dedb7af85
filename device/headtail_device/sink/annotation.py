"""An answer drawn into its picture."""

from typing import Final

import cv2

from headtail_models.task import Answer, Picture, TagAnswer
from headtail_models.vision.answer import DetectAnswer
from headtail_models.vision.draw import draw_boxes

_FONT: Final = cv2.FONT_HERSHEY_SIMPLEX
_WHITE: Final = (255, 255, 255)
_BLACK: Final = (0, 0, 0)


def annotate(picture: Picture, answer: Answer) -> Picture:
    """A copy of the picture with the boxes, or the likeliest labels in the upper left corner."""
    if isinstance(answer, DetectAnswer):
        return draw_boxes(picture, answer.boxes)
    canvas = picture.copy()
    scale = max(0.4, min(canvas.shape[:2]) / 600)
    weight, line = max(1, round(2 * scale)), round(32 * scale)
    named = (
        [(tag.label, tag.score) for tag in answer.tags]
        if isinstance(answer, TagAnswer)
        else answer.top
    )
    for row, (label, share) in enumerate(named, start=1):
        words, at = f"{label} {share:.0%}", (line // 3, row * line)
        # White on a black outline can be read on any picture.
        cv2.putText(canvas, words, at, _FONT, scale, _BLACK, 3 * weight, cv2.LINE_AA)
        cv2.putText(canvas, words, at, _FONT, scale, _WHITE, weight, cv2.LINE_AA)
    return canvas
