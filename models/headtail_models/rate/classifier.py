"""How good a classifier's answers are: top-1 against the labels and against the full model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec.base import Array
from headtail_models.bundle.manifest import Manifest
from headtail_models.entrance import Place
from headtail_models.rate.tally import Answer, Values, Weights, mean
from headtail_models.task import LOGITS, task_for

BEST: int = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassifierTally:
    """Whether each sample's first answer is the full model's, and the label (P,)."""

    agreed: NDArray[np.bool_]
    right: NDArray[np.bool_]
    among_best: NDArray[np.bool_]

    def agreement(self, weights: Weights) -> Values:
        return mean(self.agreed, weights)

    def measures(self, weights: Weights) -> dict[str, Values]:
        return {"top-1": mean(self.right, weights), "top-5": mean(self.among_best, weights)}


class ClassifierJudge:
    """An answer is (5, 2): the best classes and their logits, best first."""

    def __init__(self, manifest: Manifest) -> None:
        self._task = task_for(manifest)

    def read(self, outputs: Mapping[str, Array], place: Place) -> Answer:
        logits = self._task.finish(outputs)[0][LOGITS]
        best = np.argsort(-logits, kind="stable")[:BEST]
        return np.column_stack([best, logits[best]]).astype(np.float32)

    def tally(
        self, answers: Sequence[Answer], reference: Sequence[Answer], truth: Sequence[int]
    ) -> ClassifierTally:
        found = np.array([answer[:, 0] for answer in answers])
        labels = np.array(truth)
        return ClassifierTally(
            agreed=found[:, 0] == np.array([answer[0, 0] for answer in reference]),
            right=found[:, 0] == labels,
            among_best=(found == labels[:, np.newaxis]).any(axis=1),
        )
