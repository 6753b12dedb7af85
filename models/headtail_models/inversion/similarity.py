"""How alike two pictures are."""

import math
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

_WINDOW: Final = (11, 11)
_SIGMA: Final = 1.5
_K1, _K2 = 0.01, 0.03
MAX_PSNR: Final = 99.0
"""What equal pictures have, instead of infinity."""

Values = NDArray[Any]


def psnr(found: Values, true: Values) -> float:
    """Peak signal-to-noise ratio, dB, of pictures with values from 0 to 1 of any shape."""
    error = float(np.square(found.astype(np.float64) - true).mean())
    return min(MAX_PSNR, -10 * math.log10(error)) if error > 0 else MAX_PSNR


def ssim(found: Values, true: Values) -> float:
    """Structural similarity of two pictures (H, W) or (H, W, C) from 0 to 1, mean over places.

    Wang, Bovik, Sheikh, Simoncelli, "Image quality assessment: from error visibility to structural
    similarity", IEEE TIP 2004, equation 13, with its window (11x11, sigma 1.5) and constants.
    """
    one, two = found.astype(np.float64), true.astype(np.float64)
    mean1, mean2 = _mean(one), _mean(two)
    spread1 = _mean(one * one) - mean1**2
    spread2 = _mean(two * two) - mean2**2
    together = _mean(one * two) - mean1 * mean2
    light = (2 * mean1 * mean2 + _K1**2) / (mean1**2 + mean2**2 + _K1**2)
    shape = (2 * together + _K2**2) / (spread1 + spread2 + _K2**2)
    return float((light * shape).mean())


def _mean(values: Values) -> Values:
    blurred: Values = cv2.GaussianBlur(values, _WINDOW, _SIGMA, borderType=cv2.BORDER_REFLECT)
    return blurred
