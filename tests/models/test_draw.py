"""Boxes on pictures: drawn where they are, readable, wherever they lie."""

import numpy as np
import pytest

from headtail_models.vision.answer import Box
from headtail_models.vision.draw import class_colour, draw_boxes


def _box(x1: float, y1: float, x2: float, y2: float, class_id: int = 0) -> Box:
    return Box(label="cat", class_id=class_id, score=0.5, x1=x1, y1=y1, x2=x2, y2=y2)


def test_the_picture_itself_stays_as_it_is() -> None:
    picture = np.zeros((120, 160, 3), dtype=np.uint8)
    drawn = draw_boxes(picture, [_box(40, 50, 90, 100)])
    assert not picture.any()
    assert drawn[75, 40].tolist() == list(class_colour(0))
    assert not drawn[75, 65].any()
    assert drawn[40:50, 40:90].any()


def test_nothing_to_draw() -> None:
    picture = np.full((8, 8, 3), 7, dtype=np.uint8)
    np.testing.assert_array_equal(draw_boxes(picture, []), picture)


@pytest.mark.parametrize("shape", [(40, 60), (2000, 3000), (1, 1)])
@pytest.mark.parametrize("corners", [(0, 0, 1, 1), (0.9, 0.9, 1, 1), (0, 0.99, 0.01, 1)])
def test_labels_stay_within_the_picture(
    shape: tuple[int, int], corners: tuple[float, float, float, float]
) -> None:
    height, width = shape
    x1, y1, x2, y2 = corners
    box = _box(x1 * width, y1 * height, x2 * width, y2 * height)
    drawn = draw_boxes(np.zeros((height, width, 3), dtype=np.uint8), [box])
    assert drawn.shape == (height, width, 3)
    assert drawn.any()


def test_the_best_box_lies_on_top() -> None:
    picture = np.zeros((100, 100, 3), dtype=np.uint8)
    best, worse = _box(20, 50, 80, 90, class_id=1), _box(20, 50, 80, 90, class_id=2)
    assert draw_boxes(picture, [best, worse])[89, 20].tolist() == list(class_colour(1))


def test_classes_have_colours_of_their_own() -> None:
    colours = {class_colour(class_id) for class_id in range(80)}
    assert len(colours) > 70
    assert all(max(colour) == 255 for colour in colours)
