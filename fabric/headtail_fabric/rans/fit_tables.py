"""Fits a table context to calibration tensors: references, weights, bins, cells and tables.

In this order, each step from the one before: the usual level of each channel; the three earlier
channels whose activity goes along best with its own; least squares for the two guesses; bins over
the range that the guesses take; counts of the symbols in each cell; and the cells of all channels
shared out among a few tables, so that the bits of the calibration tensors are least (Lloyd's
iteration with the code length as distance, i.e. entropy-constrained clustering: Chou, Lookabaugh,
Gray, "Entropy-constrained vector quantization", IEEE Trans. ASSP 1989).
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.rans.alphabet import Alphabet
from headtail_fabric.rans.frequencies import MAX_TABLES, FrequencyTables, from_counts
from headtail_fabric.rans.model import CodingModel
from headtail_fabric.rans.table_context import (
    ACTIVITY_BINS,
    NEAR,
    REFERENCES,
    SHIFT,
    TAPS,
    VALUE_BINS,
    TableContext,
)
from headtail_fabric.rans.wavefront import Shape4, four_axes

TABLES: Final = 128
MAX_DELAY: Final = 24
"""Longest chain of channels that look at each other: each link is one more front to decode."""

_ROUNDS: Final = 25
_RIDGE: Final = 1e-3
_TAIL: Final = 0.004
"""Share of guesses beyond the outermost bins, at each end."""
_SMOOTHING: Final = 0.2
_FLOOR: Final = 0.02
"""Counts that a table gives to what was never seen."""
_WEIGHT_LIMIT: Final = 2**15 - 1

Floats = NDArray[np.float64]
Symbols = NDArray[np.int32]


def fit(
    levels: Sequence[NDArray[np.int16]],
    alphabet: Alphabet,
    *,
    tables: int = TABLES,
    references: int = REFERENCES,
    max_delay: int = MAX_DELAY,
    tiles: tuple[int, int] = (1, 1),
) -> CodingModel:
    """The model for tensors like `levels`, each (N x) C x H x W with N = 1 if left out.

    Raises ValueError when there are none, or they don't agree in their channels, or lie outside
    the alphabet.
    """
    if not 1 <= tables <= MAX_TABLES or not 0 <= references <= REFERENCES:
        raise ValueError(f"{tables} tables, {references} references")
    tensors = list(symbols_of(levels, alphabet))
    channels = tensors[0].shape[1]
    counts = _channel_counts(tensors, alphabet.symbols)
    centres = np.argmax(counts, axis=1)
    centred = [tensor - centres[:, np.newaxis, np.newaxis] for tensor in tensors]
    chosen = _references(centred, references, max_delay)
    weights = np.zeros((channels, 2, TAPS), dtype=np.int16)
    biases = np.zeros((channels, 2), dtype=np.int32)
    for channel in range(channels):
        seen, own = _neighbourhood(centred, channel, chosen[channel])
        for kind, bins in enumerate((VALUE_BINS, ACTIVITY_BINS)):
            if kind == 1:
                seen, own = np.abs(seen), np.abs(own)
            weights[channel, kind], biases[channel, kind] = _guess(seen, own, bins)
    draft = TableContext(
        centres=centres.astype(np.int16),
        references=chosen,
        weights=weights,
        biases=biases,
        cells=np.zeros((channels, ACTIVITY_BINS, VALUE_BINS), dtype=np.uint8),
    )
    cells, frequencies = _cluster(_cell_counts(draft, tensors, alphabet.symbols), tables)
    context = TableContext(
        centres=draft.centres, references=chosen, weights=weights, biases=biases, cells=cells
    )
    return CodingModel(alphabet=alphabet, context=context, tables=frequencies, tiles=tiles)


def fit_static(
    levels: Sequence[NDArray[np.int16]], alphabet: Alphabet, *, tables: int = MAX_TABLES
) -> CodingModel:
    """The same without any context: a table a channel, shared where channels are more."""
    tensors = list(symbols_of(levels, alphabet))
    counts = _channel_counts(tensors, alphabet.symbols)
    channels = counts.shape[0]
    chosen, frequencies = _lloyd(counts, counts + _FLOOR, min(tables, channels))
    shape = (channels, ACTIVITY_BINS, VALUE_BINS)
    context = TableContext(
        centres=np.argmax(counts, axis=1).astype(np.int16),
        references=np.full((channels, REFERENCES), -1, dtype=np.int16),
        weights=np.zeros((channels, 2, TAPS), dtype=np.int16),
        biases=np.zeros((channels, 2), dtype=np.int32),
        cells=np.broadcast_to(chosen[:, np.newaxis, np.newaxis], shape).astype(np.uint8),
    )
    return CodingModel(alphabet=alphabet, context=context, tables=frequencies)


def symbols_of(levels: Sequence[NDArray[np.int16]], alphabet: Alphabet) -> Iterator[Symbols]:
    """Symbols (N x C x H x W) of calibration tensors. Raises ValueError as `fit` says."""
    if not levels:
        raise ValueError("no calibration tensors")
    channels: set[int] = set()
    for tensor in levels:
        whole = tensor[np.newaxis] if tensor.ndim == 3 else tensor
        axes: Shape4 = four_axes(whole.shape)
        channels.add(axes[1])
        offsets = whole.reshape(axes).astype(np.int32) - alphabet.low
        if offsets.size == 0:
            raise ValueError(f"calibration tensor of shape {tensor.shape}")
        if len(channels) > 1 or not 0 <= offsets.min() <= offsets.max() < alphabet.count:
            raise ValueError(f"calibration tensors of {channels} channels, {alphabet}")
        yield offsets >> alphabet.plain_bits


def _channel_counts(tensors: list[Symbols], size: int) -> Floats:
    """How often each symbol came in each channel: (C, symbols)."""
    channels = tensors[0].shape[1]
    counts = np.zeros(channels * size)
    for tensor in tensors:
        numbered = tensor + np.arange(channels)[:, np.newaxis, np.newaxis] * size
        counts += np.bincount(numbered.reshape(-1), minlength=counts.size)
    return counts.reshape(channels, size)


def _references(centred: list[Symbols], count: int, max_delay: int) -> NDArray[np.int16]:
    """For each channel the `count` earlier ones of the most similar activity, -1 for none."""
    channels = centred[0].shape[1]
    activity = np.concatenate(
        [np.abs(tensor).swapaxes(0, 1).reshape(channels, -1) for tensor in centred], axis=1
    ).astype(np.float64)
    activity -= activity.mean(axis=1, keepdims=True)
    deviation = np.sqrt((activity**2).mean(axis=1)) + 1e-9
    similarity = np.abs(activity @ activity.T) / activity.shape[1] / np.outer(deviation, deviation)
    chosen = np.full((channels, REFERENCES), -1, dtype=np.int16)
    delays = np.zeros(channels, dtype=np.int64)
    for channel in range(1, channels):
        allowed = np.flatnonzero(delays[:channel] < max_delay)
        best = allowed[np.argsort(-similarity[channel, allowed], kind="stable")][:count]
        chosen[channel, : best.size] = best
        delays[channel] = delays[best].max() + 1 if best.size else 0
    return chosen


def _neighbourhood(
    centred: list[Symbols], channel: int, references: NDArray[np.int16]
) -> tuple[Floats, Floats]:
    """What is known around each element of a channel (TAPS, n), and the elements (n,)."""
    seen, own = [], []
    for tensor in centred:
        images, _, height, width = tensor.shape
        padded = np.zeros((images, height + 1, width + 1))
        padded[:, 1:, 1:] = tensor[:, channel]
        rows = [
            padded[:, 1 + row : 1 + row + height, 1 + column : 1 + column + width]
            for row, column in NEAR
        ]
        nothing = np.zeros((images, height, width))
        rows += [tensor[:, r] if r >= 0 else nothing for r in references]
        seen.append(np.array([row.reshape(-1) for row in rows], dtype=np.float64))
        own.append(tensor[:, channel].reshape(-1))
    return np.concatenate(seen, axis=1), np.concatenate(own).astype(np.float64)


def _guess(seen: Floats, own: Floats, bins: int) -> tuple[NDArray[np.int16], int]:
    """Integer weights and bias: least squares, scaled so that a bin is 2^SHIFT wide."""
    means = seen.mean(axis=1)
    spread = seen - means[:, np.newaxis]
    gram = spread @ spread.T / own.size
    gram += np.eye(TAPS) * (_RIDGE * max(np.trace(gram) / TAPS, 1e-6))
    weights = np.linalg.solve(gram, spread @ (own - own.mean()) / own.size)
    guesses = weights @ seen
    low, high = np.quantile(guesses, [_TAIL, 1 - _TAIL])
    if high - low < 1e-6:  # the guess says nothing
        return np.zeros(TAPS, dtype=np.int16), 0
    steepest = float(np.abs(weights).max())
    scale = min((1 << SHIFT) * bins / (high - low), _WEIGHT_LIMIT / steepest)
    return np.rint(weights * scale).astype(np.int16), round(-low * scale)


def _cell_counts(context: TableContext, tensors: list[Symbols], size: int) -> Floats:
    """How often each symbol came in each cell: (C, activity, value, symbols)."""
    shape = (context.channels, ACTIVITY_BINS, VALUE_BINS, size)
    counts = np.zeros(np.prod(shape))
    for tensor in tensors:
        numbers = context.cell_numbers(tensor).astype(np.int64) * size + tensor
        counts += np.bincount(numbers.reshape(-1), minlength=counts.size)
    return counts.reshape(shape)


def _cluster(counts: Floats, tables: int) -> tuple[NDArray[np.uint8], FrequencyTables]:
    """Cells (C, activity, value) to tables, and the tables."""
    size = counts.shape[-1]
    # A rare cell is judged by those around it too, and an empty one by its whole channel.
    around = np.zeros_like(counts)
    for axis in (1, 2):
        around += np.roll(counts, 1, axis) + np.roll(counts, -1, axis)
    judged = counts + _SMOOTHING * around
    judged += 1e-3 * counts.mean(axis=(1, 2), keepdims=True)
    chosen, frequencies = _lloyd(counts.reshape(-1, size), judged.reshape(-1, size), tables)
    return chosen.astype(np.uint8).reshape(counts.shape[:3]), frequencies


def _lloyd(
    counts: Floats, judged: Floats, tables: int
) -> tuple[NDArray[np.int64], FrequencyTables]:
    """Shares out rows of counts: the table of each, and the tables."""
    size = counts.shape[1]
    probabilities = judged / judged.sum(axis=1, keepdims=True)
    chosen = _first_shares(probabilities, counts.sum(axis=1), tables)
    for _ in range(_ROUNDS):
        sums = np.zeros((tables, size))
        np.add.at(sums, chosen, counts)
        sums += _FLOOR
        costs = judged @ -np.log2(sums / sums.sum(axis=1, keepdims=True)).T
        before, chosen = chosen, np.argmin(costs, axis=1)
        if np.array_equal(before, chosen):
            break
    sums = np.zeros((tables, size))
    np.add.at(sums, chosen, counts)
    return chosen, from_counts(sums + _FLOOR)


def _first_shares(probabilities: Floats, mass: Floats, tables: int) -> NDArray[np.int64]:
    """Rows sorted by their mean into strips of equal mass, each strip cut by entropy."""
    entropy = -(probabilities * np.log2(probabilities + 1e-12)).sum(axis=1)
    mean = probabilities @ np.arange(probabilities.shape[1])
    strips = max(1, round(tables**0.5))
    parts = tables // strips
    strip = _shares(mean, mass, strips)
    part = np.zeros_like(strip)
    for number in range(strips):
        rows = np.flatnonzero(strip == number)
        part[rows] = _shares(entropy[rows], mass[rows], parts)
    shares: NDArray[np.int64] = strip * parts + part
    return shares


def _shares(keys: Floats, mass: Floats, count: int) -> NDArray[np.int64]:
    order = np.argsort(keys, kind="stable")
    reached = np.cumsum(mass[order] + 1e-9)
    shares = np.zeros(keys.size, dtype=np.int64)
    if keys.size:
        shares[order] = np.minimum(reached / reached[-1] * count, count - 1).astype(np.int64)
    return shares
