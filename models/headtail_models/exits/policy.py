"""Who leaves where: policies behind one seam.

Whether a frame left early shows on the wire, in sizes and times, however well all is encrypted; and
easy classes leave more often. The two policies below the plain one leak less of the class: Kannan,
Feamster and Hoffmann, "Prediction Privacy in Distributed Multi-Exit Neural Networks", CCS 2023.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from headtail_models.exits.answers import Answers
from headtail_models.exits.errors import CalibrationError
from headtail_models.exits.thresholds import CLOSED

SHORTEST: Final = 5
LONGEST: Final = 20
"""Frames in a window of `ConfidenceGuided`."""
_LARGEST_BIAS: Final = 0.5
_SAME: Final = 0.9
_CHANGED: Final = 2.0


class ExitPolicy(Protocol):
    """Decides for one stream of frames, in their order. Not to be shared by streams."""

    def leaves(self, level: int, *, confidence: float, prediction: int) -> bool:
        """Whether the frame ends at exit `level`.

        Asked at exit 0 first, then at each next one until it says yes or there is none.
        `prediction` is the class that this exit would answer.
        """
        ...


class Threshold:
    """One threshold an exit, the same for all classes."""

    def __init__(self, thresholds: Sequence[float]) -> None:
        self._thresholds = tuple(thresholds)

    def __repr__(self) -> str:
        return f"Threshold({', '.join(f'{value:.3g}' for value in self._thresholds)})"

    def leaves(self, level: int, *, confidence: float, prediction: int) -> bool:
        return confidence >= self._thresholds[level]


class PerClass:
    """Per-class exiting (PCE): one threshold a class and exit (E, K), see `class_thresholds`.

    Every class leaves as often as every other, on frames like those of the calibration.
    """

    def __init__(self, thresholds: NDArray[np.float64]) -> None:
        self._thresholds = thresholds

    def __repr__(self) -> str:
        return f"PerClass({self._thresholds.shape[0]} exits, {self._thresholds.shape[1]} classes)"

    def leaves(self, level: int, *, confidence: float, prediction: int) -> bool:
        return bool(confidence >= self._thresholds[level, prediction])


class ConfidenceGuided:
    """Confidence-guided randomness (CGR): how many leave is fixed, chance says which.

    In each window of 5 to 20 frames (drawn anew each time) every exit and the end have a quota in
    proportion to `rates` (E + 1). Within it a frame goes on with a probability that lies above the
    exit's usual one when the frame is less sure than its class's threshold, and below it when it is
    surer. How far, is the bias: it begins at 0.5, shrinks by a tenth each time an exit sees the
    class that it saw before, so that long runs of one class look like any others, and doubles, up
    to 0.5, each time the class changes. Raises CalibrationError for rates that are no shares.
    """

    def __init__(
        self,
        thresholds: NDArray[np.float64],
        rates: Sequence[float],
        random: np.random.Generator,
    ) -> None:
        exits = thresholds.shape[0]
        self._rates = _shares(rates, exits)
        self._thresholds, self._random = thresholds, random
        self._usual = _conditional(self._rates)
        self._bias = [_LARGEST_BIAS] * exits
        self._seen = [-1] * exits
        self._left: NDArray[np.int64] = np.zeros(exits + 1, dtype=np.int64)

    def __repr__(self) -> str:
        bias = ", ".join(f"{value:.3g}" for value in self._bias)
        return f"ConfidenceGuided(left {self._left.tolist()}, bias {bias})"

    def leaves(self, level: int, *, confidence: float, prediction: int) -> bool:
        if level == 0 and not self._left.any():
            self._left = self._quotas()
        self._turn(level, prediction)
        if self._left[level] == 0:
            out = False
        elif not self._left[level + 1 :].any():
            out = True
        else:
            sure = confidence >= self._thresholds[level, prediction]
            out = bool(self._random.random() >= self._goes_on(level, sure=bool(sure)))
        if out:
            self._left[level] -= 1
        elif level + 1 == len(self._bias):
            self._left[level + 1] -= 1
        return out

    def _quotas(self) -> NDArray[np.int64]:
        """Whole numbers in proportion to the rates, right on average: rounding by one draw for all
        makes them add up to the window's length."""
        length = int(self._random.integers(SHORTEST, LONGEST + 1))
        ends = np.concatenate([[0.0], np.cumsum(self._rates[:-1]) * length, [length]])
        whole = np.floor(ends + self._random.random()).astype(np.int64)
        return whole[1:] - whole[:-1]

    def _turn(self, level: int, prediction: int) -> None:
        same = prediction == self._seen[level]
        bias = self._bias[level] * (_SAME if same else _CHANGED)
        self._bias[level], self._seen[level] = min(bias, _LARGEST_BIAS), prediction

    def _goes_on(self, level: int, *, sure: bool) -> float:
        stays = 1 - self._usual[level]
        bias = self._bias[level]
        return float(stays * (1 - bias) if sure else stays + (1 - stays) * bias)


def class_thresholds(
    answers: Answers, rates: Sequence[float], *, classes: int
) -> NDArray[np.float64]:
    """Thresholds (E, K) at which of each predicted class the same share leaves at each exit.

    `rates` (E + 1): the shares of all frames that are to leave at each exit and reach the end. A
    class that an exit never predicts has a closed one. Raises CalibrationError.
    """
    shares = _conditional(_shares(rates, answers.exits))
    found = np.full((answers.exits, classes), CLOSED)
    staying = np.ones(answers.samples, dtype=np.bool_)
    for level in range(answers.exits):
        sure, predicted = answers.confidences[level], answers.predictions[level]
        for label in range(classes):
            values = np.sort(sure[staying & (predicted == label)])[::-1]
            count = round(shares[level] * values.size)
            if count:
                found[level, label] = values[count - 1]
        staying &= sure < found[level, predicted]
    return found


def run(policy: ExitPolicy, answers: Answers) -> NDArray[np.int64]:
    """Where each sample (N,) leaves, 0 .. E, when they come in their order."""
    levels = np.full(answers.samples, answers.exits)
    for sample in range(answers.samples):
        for level in range(answers.exits):
            if policy.leaves(
                level,
                confidence=float(answers.confidences[level, sample]),
                prediction=int(answers.predictions[level, sample]),
            ):
                levels[sample] = level
                break
    return levels


def _shares(rates: Sequence[float], exits: int) -> NDArray[np.float64]:
    shares = np.asarray(rates, dtype=np.float64)
    if shares.shape != (exits + 1,):
        raise CalibrationError(f"{shares.size} rates for {exits} exits and the end")
    if not (shares >= 0).all() or abs(float(shares.sum()) - 1) > 1e-6:
        raise CalibrationError(f"rates {shares.tolist()} are no shares of one")
    return shares


def _conditional(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of those that come to each exit (E,), the share that leaves there."""
    coming = 1 - np.concatenate([[0.0], np.cumsum(rates)[:-2]])
    out: NDArray[np.float64] = np.divide(
        rates[:-1], coming, out=np.zeros_like(coming), where=coming > 1e-9
    )
    return np.clip(out, 0.0, 1.0)
