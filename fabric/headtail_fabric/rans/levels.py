"""Float tensors to levels and back, with scales fixed on calibration data."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec.quantiser import Quantiser
from headtail_fabric.rans.alphabet import MAX_BITS, Alphabet


class LevelQuantiser(Protocol):
    """Channels lie on axis 1."""

    @property
    def channels(self) -> int: ...

    @property
    def alphabet(self) -> Alphabet: ...

    def levels(self, tensor: NDArray[np.float32]) -> NDArray[np.int16]:
        """Values outside the range are saturated, NaN becomes some level."""
        ...

    def values(self, levels: NDArray[np.int16]) -> NDArray[np.float32]: ...


class AffineLevels:
    """The static affine quantiser at 2 to 8 bits: levels 0 .. 2^bits - 1."""

    def __init__(self, quantiser: Quantiser, *, bits: int) -> None:
        if not 2 <= bits <= MAX_BITS:
            raise ValueError(f"{bits} bits, from 2 to {MAX_BITS} can be coded")
        self._quantiser, self._bits = quantiser, bits

    @property
    def channels(self) -> int:
        return self._quantiser.channels

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(low=0, count=1 << self._bits)

    def levels(self, tensor: NDArray[np.float32]) -> NDArray[np.int16]:
        return self._quantiser.levels(tensor, self._bits).astype(np.int16)

    def values(self, levels: NDArray[np.int16]) -> NDArray[np.float32]:
        return self._quantiser.values(levels.astype(np.uint8), self._bits)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepLevels:
    """Latents of a bottleneck: level = rint(x / step), saturated to the alphabet.

    `steps` float32 (C,), finite and positive. Raises ValueError.
    """

    steps: NDArray[np.float32]
    alphabet: Alphabet

    def __post_init__(self) -> None:
        steps = np.ascontiguousarray(self.steps, dtype=np.float32)
        if steps.ndim != 1 or steps.size == 0:
            raise ValueError(f"steps of shape {steps.shape}")
        if not (np.isfinite(steps).all() and (steps > 0).all()):
            raise ValueError("steps must be finite and positive")
        object.__setattr__(self, "steps", steps)

    @property
    def channels(self) -> int:
        return int(self.steps.size)

    def levels(self, tensor: NDArray[np.float32]) -> NDArray[np.int16]:
        low = self.alphabet.low
        scaled = tensor * self._on_channels(np.reciprocal(self.steps), tensor.ndim)
        np.rint(scaled, out=scaled)
        np.fmax(scaled, low, out=scaled)  # NaN becomes the lowest level
        np.minimum(scaled, low + self.alphabet.count - 1, out=scaled)
        return scaled.astype(np.int16)

    def values(self, levels: NDArray[np.int16]) -> NDArray[np.float32]:
        return levels.astype(np.float32) * self._on_channels(self.steps, levels.ndim)

    @staticmethod
    def _on_channels(per_channel: NDArray[np.float32], ndim: int) -> NDArray[np.float32]:
        return per_channel.reshape((1, -1) + (1,) * (ndim - 2))
