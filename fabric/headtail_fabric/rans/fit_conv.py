"""Trains a convolution context on calibration tensors, in numpy, and makes it integer.

The network predicts the mean and the scale of a discretised logistic distribution for each
element (Salimans et al., "PixelCNN++", ICLR 2017, section 2.1, with one component), and is trained
by Adam (Kingma and Ba, ICLR 2015) on the bits that this costs. Its weights are then rounded to
int16, and the frequency tables are counted on what the integer network predicts, so neither the
rounding nor the assumed distribution costs much.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.rans.alphabet import Alphabet
from headtail_fabric.rans.conv_context import EIGHTHS, SCALES, ConvContext, taps
from headtail_fabric.rans.fit_tables import Symbols, symbols_of
from headtail_fabric.rans.frequencies import FrequencyTables, from_counts
from headtail_fabric.rans.model import CodingModel

LEAK: Final = 0.125
SCALE_STEP: Final = math.log(2) / 2
"""Logarithm of the ratio of one scale to the next: half an octave."""
MIDDLE: Final = 8
"""The scale that stands for 1."""

_PRIOR: Final = 30.0
"""Counts that the logistic distribution adds to each table."""
_FINE: Final = 6
"""Fraction bits of the hidden units."""
_SHIFT1: Final = 6
_MAX_SHIFT2: Final = 18
_INT16: Final = 2**15 - 1
_LEAST: Final = 1e-6

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to train. `rate` is Adam's at the start; it falls to a hundredth along a cosine."""

    hidden: int = 48
    radius: int = 2
    steps: int = 1200
    batch: int = 1024
    rate: float = 4e-3
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layers:
    """A trained network in floating point; C channels, K taps, H hidden units.

    `weights1` (H, C, K) and `biases1` (H,) see levels less the centre of their channel;
    `weights2` (2 C, H) and `biases2` (2 C,) give the means in levels, then the scales in half
    octaves, of which `MIDDLE` stands for 1.
    """

    radius: int
    weights1: NDArray[np.float64]
    biases1: NDArray[np.float64]
    weights2: NDArray[np.float64]
    biases2: NDArray[np.float64]

    def integers(self, symbols: int, centres: NDArray[np.int64]) -> ConvContext:
        """The network with int16 weights, as fine as 32-bit sums allow. Raises ValueError."""
        arrays = (self.weights1, self.biases1, self.weights2, self.biases2)
        if not all(np.isfinite(values).all() for values in arrays):
            raise ValueError("the training diverged: try a lower rate")
        channels = self.biases2.size // 2
        units = np.repeat([float(EIGHTHS), 1.0], channels)
        error: ValueError | None = None
        for shift2 in range(_MAX_SHIFT2, _FINE, -1):
            fine1, fine2 = 2.0 ** (_FINE + _SHIFT1), 2.0**shift2
            scaled2 = self.weights2 * units[:, np.newaxis] * 2.0 ** (shift2 - _FINE)
            if np.abs(scaled2).max() > _INT16 or np.abs(self.weights1 * fine1).max() > _INT16:
                continue
            try:
                return ConvContext(
                    symbols=symbols,
                    radius=self.radius,
                    centres=centres.astype(np.int16),
                    weights1=np.rint(self.weights1 * fine1).astype(np.int16),
                    biases1=np.rint(self.biases1 * fine1).astype(np.int32),
                    shift1=_SHIFT1,
                    weights2=np.rint(scaled2).astype(np.int16),
                    # A shift rounds down: half a unit more makes it round to the nearest.
                    biases2=np.rint((self.biases2 * units + 0.5) * fine2).astype(np.int32),
                    shift2=shift2,
                )
            except ValueError as found:
                error = found
        raise ValueError("the trained weights don't fit into integers: try a lower rate") from error


