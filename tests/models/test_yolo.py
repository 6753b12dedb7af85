"""Decoding of raw maps: by hand, and whatever a broken network may give."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from headtail_models.bundle.manifest import YoloScale
from headtail_models.vision.yolo import decode

SCALE = YoloScale(output="map", stride=8, anchors=((10, 20), (30, 40)))
CLASSES = 3
CHANNELS = 2 * (5 + CLASSES)


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def _map(rows: int = 4, columns: int = 5) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    tensor = np.zeros((CHANNELS, rows, columns), dtype=np.float32)
    tensor[[4, 12]] = -20  # nothing anywhere
    return tensor


def test_one_cell_by_hand() -> None:
    tensor = _map()
    # The second anchor at row 2, column 3.
    tensor[8:16, 2, 3] = [0.5, -0.5, 0.1, -0.2, 3.0, -9, 2.0, -9]
    rows = decode([tensor], [SCALE], classes=CLASSES, threshold=0.25)
    x, y = (3 + _sigmoid(0.5)) * 8, (2 + _sigmoid(-0.5)) * 8
    width, height = 30 * math.exp(0.1), 40 * math.exp(-0.2)
    score = _sigmoid(3.0) * _sigmoid(2.0)
    expected = [x - width / 2, y - height / 2, x + width / 2, y + height / 2, score, 1]
    np.testing.assert_allclose(rows, [expected], rtol=1e-5)


def test_one_box_may_have_several_classes() -> None:
    tensor = _map()
    tensor[4, 0, 0] = 5
    tensor[5:8, 0, 0] = [4, 4, -9]
    rows = decode([tensor], [SCALE], classes=CLASSES, threshold=0.25)
    assert rows[:, 5].tolist() == [0, 1]
    np.testing.assert_array_equal(rows[0, :5], rows[1, :5])


def test_scales_are_put_together() -> None:
    tensor = _map()
    tensor[4:6, 1, 1] = 9
    other = YoloScale(output="other", stride=16, anchors=SCALE.anchors)
    rows = decode([tensor, tensor], [SCALE, other], classes=CLASSES, threshold=0.6)
    centres = (rows[:, :2] + rows[:, 2:4]) / 2
    np.testing.assert_allclose(centres, [[12, 12], [24, 24]], rtol=1e-5)


def test_nothing_found() -> None:
    rows = decode([_map()], [SCALE], classes=CLASSES, threshold=0.25)
    assert rows.shape == (0, 6)
    assert rows.dtype == np.float32
    assert decode([], [], classes=CLASSES, threshold=0.25).shape == (0, 6)


@pytest.mark.parametrize("threshold", [0.0, 0.005, 0.5, 0.999, 1.0])
def test_the_early_test_hides_nothing(threshold: float) -> None:
    tensor = np.random.default_rng(2).normal(0, 4, (CHANNELS, 6, 6)).astype(np.float32)
    rows = decode([tensor], [SCALE], classes=CLASSES, threshold=threshold)
    cells = tensor.reshape(2, 5 + CLASSES, 6, 6)
    odds = np.float32(1) / (1 + np.exp(-cells))
    assert len(rows) == int((odds[:, 4:5] * odds[:, 5:] >= threshold).sum())


@pytest.mark.parametrize("shape", [(CHANNELS - 1, 4, 4), (CHANNELS, 4), (1, CHANNELS, 4, 4)])
def test_wrong_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="map"):
        decode([np.zeros(shape, np.float32)], [SCALE], classes=CLASSES, threshold=0.5)


@given(
    arrays.arrays(np.float32, (CHANNELS, 2, 2), elements=st.floats(width=32, allow_nan=True)),
    st.floats(0, 1),
)
def test_whatever_the_network_gives_comes_out_finite(
    tensor: np.ndarray[tuple[int, ...], np.dtype[np.float32]], threshold: float
) -> None:
    rows = decode([tensor], [SCALE], classes=CLASSES, threshold=threshold)
    assert np.isfinite(rows).all()
    assert ((rows[:, 4] >= threshold) & (rows[:, 4] <= 1)).all()
