"""How much the exits that frames leave at tell of what was seen.

Two measures: the mutual information of decision and class, and an attack on windows of frames of
which most show one class: guess which, from how many left where (Kannan, Feamster and Hoffmann, CCS
2023, section 3). The attacker knows the device's network and policy: it learns from windows of its
own.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.exits.errors import CalibrationError, EmptyCalibrationError

_SHUFFLES: Final = 20
_SMOOTHING: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windows:
    """`counts` (W, E + 1): frames of each window that left at each level; `dominant` (W,): the
    class that most of its frames show."""

    counts: NDArray[np.int64]
    dominant: NDArray[np.int64]


def dominated_order(
    labels: NDArray[np.int64],
    random: np.random.Generator,
    *,
    windows: int,
    length: int = 10,
    purity: float = 0.8,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """An order of samples (windows x length,) in which each window shows one class above all, and
    that class (windows,): each comes equally often.

    A share `purity` of a window is of its class, the rest of any; drawn with replacement. Raises
    CalibrationError.
    """
    if labels.size == 0 or windows < 1:
        raise EmptyCalibrationError(f"{labels.size} samples, {windows} windows")
    if length < 1 or not 0 < purity <= 1:
        raise CalibrationError(f"windows of {length} frames, a purity of {purity}")
    classes = np.unique(labels)
    dominant = random.permutation(np.resize(classes, windows))
    own = max(1, round(purity * length))
    order = np.empty((windows, length), dtype=np.int64)
    for row, label in zip(order, dominant, strict=True):
        row[:own] = random.choice(np.flatnonzero(labels == label), own)
        row[own:] = random.integers(0, labels.size, length - own)
        random.shuffle(row)
    return order.reshape(-1), dominant


def count_windows(levels: NDArray[np.int64], dominant: NDArray[np.int64], *, exits: int) -> Windows:
    """The windows of a run over `dominated_order`."""
    rows = levels.reshape(dominant.size, -1)
    counts = np.stack([(rows == level).sum(axis=1) for level in range(exits + 1)], axis=1)
    return Windows(counts=counts, dominant=dominant)


def information(first: NDArray[Any], second: NDArray[Any], random: np.random.Generator) -> float:
    """Mutual information of two rows of numbers (N,), in bits, less its bias.

    A finite sample shows some where there is none: what is left when one row is shuffled (mean of
    20) is taken away, so that independent rows come out at 0 on average. Raises CalibrationError.
    """
    if first.shape != second.shape or first.ndim != 1 or first.size == 0:
        raise CalibrationError(f"rows of shape {first.shape} and {second.shape}")
    _, left = np.unique(first, return_inverse=True)
    _, right = np.unique(second, return_inverse=True)
    chance = [_plain(left, random.permutation(right)) for _ in range(_SHUFFLES)]
    return _plain(left, right) - float(np.mean(chance))


def attack(known: Windows, victim: Windows) -> float:
    """Share of the victim's windows whose class is guessed from its counts.

    For each class, how often these counts came in the known windows of that class, and, where that
    is seldom, what independent frames would make likely.
    """
    classes = np.unique(known.dominant)
    sums = np.array([known.counts[known.dominant == label].sum(axis=0) for label in classes])
    shares = (sums + _SMOOTHING) / (sums + _SMOOTHING).sum(axis=1, keepdims=True)
    logs = victim.counts @ np.log(shares).T
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    likely /= likely.sum(axis=1, keepdims=True)
    seen: dict[bytes, NDArray[np.float64]] = {}
    for counts, label in zip(known.counts, known.dominant, strict=True):
        row = seen.setdefault(counts.tobytes(), np.zeros(classes.size))
        row[np.searchsorted(classes, label)] += 1
    nothing = np.zeros(classes.size)
    often = np.array([seen.get(counts.tobytes(), nothing) for counts in victim.counts])
    guesses = classes[np.argmax(often + classes.size * likely, axis=1)]
    return float((guesses == victim.dominant).mean())


def _plain(left: NDArray[np.int64], right: NDArray[np.int64]) -> float:
    table = np.zeros((int(left.max()) + 1, int(right.max()) + 1))
    np.add.at(table, (left, right), 1)
    joint = table / table.sum()
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    there = joint > 0
    return float((joint[there] * np.log2(joint[there] / apart[there])).sum())
