"""The threshold of a neural filter: how sure of nothing it must be before a frame ends there."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headtail_models.exits.errors import CalibrationError, EmptyCalibrationError


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterPoint:
    """`recall`: share of the frames with something in them that pass at `threshold`, as counted;
    `recall_bound`: what it is at least, with the sureness asked for. `dropped`: share of the
    frames with nothing in them that end there."""

    threshold: float
    recall: float
    recall_bound: float
    dropped: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallReached:
    """The target is kept."""

    point: FilterPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallNotReachable:
    """Too few frames with something in them to promise that recall; `needed` are enough. `nearest`
    lets everything pass."""

    nearest: FilterPoint
    needed: int


def filter_threshold(
    scores: NDArray[Any], something: NDArray[np.bool_], *, recall: float, sureness: float = 0.95
) -> RecallReached | RecallNotReachable:
    """The largest threshold that keeps `recall` with `sureness`.

    `scores` (N,): probability of something; frames below the threshold end. `something` (N,): what
    is true. The number of misses allowed is the largest whose one-sided Clopper-Pearson bound
    keeps the target (Clopper and Pearson, Biometrika 26, 1934). As the threshold is an order
    statistic of the scores, the promise holds for any distribution of them, as long as new frames
    are drawn from the same (Wilks, "Determination of sample sizes for setting tolerance limits",
    1941). Raises CalibrationError.
    """
    if scores.shape != something.shape or scores.ndim != 1:
        raise CalibrationError(f"scores of shape {scores.shape}, truths {something.shape}")
    if not (0 < recall < 1 and 0 < sureness < 1):
        raise CalibrationError(
            f"a recall of {recall} with sureness {sureness}: both lie within 0..1"
        )
    if not np.isfinite(scores).all():
        raise CalibrationError("the scores hold values that are not finite")
    found = np.sort(scores[something])
    if found.size == 0:
        raise EmptyCalibrationError("no frame has anything in it to calibrate the filter on")
    misses = _allowed_misses(found.size, recall, sureness)
    if misses < 0:
        needed = math.ceil(math.log(1 - sureness) / math.log(recall))
        return RecallNotReachable(nearest=_point(0.0, scores, something, sureness), needed=needed)
    return RecallReached(point=_point(float(found[misses]), scores, something, sureness))


def recall_bound(passed: int, frames: int, *, sureness: float = 0.95) -> float:
    """What the recall is at least, when `passed` of `frames` passed: Clopper-Pearson, one side."""
    if passed == 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        # At the bound, as many or more pass with a probability of 1 - sureness.
        if _at_most(frames - passed, frames, 1 - middle) > 1 - sureness:
            high = middle
        else:
            low = middle
    return low


def _point(
    threshold: float, scores: NDArray[Any], something: NDArray[np.bool_], sureness: float
) -> FilterPoint:
    passes = scores >= threshold
    passed, frames = int(passes[something].sum()), int(something.sum())
    nothing = ~something
    return FilterPoint(
        threshold=threshold,
        recall=passed / frames,
        recall_bound=recall_bound(passed, frames, sureness=sureness),
        dropped=float((~passes[nothing]).mean()) if nothing.any() else 0.0,
    )


def _allowed_misses(frames: int, recall: float, sureness: float) -> int:
    """-1 when not even none is few enough."""
    low, high = -1, frames  # `low` keeps the promise (or is none), `high` does not
    while high - low > 1:
        middle = (low + high) // 2
        if _at_most(middle, frames, 1 - recall) <= 1 - sureness:
            low = middle
        else:
            high = middle
    return low


def _at_most(misses: int, frames: int, chance: float) -> float:
    """Probability of at most so many misses of `chance` each."""
    if chance <= 0 or misses >= frames:
        return 1.0
    if chance >= 1:
        return 0.0
    counts = np.arange(misses + 1)
    ways = np.array([math.lgamma(k + 1) + math.lgamma(frames - k + 1) for k in counts])
    logs = math.lgamma(frames + 1) - ways + counts * math.log(chance)
    logs += (frames - counts) * math.log1p(-chance)
    return float(min(np.exp(logs).sum(), 1.0))
