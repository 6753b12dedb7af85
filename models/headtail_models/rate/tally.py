"""The seam between answers and measures.

An answer is an array of one sample: what is kept of the network's outputs, and cached. A tally
holds all that the measures need of every sample, so that they can be taken again for other weights
of the samples: a bootstrap draws samples with replacement, which is nothing but whole weights. All
draws are measured at once, a row of weights each.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec.base import Array
from headtail_models.entrance import Place

Answer = NDArray[np.float32]
Weights = NDArray[np.float64]
"""(draws, samples)."""
Values = NDArray[np.float64]
"""(draws,)."""


class Tally(Protocol):
    """How good the answers of one method are."""

    def agreement(self, weights: Weights) -> Values:
        """With the full model's own answers, 0..1."""
        ...

    def measures(self, weights: Weights) -> dict[str, Values]:
        """What else there is to say, by name: against the labels, where there are some. The first
        is the one that is drawn."""
        ...


class Judge(Protocol):
    """What a kind of task makes of outputs and answers."""

    def read(self, outputs: Mapping[str, Array], place: Place) -> Answer:
        """The answer (n, k) of one sample from the network's raw outputs (1, ...)."""
        ...

    def tally(self, answers: Sequence[Answer], reference: Sequence[Answer], truth: Any) -> Tally:
        """`reference`: the full model's answers; `truth`: the samples' labels."""
        ...


def mean(values: NDArray[Any], weights: Weights) -> Values:
    """Of one value a sample (samples,), in every draw."""
    result: Values = weights @ values.astype(np.float64) / weights.sum(axis=1)
    return result
