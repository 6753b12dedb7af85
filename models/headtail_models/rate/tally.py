"""The seam between answers and measures.

An answer is an array of one sample: what is kept of the network's outputs, and cached. A tally
holds all that the measures need of every sample, so that they can be taken again for other weights
of the samples: a bootstrap draws samples with replacement, which is nothing but whole weights.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec.base import Array
from headtail_models.vision.geometry import Geometry

Answer = NDArray[np.float32]
Weights = NDArray[np.float64]


class Tally(Protocol):
    """How good the answers of one method are; `weights` (samples,), all one if left out."""

    def agreement(self, weights: Weights | None = None) -> float:
        """With the full model's own answers, 0..1."""
        ...

    def labelled(self, weights: Weights | None = None) -> dict[str, float]:
        """Against the labels, by measure; the first is the one that is drawn."""
        ...


class Judge(Protocol):
    """What a kind of task makes of outputs and answers."""

    def read(self, outputs: Mapping[str, Array], geometry: Geometry) -> Answer:
        """The answer (n, k) of one sample from the network's raw outputs (1, ...)."""
        ...

    def tally(self, answers: Sequence[Answer], reference: Sequence[Answer], truth: Any) -> Tally:
        """`reference`: the full model's answers; `truth`: the samples' labels."""
        ...
