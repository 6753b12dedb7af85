"""Average precision on cases that can be worked out by hand."""

import numpy as np
import pytest

from headtail_models.vision.average_precision import (
    MAX_DETECTIONS,
    agreement,
    mean_average_precision,
)

Rows = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

BOX = [10, 10, 50, 50]
FAR = [100, 100, 140, 140]


def _found(*rows: tuple[list[int], float, int]) -> Rows:
    return np.array([[*box, score, label] for box, score, label in rows], np.float32).reshape(-1, 6)


def _true(*rows: tuple[int, list[int]]) -> Rows:
    return np.array([[label, *box] for label, box in rows], np.float32).reshape(-1, 5)


def test_all_found_exactly() -> None:
    result = mean_average_precision(
        [_found((BOX, 0.9, 0), (FAR, 0.8, 1))], [_true((0, BOX), (1, FAR))]
    )
    assert (result.map50, result.map) == (1.0, 1.0)


def test_nothing_found() -> None:
    result = mean_average_precision([_found()], [_true((0, BOX))])
    assert (result.map50, result.map) == (0.0, 0.0)


def test_nothing_to_find() -> None:
    result = mean_average_precision([_found((BOX, 0.9, 0))], [_true()])
    assert (result.map50, result.map) == (0.0, 0.0)
    assert mean_average_precision([], []).map50 == 0.0


def test_a_class_without_true_boxes_does_not_count() -> None:
    result = mean_average_precision([_found((BOX, 0.9, 0), (FAR, 0.95, 7))], [_true((0, BOX))])
    assert result.map50 == 1.0


def test_the_wrong_class_is_a_miss() -> None:
    result = mean_average_precision([_found((BOX, 0.9, 1))], [_true((0, BOX))])
    assert result.map50 == 0.0


def test_half_is_missed() -> None:
    # Recall reaches 0.5: precision is 1 at the 51 recalls 0 .. 0.5 of 101.
    result = mean_average_precision([_found((BOX, 0.9, 0))], [_true((0, BOX), (0, FAR))])
    assert result.map50 == pytest.approx(51 / 101)


def test_a_second_detection_of_the_same_box_is_wrong() -> None:
    # Hit, duplicate, hit: precision 1 up to recall 0.5, then 2/3.
    rows = _found((BOX, 0.9, 0), (BOX, 0.8, 0), (FAR, 0.7, 0))
    result = mean_average_precision([rows], [_true((0, BOX), (0, FAR))])
    assert result.map50 == pytest.approx((51 + 50 * 2 / 3) / 101)


def test_a_duplicate_behind_all_hits_costs_nothing() -> None:
    rows = _found((BOX, 0.9, 0), (FAR, 0.8, 0), (BOX, 0.1, 0))
    assert mean_average_precision([rows], [_true((0, BOX), (0, FAR))]).map50 == 1.0


def test_scores_order_over_all_pictures() -> None:
    # The wrong one of the second picture is the surest: precision 1/2 at recall 1.
    found = [_found((BOX, 0.8, 0)), _found((FAR, 0.9, 0))]
    result = mean_average_precision(found, [_true((0, BOX)), _true()])
    assert result.map50 == pytest.approx(0.5)


def test_overlap_decides_up_to_which_iou_it_counts() -> None:
    # 40 x 40 against 40 x 29: IoU 0.725 counts for 0.50 .. 0.70, five of ten.
    result = mean_average_precision([_found(([10, 10, 50, 39], 0.9, 0))], [_true((0, BOX))])
    assert result.map50 == 1.0
    assert result.map == pytest.approx(0.5)


def test_a_detection_takes_the_free_box_it_overlaps_most() -> None:
    near = [12, 10, 52, 50]
    rows = _found((BOX, 0.9, 0), (near, 0.8, 0))
    assert mean_average_precision([rows], [_true((0, near), (0, BOX))]).map == 1.0


def test_classes_weigh_the_same() -> None:
    true = _true((0, BOX), (0, FAR), (1, BOX))
    result = mean_average_precision([_found((BOX, 0.9, 0), (FAR, 0.9, 0))], [true])
    assert result.map50 == pytest.approx(0.5)


def test_only_the_best_of_a_picture_count() -> None:
    noise = [(FAR, 0.9, 1)] * MAX_DETECTIONS
    result = mean_average_precision([_found(*noise, (BOX, 0.5, 0))], [_true((0, BOX))])
    assert result.map50 == 0.0


def test_agreement_with_itself() -> None:
    rows = _found((BOX, 0.9, 0), (FAR, 0.4, 1))
    assert agreement([rows], [rows]) == 1.0
    assert agreement([_found()], [_found()]) == 1.0
    assert agreement([rows], [_found()]) == 0.0
    assert agreement([_found()], [rows]) == 0.0


def test_agreement_with_itself_however_much_there_is() -> None:
    rows = _found(*(([20 * i, 0, 20 * i + 10, 10], 0.5, 0) for i in range(MAX_DETECTIONS + 20)))
    assert agreement([rows], [rows]) == 1.0


def test_agreement_pools_the_classes() -> None:
    reference = _found((BOX, 0.9, 0), (FAR, 0.8, 1))
    # The surest is of a class that is not there: precision 1/2 and 2/3.
    found = _found((BOX, 0.95, 5), (BOX, 0.9, 0), (FAR, 0.8, 1))
    assert agreement([found], [reference]) == pytest.approx(2 / 3)


def test_agreement_needs_the_same_class() -> None:
    assert agreement([_found((BOX, 0.9, 1))], [_found((BOX, 0.9, 0))]) == 0.0
