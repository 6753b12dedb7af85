"""A picture's way into the network's input, and boxes' way back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_models.vision.geometry import Geometry
from headtail_models.vision.prepare import Picture, centre_crop, letterbox

SIDES = st.integers(1, 5000)


def test_a_wide_picture_lies_in_the_middle() -> None:
    geometry = Geometry.letterbox(480, 640, to_height=416, to_width=416)
    assert (geometry.inner_width, geometry.inner_height) == (416, 312)
    assert (geometry.left, geometry.top) == (0, 52)
    picture = np.zeros((480, 640, 3), dtype=np.uint8)
    picture[:] = (10, 20, 30)
    tensor = letterbox(picture, geometry, fill=127)
    assert tensor.shape == (1, 3, 416, 416)
    assert tensor.dtype == np.float32
    np.testing.assert_allclose(tensor[0, :, 51, 0], [127 / 255] * 3, rtol=1e-6)
    # BGR in, RGB out.
    np.testing.assert_allclose(tensor[0, :, 52, 0], np.array([30, 20, 10]) / 255, rtol=1e-6)
    np.testing.assert_allclose(tensor[0, :, 363, 415], np.array([30, 20, 10]) / 255, rtol=1e-6)
    np.testing.assert_allclose(tensor[0, :, 364, 0], [127 / 255] * 3, rtol=1e-6)


def test_a_tall_picture_lies_in_the_middle() -> None:
    geometry = Geometry.letterbox(100, 50, to_height=32, to_width=32)
    assert (geometry.inner_width, geometry.inner_height) == (16, 32)
    assert (geometry.left, geometry.top) == (8, 0)


def test_a_picture_of_the_right_size_is_not_touched() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    tensor = letterbox(picture, Geometry.letterbox(32, 32, to_height=32, to_width=32), fill=127)
    back = np.rint(tensor[0] * 255).astype(np.uint8)[::-1].transpose(1, 2, 0)
    np.testing.assert_array_equal(back, picture)


@given(SIDES, SIDES, st.sampled_from([32, 224, 416]))
def test_the_picture_always_fits(height: int, width: int, side: int) -> None:
    geometry = Geometry.letterbox(height, width, to_height=side, to_width=side)
    assert 1 <= geometry.inner_width <= side
    assert 1 <= geometry.inner_height <= side
    assert max(geometry.inner_width, geometry.inner_height) == side
    assert geometry.left + geometry.inner_width <= side
    assert geometry.top + geometry.inner_height <= side


@given(SIDES, SIDES, st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_boxes_come_back_where_they_were(height: int, width: int, corners: list[float]) -> None:
    geometry = Geometry.letterbox(height, width, to_height=416, to_width=416)
    size = np.array([width, height, width, height], dtype=np.float64)
    boxes = (np.array([corners]) * size).astype(np.float32)
    inside = np.array([[0, 0, 416, 416]])
    moved = geometry.to_network(boxes)
    assert (moved >= inside[:, [0, 1, 0, 1]] - 1e-3).all()
    assert (moved <= inside[:, [2, 3, 2, 3]] + 1e-3).all()
    np.testing.assert_allclose(geometry.to_picture(moved), boxes, atol=2e-4 * max(height, width))


def test_boxes_are_clipped_to_the_picture() -> None:
    geometry = Geometry.letterbox(480, 640, to_height=416, to_width=416)
    boxes = np.array([[-50, 0, 500, 416]], dtype=np.float32)
    np.testing.assert_array_equal(geometry.to_picture(boxes), [[0, 0, 640, 480]])


def test_centre_crop_takes_the_middle() -> None:
    geometry = Geometry.centre_crop(100, 200, resize=50, to_height=40, to_width=40)
    assert (geometry.left, geometry.top) == (-30, -5)
    picture = np.zeros((100, 200, 3), dtype=np.uint8)
    picture[:, 60:140] = 255
    tensor = centre_crop(picture, geometry, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.25))
    assert tensor.shape == (1, 3, 40, 40)
    np.testing.assert_allclose(tensor[0, :, 20, 20], [1, 1, 2], rtol=1e-6)
    plain = centre_crop(picture, geometry, mean=(), std=())
    np.testing.assert_allclose(plain[0, :, 20, 20], [1, 1, 1], rtol=1e-6)


def test_boxes_of_a_crop_come_back() -> None:
    geometry = Geometry.centre_crop(100, 200, resize=50, to_height=40, to_width=40)
    boxes = np.array([[0, 0, 40, 40]], dtype=np.float32)
    np.testing.assert_allclose(geometry.to_picture(boxes), [[60, 10, 140, 90]])


@pytest.mark.parametrize(
    "picture",
    [
        np.zeros((4, 4), dtype=np.uint8),
        np.zeros((4, 4, 4), dtype=np.uint8),
        np.zeros((4, 4, 3), dtype=np.float32),
        np.zeros((0, 4, 3), dtype=np.uint8),
    ],
)
def test_what_is_no_picture_is_refused(picture: Picture) -> None:
    geometry = Geometry.letterbox(4, 4, to_height=8, to_width=8)
    with pytest.raises(ValueError, match="picture"):
        letterbox(picture, geometry, fill=0)
