import numpy as np
import pytest

from headtail_models.exits.errors import CalibrationError, EmptyCalibrationError
from headtail_models.exits.leak import (
    Windows,
    attack,
    count_windows,
    dominated_order,
    information,
)


def random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_information_of_what_is_known() -> None:
    label = np.arange(4000) % 4
    assert information(label, label, random()) == pytest.approx(2.0, abs=0.01)
    assert information(label // 2, label, random()) == pytest.approx(1.0, abs=0.01)
    # A bit that is turned over in a tenth of the cases: 1 - H(0.1).
    bit = random(1).integers(0, 2, 40_000)
    noisy = bit ^ (random(2).random(40_000) < 0.1)
    assert information(bit, noisy, random()) == pytest.approx(0.531, abs=0.01)


def test_independent_rows_tell_nothing_however_few_they_are() -> None:
    found = [
        information(random(s).integers(0, 3, 100), random(s + 99).integers(0, 10, 100), random(s))
        for s in range(60)
    ]
    assert np.mean(found) == pytest.approx(0.0, abs=0.015)


def test_windows_show_one_class_above_all() -> None:
    labels = np.arange(1000) % 10
    order, dominant = dominated_order(labels, random(), windows=50, length=10, purity=0.8)
    assert order.shape == (500,)
    assert np.bincount(dominant).tolist() == [5] * 10
    rows = labels[order].reshape(50, 10)
    assert ((rows == dominant[:, np.newaxis]).sum(axis=1) >= 8).all()
    assert (rows != dominant[:, np.newaxis]).any()


def test_counts_of_a_run() -> None:
    levels = np.array([0, 0, 1, 2, 2, 2])
    windows = count_windows(levels, np.array([7, 3]), exits=2)
    assert windows.counts.tolist() == [[2, 1, 0], [0, 0, 3]]
    assert windows.dominant.tolist() == [7, 3]


def windows(count: int, chances: list[float], seed: int) -> Windows:
    """Windows of 10, each class leaving with a chance of its own."""
    draw = random(seed)
    dominant = draw.integers(0, len(chances), count)
    left = draw.binomial(10, np.array(chances)[dominant])
    return Windows(counts=np.stack([left, 10 - left], axis=1), dominant=dominant)


def test_the_attack_finds_what_leaks_and_only_that() -> None:
    told = [0.05, 0.35, 0.65, 0.95]
    assert attack(windows(1000, told, 0), windows(1000, told, 1)) > 0.75
    silent = [0.5] * 4
    assert attack(windows(1000, silent, 0), windows(1000, silent, 1)) == pytest.approx(
        0.25, abs=0.04
    )


def test_the_attack_guesses_from_what_it_never_saw() -> None:
    known = Windows(counts=np.array([[9, 1], [1, 9]]), dominant=np.array([4, 8]))
    victim = Windows(counts=np.array([[10, 0], [0, 10], [2, 8]]), dominant=np.array([4, 8, 8]))
    assert attack(known, victim) == 1.0


def test_what_makes_no_sense() -> None:
    labels = np.zeros(5, dtype=np.int64)
    with pytest.raises(CalibrationError, match="rows"):
        information(labels, labels[:3], random())
    with pytest.raises(CalibrationError, match="purity"):
        dominated_order(labels, random(), windows=3, purity=0)
    with pytest.raises(EmptyCalibrationError):
        dominated_order(labels[:0], random(), windows=3)
