"""Sliding windows over channels-last arrays: what convolutions and pools look at."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headtail_models.mcu.layers import Shape


def windows(
    x: NDArray[Any],
    *,
    shape: Shape,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    origin: tuple[int, int],
    fill: float,
) -> NDArray[Any]:
    """Of `x` (N, h, w, c) the windows (N, shape.h, shape.w, kh, kw, c).

    The first window begins `origin` (rows, columns) before the first pixel; what lies outside is
    `fill`.
    """
    height = (shape.h - 1) * stride[0] + kernel[0]
    width = (shape.w - 1) * stride[1] + kernel[1]
    top, left = origin
    rows, columns = min(x.shape[1], height - top), min(x.shape[2], width - left)
    padded = np.full((x.shape[0], height, width, x.shape[3]), fill, dtype=x.dtype)
    padded[:, top : top + rows, left : left + columns] = x[:, :rows, :columns]
    views = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(1, 2))
    return views[:, :: stride[0], :: stride[1]].transpose(0, 1, 2, 4, 5, 3)
