"""What a tagger's outputs mean: many labels may be true at once.

network -> finish -> (wire) -> answer
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec.base import Array
from headtail_models.audio.answer import Tag, TagAnswer
from headtail_models.bundle.manifest import MAX_TAGS

TAGS: Final = "tags"
_STEEPEST: Final = 80.0
"""Logits beyond this are as good as certain."""


@dataclass(frozen=True, kw_only=True)
class Tagger:
    """Scores by the logistic function, each class for itself; at most `most` tags with at least
    `threshold` are worth sending. Safe to share by threads.

    Raises ValueError when the values make no sense.
    """

    labels: tuple[str, ...]
    output: str
    threshold: float = 0.1
    most: int = 10

    def __post_init__(self) -> None:
        if not self.labels or not 0 <= self.threshold <= 1 or not 1 <= self.most <= MAX_TAGS:
            raise ValueError(
                f"{len(self.labels)} labels, threshold {self.threshold}, at most {self.most} tags"
            )

    def finish(self, outputs: Mapping[str, Array]) -> list[dict[str, Array]]:
        """The answer's tensors for each patch of a batch of N, from logits (N, labels).

        `tags` (n, 2) float32: class and score, best first; all finite, whatever the network gave.
        Raises ValueError when the output is missing or has the wrong shape.
        """
        logits = outputs.get(self.output)
        if logits is None:
            raise ValueError(f"the network gave no output {self.output!r}, only {sorted(outputs)}")
        if logits.ndim != 2 or logits.shape[1] != len(self.labels):
            raise ValueError(f"logits of shape {logits.shape} for {len(self.labels)} labels")
        return [{TAGS: self._best(row)} for row in scores(logits)]

    def answer(self, tags: Array) -> TagAnswer:
        """What `tags` of one patch mean. Raises ValueError when no `finish` gave them."""
        if tags.dtype != np.float32 or tags.ndim != 2 or tags.shape[1] != 2:
            raise ValueError(f"tags of type {tags.dtype}, shape {tags.shape}")
        if tags.shape[0] > self.most:
            raise ValueError(f"{tags.shape[0]} tags, at most {self.most} are expected")
        if not np.isfinite(tags).all():
            raise ValueError("tags hold values that are not finite")
        classes, shares = tags[:, 0], tags[:, 1]
        if np.any((classes < 0) | (classes >= len(self.labels)) | (classes != np.rint(classes))):
            raise ValueError(f"a tag's class is none of the {len(self.labels)} labels")
        if np.any((shares < 0) | (shares > 1)):
            raise ValueError("a tag's score is not between 0 and 1")
        return self._answer(classes.astype(np.int64), shares)

    def early_answer(self, shares: Array, classes: Sequence[int]) -> TagAnswer:
        """What an exit's probabilities (K,) mean. `classes` are the labels that the first of them
        stand for, with none all labels; what is left is the exit's doubt, and no label's.

        Raises ValueError for a wrong number of probabilities.
        """
        named = np.array(classes or range(len(self.labels)))
        if shares.ndim != 1 or shares.size < named.size:
            raise ValueError(f"probabilities of shape {shares.shape} for {named.size} classes")
        kept = shares[: named.size]
        order = self._order(kept)
        return self._answer(named[order], kept[order])

    def nothing(self) -> TagAnswer:
        """The answer for a patch that holds nothing of interest."""
        return TagAnswer(tags=())

    def _best(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        order = self._order(row)
        return np.column_stack([order.astype(np.float32), row[order]])

    def _order(self, row: Array) -> NDArray[np.int64]:
        """The indexes of what is worth telling, best first."""
        best = np.argsort(-row, kind="stable")[: self.most]
        kept: NDArray[np.int64] = best[row[best] >= self.threshold]
        return kept

    def _answer(self, classes: NDArray[np.int64], shares: Array) -> TagAnswer:
        return TagAnswer(
            tags=tuple(
                Tag(label=self.labels[number], class_id=int(number), score=float(share))
                for number, share in zip(classes, shares, strict=True)
            )
        )


def scores(logits: Array) -> NDArray[np.float32]:
    """The logistic function, finite for whatever comes; not a number becomes a half."""
    tame = np.clip(np.nan_to_num(logits.astype(np.float32, copy=False)), -_STEEPEST, _STEEPEST)
    return np.asarray(1 / (1 + np.exp(-tame)), dtype=np.float32)
