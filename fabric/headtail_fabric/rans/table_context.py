"""Which frequency table an element is coded with: a guess from its neighbours, in integers.

Two guesses are made for each element, linear in what is known of it: one of its value, one of how
far it lies from its channel's usual value (its *activity*). Each is cut into bins, and the pair of
bins picks the table. Known are the left, upper and upper left neighbours in the same channel, and
the same place in up to three channels before.

    value     = (sum_k wv[c,k] x[k]   + bv[c]) >> 10, within 0 .. 31
    activity  = (sum_k wa[c,k] |x[k]| + ba[c]) >> 10, within 0 .. 7
    table     = cells[c, activity, value]                   x = symbol - centre[c]

Context modelling of this kind, prediction plus local activity, is that of lossless picture coders
(Wu and Memon, "Context-based, adaptive, lossless image coding", IEEE Trans. Communications 1997);
here everything is fitted beforehand and static, across channels too, and tables are shared.

What else was tried, by the ideal bytes of 40 tensors that nothing was fitted on: 12 principal
components of a detector's features (12 x 52 x 52), and features at 4 bits (128 x 26 x 26).

    one table a channel                                             5402    20384
    8 classes by activity; neighbours L, U, UL                      4187    16728
    8 classes by value                                              3633    16442
    4 x 4 classes by both                                           3663    16150
    the same, and 1 channel before                                  3502    15825
    the same, and 3 channels before (8 x 32 bins do a little more)  3423    15612
    the same, and UR, which needs half as many fronts again         3392    15619
    chequerboard: half the elements see 4 neighbours, half none     3939
    row by row: U, UL, UR, and around in 2 channels before          3999

So a wave over the diagonals it is: nothing that needs fewer fronts comes near.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.rans.frequencies import STATE_BITS
from headtail_fabric.rans.wavefront import Ints, Margin, Shape4, Wavefront

NEAR: Final = ((0, -1), (-1, 0), (-1, -1))
"""Rows and columns from an element to its neighbours in the same channel."""
REFERENCES: Final = 3
TAPS: Final = len(NEAR) + REFERENCES
VALUE_BINS: Final = 32
ACTIVITY_BINS: Final = 8
SHIFT: Final = 10
MAX_CHANNELS: Final = 4096
_MARGIN: Final = Margin(top=1, left=1, right=0)

Int32s = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableContext:
    """The integers of the module's formulas; C channels.

    `centres` (C,) int16. `references` (C, 3) int16: earlier channels, -1 for none. `weights`
    (C, 2, 6) int16 and `biases` (C, 2) int32: for value, then activity; neighbours in the order
    of NEAR, then the references. `cells` (C, 8, 32) uint8. Raises ValueError when shapes or
    references are wrong.
    """

    centres: NDArray[np.int16]
    references: NDArray[np.int16]
    weights: NDArray[np.int16]
    biases: NDArray[np.int32]
    cells: NDArray[np.uint8]

    def __post_init__(self) -> None:
        channels = self.centres.size
        expected = {
            "centres": (channels,),
            "references": (channels, REFERENCES),
            "weights": (channels, 2, TAPS),
            "biases": (channels, 2),
            "cells": (channels, ACTIVITY_BINS, VALUE_BINS),
        }
        for name, shape in expected.items():
            if getattr(self, name).shape != shape or not 1 <= channels <= MAX_CHANNELS:
                raise ValueError(f"{name} of shape {getattr(self, name).shape}, not {shape}")
        earlier = np.arange(channels)[:, np.newaxis]
        if not ((self.references >= -1) & (self.references < earlier)).all():
            raise ValueError("a channel may only refer to earlier ones")

    @property
    def channels(self) -> int:
        return int(self.centres.size)

    def delays(self) -> list[int]:
        """Fronts that each channel waits for those it refers to."""
        delays: list[int] = []
        for references in self.references.tolist():
            delays.append(max((delays[r] + 1 for r in references if r >= 0), default=0))
        return delays

    def cell_numbers(self, symbols: Int32s) -> Int32s:
        """The cell of each element of `symbols` (N x C x H x W), numbered through all channels."""
        values = symbols - self.centres.astype(np.int32)[:, np.newaxis, np.newaxis]
        numbers = np.arange(self.channels, dtype=np.int32)[:, np.newaxis, np.newaxis]
        numbers = numbers * ACTIVITY_BINS + self._bins(abs(values), 1, ACTIVITY_BINS)
        numbers *= VALUE_BINS
        numbers += self._bins(values, 0, VALUE_BINS)
        return numbers

    def check(self, *, tables: int, symbols: int) -> None:
        """Raises ValueError unless it works with that many frequency tables and symbols."""
        if int(self.cells.max()) >= tables:
            raise ValueError(f"cells name table {self.cells.max()}, there are {tables}")
        if not ((self.centres >= 0) & (self.centres < symbols)).all():
            raise ValueError(f"centres outside the alphabet of {symbols} symbols")

    def plan(self, shape: Shape4) -> "TablePlan":
        """The context laid out for tensors of one shape. Raises ValueError for other channels."""
        return TablePlan(self, shape)

    def _bins(self, values: Int32s, kind: int, bins: int) -> Int32s:
        """The bin of one of the guesses for every element."""
        images, channels, height, width = values.shape
        padded = np.zeros((images, channels, height + 1, width + 1), dtype=np.int32)
        padded[:, :, 1:, 1:] = values
        weights = self.weights[:, kind].astype(np.int32)[:, :, np.newaxis, np.newaxis]
        scores = np.empty_like(values)
        scores[:] = self.biases[:, kind][:, np.newaxis, np.newaxis]
        product = np.empty_like(values)
        for tap, (row, column) in enumerate(NEAR):
            near = padded[:, :, 1 + row : 1 + row + height, 1 + column : 1 + column + width]
            scores += np.multiply(near, weights[:, tap], out=product)
        for tap, references in enumerate(self.references.T, len(NEAR)):
            used = np.where(references[:, np.newaxis, np.newaxis] >= 0, weights[:, tap], 0)
            np.take(values, references, axis=1, out=product, mode="wrap")
            product *= used
            scores += product
        scores >>= SHIFT
        np.maximum(scores, 0, out=scores)
        return np.minimum(scores, bins - 1, out=scores)


_LAST_BINS: Final = np.array([[VALUE_BINS - 1], [ACTIVITY_BINS - 1]], dtype=np.int32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Front:
    """All that is known of the n elements of a front beforehand.

    `span`: their places in the coding order; `neighbours` (6, n): those of their neighbours;
    `weights` (6, 2, n), `biases` (2, n); `rows` (n,): first cell of the channel; `centres` (n,).
    """

    span: slice
    neighbours: Ints
    weights: Int32s
    biases: Int32s
    rows: Ints
    centres: Int32s


class TablePlan:
    """A `TableContext` laid out for one shape."""

    def __init__(self, context: TableContext, shape: Shape4) -> None:
        if shape[1] != context.channels:
            raise ValueError(f"{shape[1]} channels, the context has {context.channels}")
        wave = Wavefront(shape, slope=1, delays=context.delays(), margin=_MARGIN)
        self.wave, self.context = wave, context
        self.bases = context.cells.reshape(-1).astype(np.int64) << STATE_BITS
        channels, addresses = wave.channels, wave.addresses
        taps = [addresses + row * wave.row + column for row, column in NEAR]
        for references in context.references.T.astype(np.int64):
            other = references[channels]
            near = addresses + (other - channels) * wave.plane
            taps.append(np.where(other >= 0, near, wave.size - 1))
        self.neighbours: Ints = wave.places[np.stack(taps)]
        """Places in the coding order, (6, elements)."""
        self.centres = context.centres.astype(np.int32)[:, np.newaxis, np.newaxis]

    @property
    def starts(self) -> list[int]:
        """Where each front begins in the coding order, and the end."""
        return self.wave.starts

    @cached_property
    def fronts(self) -> list[_Front]:
        """For a decoder."""
        context, channels = self.context, self.wave.channels
        weights = np.moveaxis(context.weights.astype(np.int32)[channels], 0, 2).swapaxes(0, 1)
        biases = np.moveaxis(context.biases[channels], 0, 1)
        centres = context.centres.astype(np.int32)
        return [
            _Front(
                span=span,
                neighbours=np.ascontiguousarray(self.neighbours[:, span]),
                weights=np.ascontiguousarray(weights[:, :, span]),
                biases=np.ascontiguousarray(biases[:, span]),
                rows=channels[span] * (ACTIVITY_BINS * VALUE_BINS),
                centres=centres[channels[span]],
            )
            for span in self.wave.spans()
        ]

    def survey(self, symbols: Int32s) -> tuple[Ints, Ints]:
        """Table and code of each element of `symbols`, in coding order."""
        order = self.wave.order
        cells = self.context.cell_numbers(symbols).reshape(-1)[order]
        tables = self.context.cells.reshape(-1)[cells].astype(np.int64)
        return tables, symbols.reshape(-1)[order].astype(np.int64)

    def nothing(self, dtype: "np.dtype[Any]", tensors: int = 1) -> NDArray[Any]:
        """Of no element anything is known yet: (tensors, elements + 1), in coding order, and a zero
        that stands for all that lies outside."""
        return np.zeros((tensors, self.wave.order.size + 1), dtype)

    def known(self, symbols: Int32s, dtype: "np.dtype[Any]") -> NDArray[Any]:
        """What is known when all of one tensor is (N x C x H x W)."""
        known = self.nothing(dtype)
        known[0, :-1] = (symbols - self.centres).reshape(-1)[self.wave.order]
        return known

    def symbols(self, known: NDArray[Any]) -> Int32s:
        """All elements (tensors N x C x H x W) of what is known."""
        values = np.empty((len(known), self.wave.order.size), dtype=np.int32)
        values[:, self.wave.order] = known[:, :-1]
        return values.reshape(-1, *self.wave.shape[1:]) + self.centres

    def reader(self, tensors: int) -> "TableReader":
        return TableReader(self, tensors)


class TableReader:
    """Follows a decoder from front to front."""

    def __init__(self, plan: TablePlan, tensors: int) -> None:
        self._plan = plan
        self._known = plan.nothing(np.dtype(np.int32), tensors)
        self._fronts = iter(plan.fronts)

    def bases(self) -> Ints:
        """The tables of the next front's elements, times 2^14: a row a tensor."""
        front = self._front = next(self._fronts)
        seen = np.empty((len(self._known), *front.weights.shape), dtype=np.int32)
        seen[:, :, 0] = self._known.take(front.neighbours, axis=1)
        np.abs(seen[:, :, 0], out=seen[:, :, 1])
        seen *= front.weights
        scores: Int32s = np.add.reduce(seen, axis=1)
        scores += front.biases
        scores >>= SHIFT
        np.maximum(scores, 0, out=scores)
        np.minimum(scores, _LAST_BINS, out=scores)
        cells = scores[:, 1] * VALUE_BINS
        cells += scores[:, 0]
        bases: Ints = self._plan.bases[front.rows + cells]
        return bases

    def put(self, codes: Ints) -> None:
        """What the coder read for them."""
        front = self._front
        np.subtract(codes, front.centres, out=self._known[:, front.span])

    def symbols(self) -> Int32s:
        """All elements (tensors N x C x H x W), after the last front."""
        return self._plan.symbols(self._known)
