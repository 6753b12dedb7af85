"""What the exits and the end of a network say of the same samples, as it is calibrated on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headtail_models.exits.criteria import Criterion, confidence, leaves
from headtail_models.exits.errors import CalibrationError, EmptyCalibrationError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """E exits and the end, which is level E.

    `confidences` (E, N) float64, `predictions` (E + 1, N) int64, `labels` (N,) int64.
    Raises CalibrationError when the shapes don't fit or there is nothing.
    """

    confidences: NDArray[np.float64]
    predictions: NDArray[np.int64]
    labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        exits, samples = self.confidences.shape
        if self.predictions.shape != (exits + 1, samples) or self.labels.shape != (samples,):
            raise CalibrationError(
                f"confidences of shape {self.confidences.shape}, predictions "
                f"{self.predictions.shape}, labels {self.labels.shape}"
            )
        if exits == 0 or samples == 0:
            raise EmptyCalibrationError(f"{exits} exits, {samples} samples")

    @classmethod
    def of(
        cls,
        exits: Sequence[NDArray[Any]],
        end: NDArray[Any],
        labels: NDArray[Any],
        *,
        criterion: Criterion,
        temperatures: Sequence[float],
    ) -> "Answers":
        """From logits (N, K) of each exit and of the end. Raises CalibrationError."""
        if len({logits.shape for logits in (*exits, end)}) > 1:
            raise CalibrationError(
                f"logits of shapes {[logits.shape for logits in (*exits, end)]}: not the same"
            )
        if len(temperatures) != len(exits):
            raise CalibrationError(f"{len(temperatures)} temperatures for {len(exits)} exits")
        sure = [
            confidence(logits, criterion=criterion, temperature=temperature)
            for logits, temperature in zip(exits, temperatures, strict=True)
        ]
        return cls(
            confidences=np.array(sure).reshape(len(exits), -1),
            predictions=np.array([logits.argmax(axis=1) for logits in (*exits, end)]),
            labels=labels.astype(np.int64),
        )

    @property
    def exits(self) -> int:
        return int(self.confidences.shape[0])

    @property
    def samples(self) -> int:
        return int(self.labels.size)

    @property
    def correct(self) -> NDArray[np.bool_]:
        """(E + 1, N)"""
        found: NDArray[np.bool_] = self.predictions == self.labels
        return found

    def levels(self, thresholds: Sequence[float]) -> NDArray[np.int64]:
        """Where each sample leaves (N,), 0 .. E."""
        where = np.full(self.samples, self.exits)
        for level in range(self.exits - 1, -1, -1):
            where[leaves(self.confidences[level], thresholds[level])] = level
        return where

    def given(self, levels: NDArray[np.int64]) -> NDArray[np.int64]:
        """The answers (N,) of the levels that the samples left at."""
        answers: NDArray[np.int64] = self.predictions[levels, np.arange(self.samples)]
        return answers

    def take(self, chosen: NDArray[np.int64]) -> "Answers":
        """The samples of those numbers, in that order."""
        return Answers(
            confidences=self.confidences[:, chosen],
            predictions=self.predictions[:, chosen],
            labels=self.labels[chosen],
        )
