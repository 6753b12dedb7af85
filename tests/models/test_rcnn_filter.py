"""The neural filter: its published size, its threshold, its ROC."""

import numpy as np
import pytest
import torch

from headtail_models.bottleneck.cost import cost
from headtail_models.rcnn.errors import RcnnError
from headtail_models.rcnn.neural_filter import (
    NeuralFilter,
    area_under_curve,
    threshold_for_recall,
)


@pytest.mark.parametrize("size", [(200, 304), (64, 64), (40, 40)])
def test_the_filter_costs_the_same_for_every_picture(size: tuple[int, int]) -> None:
    found = cost(NeuralFilter(), 1, 64, *size)

    assert found.parameters == 88_402
    assert found.macs / 1e6 == pytest.approx(67.5, abs=0.05)


def test_a_probability_a_picture() -> None:
    torch.manual_seed(0)
    scores = NeuralFilter().eval().something(torch.randn(3, 64, 30, 40))

    assert scores.shape == (3,)
    assert ((scores > 0) & (scores < 1)).all()


def test_the_threshold_is_the_largest_that_keeps_the_recall() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.95, 0.1])
    something = np.array([True] * 5 + [False] * 2)

    assert threshold_for_recall(scores, something, 1.0) == 0.5
    assert threshold_for_recall(scores, something, 0.8) == 0.6
    assert threshold_for_recall(scores, something, 0.79) == 0.6
    assert threshold_for_recall(scores, something, 0.01) == 0.9


def test_a_threshold_needs_pictures_and_a_recall() -> None:
    with pytest.raises(RcnnError, match="no calibration picture"):
        threshold_for_recall(np.array([0.5]), np.array([False]), 0.9)
    with pytest.raises(RcnnError, match="recall of 0"):
        threshold_for_recall(np.array([0.5]), np.array([True]), 0.0)


def test_area_under_the_curve() -> None:
    scores = np.array([0.1, 0.4, 0.4, 0.8])

    assert area_under_curve(scores, np.array([False, False, True, True])) == 0.875
    assert area_under_curve(scores, np.array([True, False, True, False])) == 0.125
    assert area_under_curve(scores, np.array([True] * 4)) == 0.5
