"""Where the values of each tensor lie, found on calibration samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.mcu.errors import CalibrationError, OutOfRangeError
from headtail_models.mcu.floats import each_tensor
from headtail_models.mcu.layers import Floats, HeadGraph

Levels = NDArray[np.uint8]

_KEPT: Final = 2**17
"""Values of a tensor that the search looks at; the largest and the smallest are among them."""
_SHRINKS: Final = tuple(1 - step / 40 for step in range(28))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiser:
    """real = scale * (level - zero), for levels 0 to 2**bits - 1."""

    scale: float
    zero: int
    bits: int = 8

    @property
    def top(self) -> int:
        """The highest level."""
        return (1 << self.bits) - 1

    def level(self, real: float) -> int:
        """The nearest level; infinite values saturate."""
        return int(np.clip(np.rint(np.clip(real / self.scale, -1e6, 1e6)) + self.zero, 0, self.top))

    def levels(self, reals: Floats) -> Levels:
        """Levels of a whole tensor, values outside the range saturated."""
        steps = np.rint(reals / np.float32(self.scale)) + self.zero
        levels: Levels = np.clip(steps, 0, self.top).astype(np.uint8)
        return levels

    def reals(self, levels: Levels) -> Floats:
        """The values that the levels stand for."""
        return ((levels.astype(np.int32) - self.zero) * self.scale).astype(np.float32)


def calibrate(
    graph: HeadGraph, samples: Floats, *, bits: Mapping[str, int]
) -> dict[str, Quantiser]:
    """A quantiser for every tensor, of 8 bits where `bits` names no other width.

    Raises CalibrationError, OutOfRangeError.
    """
    _check(graph, samples)
    found = {}
    for name, values in each_tensor(graph, samples):
        if not np.isfinite(values).all():
            raise OutOfRangeError(f"tensor {name} holds values that are not finite")
        found[name] = fit(values, bits=bits.get(name, 8))
    return found


def fit(values: Floats, *, bits: int) -> Quantiser:
    """The range around zero with the least squared error; zero itself is always a level."""
    kept = _sample(values.reshape(-1))
    low, high = min(float(kept.min()), 0.0), max(float(kept.max()), 0.0)
    if low == high:
        return Quantiser(scale=1.0, zero=0, bits=bits)
    candidates = [_between(low * shrink, high * shrink, bits) for shrink in _SHRINKS]
    return min(candidates, key=lambda q: _squared_error(kept, q))


def _between(low: float, high: float, bits: int) -> Quantiser:
    top = (1 << bits) - 1
    scale = float(np.float32((high - low) / top))
    return Quantiser(scale=scale, zero=int(np.clip(np.rint(-low / scale), 0, top)), bits=bits)


def _squared_error(values: Floats, quantiser: Quantiser) -> float:
    difference = quantiser.reals(quantiser.levels(values)) - values
    return float(np.dot(difference, difference))


def _sample(values: Floats) -> Floats:
    if values.size <= _KEPT:
        return values
    drawn = np.random.default_rng(0).choice(values, _KEPT - 2, replace=False)
    return np.concatenate([drawn, [values.min(), values.max()]]).astype(np.float32)


def _check(graph: HeadGraph, samples: Floats) -> None:
    if samples.ndim != 4 or samples.shape[1:] != graph.input_shape or not len(samples):
        raise CalibrationError(
            f"samples of shape {samples.shape}, the head reads (samples, {graph.input_shape})"
        )
    if not np.isfinite(samples).all():
        raise CalibrationError("samples hold values that are not finite")
