"""Ranges for the quantisers: what the search finds on values whose best range is known."""

import numpy as np
import pytest

from headtail_fabric.codec import Quantiser
from headtail_models.zoo.ranges import BINS, Histogram, best_ranges


def _histogram(values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> Histogram:
    histogram = Histogram(values.min(axis=1), values.max(axis=1))
    histogram.add(values[:, :, np.newaxis])
    return histogram


def test_histogram_counts_each_channel() -> None:
    values = np.array([[0, 1, 1, 2], [5, 5, 5, 9]], dtype=np.float32)
    histogram = _histogram(values)
    histogram.add(values[:, :, np.newaxis])
    assert histogram.counts.sum(axis=1).tolist() == [8, 8]
    assert histogram.counts[0, [0, BINS // 2, BINS - 1]].tolist() == [2, 4, 2]
    np.testing.assert_allclose(histogram.means, [1, 6], atol=0.01)


def test_even_values_keep_their_whole_range() -> None:
    values = np.linspace(-3, 5, 4096, dtype=np.float32)[np.newaxis]
    low, high = best_ranges(_histogram(values), 8)
    assert low[0] == pytest.approx(-3, abs=0.05)
    assert high[0] == pytest.approx(5, abs=0.05)


def test_few_bits_cut_a_long_tail_off() -> None:
    values = np.random.default_rng(1).exponential(1.0, (2, 40_000)).astype(np.float32)
    values[1] *= -3
    histogram = _histogram(values)
    low, high = best_ranges(histogram, 4)
    assert high[0] < 0.9 * histogram.high[0]
    assert low[1] > 0.9 * histogram.low[1]
    wide = Quantiser(histogram.low.astype(np.float32), histogram.high.astype(np.float32))
    tight = Quantiser(low.astype(np.float32), high.astype(np.float32))
    assert _error(tight, values, 4) < 0.8 * _error(wide, values, 4)
    assert best_ranges(histogram, 8)[1][0] > high[0]


def test_a_constant_channel() -> None:
    values = np.full((1, 10), 2.5, dtype=np.float32)
    low, high = best_ranges(_histogram(values), 4)
    assert (low[0], high[0]) == (2.5, 2.5)


def _error(
    quantiser: Quantiser, values: np.ndarray[tuple[int, ...], np.dtype[np.float32]], bits: int
) -> float:
    tensor = values[np.newaxis]
    back = quantiser.values(quantiser.levels(tensor, bits), bits)
    return float((np.abs(back - tensor) ** 3).sum())