def fit(
    levels: Sequence[NDArray[np.int16]],
    alphabet: Alphabet,
    recipe: Recipe = Recipe(),
    *,
    tiles: tuple[int, int] = (1, 1),
    progress: Callable[[int, float], None] = lambda _step, _bits: None,
) -> CodingModel:
    """The model for tensors like `levels`, all of one shape, (N x) C x H x W.

    `progress` hears the step and its bits an element. Raises ValueError as `fit_tables.fit` does.
    """
    symbols = np.concatenate(list(symbols_of(levels, alphabet)))
    channels = symbols.shape[1]
    centres = np.array([np.bincount(symbols[:, c].reshape(-1)).argmax() for c in range(channels)])
    samples = _Samples(symbols - centres[:, np.newaxis, np.newaxis], recipe.radius)
    network = _Network(samples, recipe)
    random = np.random.default_rng(recipe.seed)
    for step in range(recipe.steps):
        rate = recipe.rate * (0.505 + 0.495 * math.cos(math.pi * step / recipe.steps))
        places = random.integers(0, samples.count, recipe.batch)
        progress(step, network.train(*samples.take(places), rate))
    return _model(network.layers(), symbols, centres, alphabet, tiles)


def from_layers(
    layers: Layers,
    levels: Sequence[NDArray[np.int16]],
    alphabet: Alphabet,
    *,
    tiles: tuple[int, int] = (1, 1),
) -> CodingModel:
    """The model of a network trained elsewhere, whose centres are level 0, for `levels` as above.

    Raises ValueError when the alphabet lacks level 0 or sends some bits of a level as they are,
    and as `fit` does.
    """
    if alphabet.plain_bits or not alphabet.low <= 0 < alphabet.low + alphabet.count:
        raise ValueError(f"{alphabet} does not have level 0 among its symbols")
    symbols = np.concatenate(list(symbols_of(levels, alphabet)))
    centres = np.full(symbols.shape[1], -alphabet.low, dtype=np.int64)
    return _model(layers, symbols, centres, alphabet, tiles)


def _model(
    layers: Layers,
    symbols: Symbols,
    centres: NDArray[np.int64],
    alphabet: Alphabet,
    tiles: tuple[int, int],
) -> CodingModel:
    context = layers.integers(alphabet.symbols, centres)
    tables = _count(context, symbols)
    return CodingModel(alphabet=alphabet, context=context, tables=tables, tiles=tiles)


