"""Suppression within a class, against the plainest possible loop."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headtail_models.vision.boxes import areas, iou
from headtail_models.vision.nms import MAX_CANDIDATES, suppress

Rows = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def _rows(*rows: Sequence[float] | Rows) -> Rows:
    return np.array(rows, dtype=np.float32).reshape(-1, 6)


def test_the_better_of_two_stays() -> None:
    rows = _rows([0, 0, 10, 10, 0.6, 1], [1, 0, 11, 10, 0.9, 1], [50, 50, 60, 60, 0.5, 1])
    kept = suppress(rows, max_iou=0.45, limit=10)
    np.testing.assert_array_equal(kept, rows[[1, 2]])


def test_classes_do_not_touch_each_other() -> None:
    rows = _rows([0, 0, 10, 10, 0.6, 1], [0, 0, 10, 10, 0.9, 2])
    assert len(suppress(rows, max_iou=0.45, limit=10)) == 2


def test_what_was_suppressed_suppresses_nothing() -> None:
    # The middle one falls to the first; the last overlaps only the middle one.
    rows = _rows([0, 0, 10, 10, 0.9, 0], [4, 0, 14, 10, 0.8, 0], [8, 0, 18, 10, 0.7, 0])
    kept = suppress(rows, max_iou=0.3, limit=10)
    np.testing.assert_array_equal(kept, rows[[0, 2]])


def test_equal_scores_keep_their_order_and_the_limit_holds() -> None:
    rows = _rows(*[[20 * i, 0, 20 * i + 10, 10, 0.5, i % 2] for i in range(6)])
    kept = suppress(rows, max_iou=0.5, limit=4)
    np.testing.assert_array_equal(kept, rows[:4])


def test_what_a_forged_tensor_costs_is_bounded() -> None:
    rows = np.zeros((MAX_CANDIDATES + 1000, 6), dtype=np.float32)
    rows[:, 0] = 20 * np.arange(len(rows))
    rows[:, 2:4] = rows[:, 0:2] + 10
    rows[:, 4] = 0.5
    assert len(suppress(rows, max_iou=0.5, limit=len(rows))) == MAX_CANDIDATES


def test_nothing_in_nothing_out() -> None:
    assert suppress(_rows(), max_iou=0.5, limit=4).shape == (0, 6)


def test_overlaps_by_hand() -> None:
    one = np.array([[0, 0, 10, 10], [5, 5, 5, 5]], dtype=np.float32)
    other = np.array([[5, 0, 15, 10], [0, 0, 10, 10], [9, 9, 1, 1]], dtype=np.float32)
    expected = np.array([[1 / 3, 1, 0], [0, 0, 0]])
    np.testing.assert_allclose(iou(one, other), expected, rtol=1e-6)
    np.testing.assert_array_equal(areas(other), [100, 100, 0])


@st.composite
def _detections(draw: st.DrawFn) -> Rows:
    count = draw(st.integers(0, 25))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    corner = random.uniform(0, 40, (count, 2))
    size = random.uniform(0, 40, (count, 2))
    scores = random.choice([0.1, 0.5, 0.9, 0.95], count)
    labels = random.integers(0, 3, count)
    return np.column_stack([corner, corner + size, scores, labels]).astype(np.float32)


@given(_detections(), st.floats(0.05, 1.0), st.integers(1, 30))
def test_it_is_the_greedy_loop(rows: Rows, max_iou: float, limit: int) -> None:
    kept: list[Rows] = []
    for row in sorted(rows, key=lambda row: -row[4]):
        rivals = [other for other in kept if other[5] == row[5]]
        overlaps = [float(iou(row[None, :4], other[None, :4])[0, 0]) for other in rivals]
        if not any(overlap > np.float32(max_iou) for overlap in overlaps):
            kept.append(row)
    expected = _rows(*kept[:limit])
    np.testing.assert_array_equal(suppress(rows, max_iou=max_iou, limit=limit), expected)
