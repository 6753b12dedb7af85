"""How good a tagger's answers are: against the full model, as sounds here have no labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec.base import Array
from headtail_models.audio.task import scores
from headtail_models.bundle.manifest import TagTask
from headtail_models.entrance import Place
from headtail_models.rate.tally import Answer, Values, Weights, mean

SURE: Final = 0.3
"""The score from which on the full model's best tag counts as certain."""
_COMPARED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaggerTally:
    """Whether each sample's best tag is the full model's, whether that was sure of it, and by how
    much the scores of its five best tags differ, (P,) each."""

    agreed: NDArray[np.bool_]
    sure: NDArray[np.bool_]
    away: NDArray[np.float64]

    def agreement(self, weights: Weights) -> Values:
        return mean(self.agreed, weights)

    def measures(self, weights: Weights) -> dict[str, Values]:
        """`sure`: agreement where the full model's best score is at least 0.3; `score error`: the
        mean difference."""
        certain = weights * self.sure
        # A draw without a sure sample has nothing to disagree on.
        agreed = (certain @ self.agreed + (certain.sum(axis=1) == 0)) / np.maximum(
            certain.sum(axis=1), 1
        )
        return {"sure": agreed, "score error": mean(self.away, weights)}


class TaggerJudge:
    """An answer is (1, classes): the score of every class."""

    def __init__(self, task: TagTask) -> None:
        self._output = task.output

    def read(self, outputs: Mapping[str, Array], place: Place) -> Answer:
        return scores(outputs[self._output])

    def tally(
        self, answers: Sequence[Answer], reference: Sequence[Answer], truth: Any
    ) -> TaggerTally:
        found, wanted = np.concatenate(answers), np.concatenate(reference)
        best = np.argsort(-wanted, axis=1, kind="stable")[:, :_COMPARED]
        away = np.take_along_axis(np.abs(found - wanted), best, axis=1)
        return TaggerTally(
            agreed=found.argmax(axis=1) == best[:, 0],
            sure=wanted.max(axis=1) >= SURE,
            away=away.mean(axis=1, dtype=np.float64),
        )