class _Samples:
    """What lies around each place of the calibration tensors, and what lies there."""

    def __init__(self, centred: Symbols, radius: int) -> None:
        channels, width = centred.shape[1], centred.shape[3]
        self.radius, self.channels = radius, channels
        padding = ((0, 0), (0, 0), (radius, 0), (radius, radius))
        padded = np.pad(centred, padding).astype(np.float32)
        self._flat = padded.reshape(-1)
        row, plane = padded.shape[3], padded.shape[2] * padded.shape[3]
        steps = [up * row + left for up, left in taps(radius)]
        self._channels = np.arange(channels) * plane
        self._steps = np.add.outer(self._channels, steps).reshape(-1)
        places = np.arange(padded.size).reshape(padded.shape)
        self._places = places[:, 0, radius:, radius : radius + width].reshape(-1)
        self.deviations = centred.std(axis=(0, 2, 3)).astype(np.float32)

    @property
    def count(self) -> int:
        return int(self._places.size)

    def take(self, numbers: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Inputs (n, C K) and targets (n, C)."""
        at = self._places[numbers][:, np.newaxis]
        return self._flat[at + self._steps], self._flat[at + self._channels]


class _Network:
    """The two layers in float32, their gradients, and Adam."""

    def __init__(self, samples: _Samples, recipe: Recipe) -> None:
        random = np.random.default_rng(recipe.seed)
        channels, seen = samples.channels, samples.channels * len(taps(recipe.radius))
        self._channels, self._radius = channels, recipe.radius
        # A logistic distribution's scale is its deviation times sqrt(3) / pi.
        scales = MIDDLE + np.log(samples.deviations * 0.55 + 0.05) / SCALE_STEP
        weights = random.normal(0, 0.5 / math.sqrt(seen), (recipe.hidden, seen))
        self.parameters: list[Floats] = [
            weights.astype(np.float32),
            np.zeros(recipe.hidden, dtype=np.float32),
            np.zeros((2 * channels, recipe.hidden), dtype=np.float32),
            np.concatenate([np.zeros(channels), scales]).astype(np.float32),
        ]
        self._firsts = [np.zeros_like(values) for values in self.parameters]
        self._seconds = [np.zeros_like(values) for values in self.parameters]
        self._step = 0

    def train(self, seen: Floats, targets: Floats, rate: float) -> float:
        """One step; the bits an element before it."""
        weights1, biases1, weights2, biases2 = self.parameters
        sums = seen @ weights1.T + biases1
        hidden = np.maximum(sums, LEAK * sums)
        outputs = hidden @ weights2.T + biases2
        bits, slopes = logistic_bits(outputs, targets)
        slopes /= targets.size
        back = slopes @ weights2
        back[sums < 0] *= LEAK
        gradients = [back.T @ seen, back.sum(axis=0), slopes.T @ hidden, slopes.sum(axis=0)]
        self._adam(gradients, rate)
        return bits

    def _adam(self, gradients: list[Floats], rate: float) -> None:
        self._step += 1
        rate *= math.sqrt(1 - 0.999**self._step) / (1 - 0.9**self._step)
        for values, gradient, first, second in zip(
            self.parameters, gradients, self._firsts, self._seconds, strict=True
        ):
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient * gradient - second)
            values -= rate * first / (np.sqrt(second) + 1e-8)

    def layers(self) -> "Layers":
        """The network as it stands."""
        weights1, biases1, weights2, biases2 = (v.astype(np.float64) for v in self.parameters)
        return Layers(
            radius=self._radius,
            weights1=weights1.reshape(biases1.size, self._channels, -1),
            biases1=biases1,
            weights2=weights2,
            biases2=biases2,
        )


def logistic_bits(outputs: Floats, targets: Floats) -> tuple[float, Floats]:
    """Mean bits of `targets` (n, C) under `outputs` (n, 2 C), and the slopes of their sum."""
    means, scales = np.split(outputs, 2, axis=1)
    inverse = np.exp((MIDDLE - np.clip(scales, -1, SCALES)) * np.float32(SCALE_STEP))
    distance = targets - means
    away = np.abs(distance)
    near, far = (0.5 - away) * inverse, (-0.5 - away) * inverse
    below_near, below_far = _sigmoid(near), _sigmoid(far)
    mass = np.maximum(below_near - below_far, _LEAST)
    density_near, density_far = below_near * (1 - below_near), below_far * (1 - below_far)
    per_mass = -1 / (mass * np.float32(math.log(2)))
    slopes = np.empty_like(outputs)
    slopes[:, : means.shape[1]] = (
        per_mass * (density_near - density_far) * inverse * np.sign(distance)
    )
    slopes[:, means.shape[1] :] = (
        per_mass * (far * density_far - near * density_near) * np.float32(SCALE_STEP)
    )
    return float(-np.log2(mass).mean()), slopes


def _sigmoid(values: Floats) -> Floats:
    result: Floats = 0.5 + 0.5 * np.tanh(0.5 * values)
    return result


def _count(context: ConvContext, symbols: Symbols) -> FrequencyTables:
    """Tables counted on what the integer network predicts, with the logistic as prior."""
    size = context.symbols
    counts = np.zeros(SCALES * EIGHTHS * size)
    plan = context.plan((1, *symbols.shape[1:]))
    for image in symbols:
        tables, codes = plan.survey(image[np.newaxis])
        counts += np.bincount(tables * size + codes, minlength=counts.size)
    return from_counts(counts.reshape(-1, size) + _PRIOR * _logistic_tables(size))


def _logistic_tables(size: int) -> NDArray[np.float64]:
    """Probabilities (tables, codes) of the distribution that the network was trained for."""
    codes = np.arange(size)
    residuals = np.where(codes < (size + 1) // 2, codes, codes - size)
    scales = np.exp((np.arange(SCALES) - MIDDLE) * SCALE_STEP)[:, np.newaxis, np.newaxis]
    shifts = (np.arange(EIGHTHS) / EIGHTHS)[:, np.newaxis]
    upper = (residuals + 0.5 - shifts) / scales
    lower = (residuals - 0.5 - shifts) / scales
    mass = 0.5 * np.tanh(0.5 * upper) - 0.5 * np.tanh(0.5 * lower) + 1e-9
    tables: NDArray[np.float64] = mass / mass.sum(axis=2, keepdims=True)
    return tables.reshape(-1, size)
