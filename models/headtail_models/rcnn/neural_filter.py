"""Is there anything in the picture worth sending? A small classifier on layer0's output.

(Matsubara and Levorato, ICPR 2020, section IV; their published configuration.)
"""

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtail_models.rcnn.errors import RcnnError

_SIDE: Final = 64
_TOP: Final = 8
_NARROW: Final = 16


class NeuralFilter(nn.Module):
    """Features (N, 64, H, W) to two logits: nothing, something. The first layer brings every
    picture to 64 x 64 places, so it costs 67.5 MMAC whatever the picture's size."""

    def __init__(self, inputs: int = 64) -> None:
        super().__init__()
        self.shrink = nn.Sequential(
            nn.AdaptiveAvgPool2d(_SIDE),
            nn.Conv2d(inputs, inputs, 4, 2),
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, 2 * _NARROW, 3, 2),
            nn.BatchNorm2d(2 * _NARROW),
            nn.ReLU(),
            nn.Conv2d(2 * _NARROW, _NARROW, 2),
            nn.BatchNorm2d(_NARROW),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(_TOP),
            nn.Flatten(),
        )
        self.decide = nn.Linear(_NARROW * _TOP * _TOP, 2)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.decide(self.shrink(features))
        return logits

    def something(self, features: Tensor) -> Tensor:
        """Probability (N,) that there is something."""
        return torch.softmax(self(features), dim=1)[:, 1]


def threshold_for_recall(
    scores: NDArray[np.float64], something: NDArray[np.bool_], recall: float
) -> float:
    """The largest threshold at which at least `recall` of the pictures with something pass.

    `scores` (n,) are probabilities of calibration pictures; a picture passes at or above the
    threshold. Raises RcnnError without any picture that has something.
    """
    positive = np.sort(scores[something])[::-1]
    if not positive.size:
        raise RcnnError("no calibration picture shows anything: no threshold can be found")
    if not 0 < recall <= 1:
        raise RcnnError(f"a recall of {recall}; it lies above 0 and is at most 1")
    needed = int(np.ceil(recall * positive.size - 1e-9))
    return float(positive[needed - 1])


def area_under_curve(scores: NDArray[np.float64], something: NDArray[np.bool_]) -> float:
    """Of the receiver operating characteristic: the chance that a picture with something scores
    above one with nothing, ties counted half. 0.5 where one kind is missing.

    (Fawcett, "An introduction to ROC analysis", 2006, section 7.)
    """
    positive, negative = scores[something], np.sort(scores[~something])
    if not positive.size or not negative.size:
        return 0.5
    below = np.searchsorted(negative, positive, side="left")
    up_to = np.searchsorted(negative, positive, side="right")
    return float((below + up_to).sum() / (2 * positive.size * negative.size))
