"""The static affine quantiser: per-channel ranges found once, on calibration data.

Nothing about one frame's range travels with the frame, so the payload has a fixed size before
entropy coding and the device needs no pass over the data to find a minimum.

    level = clip(rint((x - low) / step), 0, 2**bits - 1)        step = (high - low) / (2**bits - 1)
    x'    = low + step * level

(Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference", CVPR 2018, eq. 1, with `low` in place of a zero point so that ranges without 0 lose
nothing.)
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Quantiser:
    """Per-channel range of one tensor; channels lie on axis 1 of N x C x H x W (or N x C).

    `low` and `high` are float32 of shape (C,), finite, `low <= high`. A constant channel
    (`low == high`) quantises to level 0 and comes back as `low`.
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    _steps: dict[int, NDArray[np.float32]] = field(default_factory=dict, init=False, repr=False)
    """By bits, as they are asked for."""

    def __post_init__(self) -> None:
        low = np.ascontiguousarray(self.low, dtype=np.float32)
        high = np.ascontiguousarray(self.high, dtype=np.float32)
        if low.ndim != 1 or low.shape != high.shape or low.size == 0:
            raise ValueError(f"ranges of shape {low.shape} and {high.shape}")
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
            raise ValueError("ranges must be finite and low <= high")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def channels(self) -> int:
        return int(self.low.size)

    def levels(self, tensor: NDArray[np.float32], bits: int) -> NDArray[np.uint8]:
        """Levels 0 .. 2**bits-1 of `tensor`, values outside the range saturated, NaN as 0."""
        step = self._step(bits)
        inverse = np.divide(1.0, step, out=np.zeros_like(step), where=step > 0)
        scaled = (tensor - self._on_channels(self.low, tensor.ndim)) * self._on_channels(
            inverse, tensor.ndim
        )
        np.rint(scaled, out=scaled)
        np.clip(scaled, 0, 2**bits - 1, out=scaled)
        np.nan_to_num(scaled, copy=False)
        return scaled.astype(np.uint8)

    def values(self, levels: NDArray[np.uint8], bits: int) -> NDArray[np.float32]:
        """Float32 values of `levels`, the inverse of `levels` up to half a step."""
        values = levels.astype(np.float32)
        values *= self._on_channels(self._step(bits), levels.ndim)
        values += self._on_channels(self.low, levels.ndim)
        return values

    def _step(self, bits: int) -> NDArray[np.float32]:
        known = self._steps.get(bits)
        if known is None:
            wide: NDArray[np.float64] = (self.high.astype(np.float64) - self.low) / (2**bits - 1)
            known = self._steps[bits] = wide.astype(np.float32)
        return known

    def _on_channels(self, per_channel: NDArray[np.float32], ndim: int) -> NDArray[np.float32]:
        return per_channel.reshape((1, -1) + (1,) * (ndim - 2))
