"""Which frequency table an element is coded with: a small masked convolution, in integers.

A context model of learned picture compression (Minnen, Ballé, Toderici, "Joint autoregressive and
hierarchical priors for learned image compression", NeurIPS 2018; masked convolutions: van den Oord
et al., "Pixel recurrent neural networks", ICML 2016): from all channels of the elements above and
to the left, it predicts a mean and a scale for each channel of a position. In floating point two
machines round differently and the decoder loses its way, so here (as Ballé, Johnston, Minnen,
"Integer networks for data compression with latent-variable models", ICLR 2019, ask for) weights
are int16, sums fit into int32, and everything else is an exact shift:

    a = (W1 x + b1) >> s1        h = clip(max(a, a >> 3), +-32767)        (m, t) = (W2 h + b2) >> s2
    mean = floor(m / 8), eighths = m mod 8, scale = clip(t, 0, 15)
    table = 8 scale + eighths        code = (x - mean) mod symbols       x = symbol - centre

The sums are computed by a floating-point matrix product: all partial sums are integers below 2^24
(float32) or 2^31 (float64), which both hold exactly, in whatever order they are added.
"""

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.rans.frequencies import STATE_BITS
from headtail_fabric.rans.wavefront import Ints, Margin, Shape4, Wavefront

SCALES: Final = 16
EIGHTHS: Final = 8
MAX_RADIUS: Final = 2
MAX_HIDDEN: Final = 256
MAX_CHANNELS: Final = 512
MAX_SHIFT: Final = 24
_HIDDEN_LIMIT: Final = 2**15 - 1
_FLOAT32_EXACT: Final = 2**24
_INT32: Final = 2**31

Int32s = NDArray[np.int32]
Floats = NDArray[Any]

_LEAK, _EIGHTHS_BITS, _EIGHTHS_MASK = (np.array(number, np.int32) for number in (3, 3, EIGHTHS - 1))
_LEAST_HIDDEN, _MOST_HIDDEN, _LEAST_SCALE, _MOST_SCALE = (
    np.array(number, np.int32) for number in (-_HIDDEN_LIMIT, _HIDDEN_LIMIT, 0, SCALES - 1)
)


def taps(radius: int) -> list[tuple[int, int]]:
    """Rows and columns of the causal half of a window: all rows above, and what is to the left."""
    side = range(-radius, radius + 1)
    above = [(row, column) for row in range(-radius, 0) for column in side]
    return above + [(0, column) for column in range(-radius, 0)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConvContext:
    """The integers of the module's formulas; C channels, K taps, H hidden units.

    `centres` (C,) int16; `weights1` (H, C, K) int16, `biases1` (H,) int32; `weights2` (2 C, H)
    int16, `biases2` (2 C,) int32: means first. `radius` 1 (4 taps) or 2 (12 taps); `symbols`: of
    the alphabet. Raises ValueError when shapes don't fit or a sum could leave int32.
    """

    symbols: int
    radius: int
    centres: NDArray[np.int16]
    weights1: NDArray[np.int16]
    biases1: NDArray[np.int32]
    shift1: int
    weights2: NDArray[np.int16]
    biases2: NDArray[np.int32]
    shift2: int

    def __post_init__(self) -> None:
        channels, hidden = self.centres.size, self.biases1.size
        if not (1 <= channels <= MAX_CHANNELS and 1 <= hidden <= MAX_HIDDEN):
            raise ValueError(f"{channels} channels and {hidden} hidden units")
        if not 1 <= self.radius <= MAX_RADIUS:
            raise ValueError(f"radius {self.radius}")
        if not ((self.centres >= 0) & (self.centres < self.symbols)).all():
            raise ValueError(f"centres outside the alphabet of {self.symbols} symbols")
        if not (0 <= self.shift1 <= MAX_SHIFT and 0 <= self.shift2 <= MAX_SHIFT):
            raise ValueError(f"shifts {self.shift1} and {self.shift2}")
        expected = {
            "centres": (channels,),
            "weights1": (hidden, channels, len(taps(self.radius))),
            "weights2": (2 * channels, hidden),
            "biases2": (2 * channels,),
        }
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} of shape {getattr(self, name).shape}, not {shape}")
        if max(self.bounds()) >= _INT32:
            raise ValueError("a sum of the context could leave 32 bits")

    @property
    def channels(self) -> int:
        return int(self.centres.size)

    @property
    def reach(self) -> int:
        """The largest |x|."""
        return max(self.symbols - 1 - int(self.centres.min()), int(self.centres.max()))

    @property
    def macs_per_position(self) -> int:
        """Multiplications for all channels of one place."""
        return int(self.weights1.size + self.weights2.size)

    def bounds(self) -> tuple[int, int]:
        """What no sum of the two layers exceeds, before the shifts."""
        sums = np.abs(self.weights1.astype(np.int64)).reshape(self.biases1.size, -1).sum(axis=1)
        first = sums * self.reach + np.abs(self.biases1.astype(np.int64))
        hidden = np.minimum(first >> self.shift1, _HIDDEN_LIMIT) + 1
        second = np.abs(self.weights2.astype(np.int64)) @ hidden
        second += np.abs(self.biases2.astype(np.int64))
        return int(first.max()), int(second.max())

    def check(self, *, tables: int, symbols: int) -> None:
        """Raises ValueError unless it works with that many frequency tables and symbols."""
        if tables != SCALES * EIGHTHS or symbols != self.symbols:
            raise ValueError(
                f"{tables} frequency tables of {symbols} symbols, the context needs "
                f"{SCALES * EIGHTHS} of {self.symbols}"
            )

    def plan(self, shape: Shape4) -> "ConvPlan":
        """The context laid out for tensors of one shape. Raises ValueError for other channels."""
        return ConvPlan(self, shape)


class _Layers:
    """The two layers, ready for the matrix product; one row a place."""

    def __init__(self, context: ConvContext) -> None:
        exact = [np.dtype("f4" if b < _FLOAT32_EXACT else "f8") for b in context.bounds()]
        hidden = context.biases1.size
        self.input_dtype = exact[0]
        # (K C, H): a row of what is seen has tap by tap all channels.
        weights1 = context.weights1.transpose(2, 1, 0).reshape(-1, hidden)
        self._weights1 = np.ascontiguousarray(weights1, dtype=exact[0])
        self._weights2 = np.ascontiguousarray(context.weights2.T, dtype=exact[1])
        self._biases1, self._biases2 = context.biases1, context.biases2
        # Arrays of no axes: an operation with a Python int takes nearly twice as long.
        self._shifts = (
            np.array(context.shift1, np.int32),
            np.array(context.shift2, np.int32),
        )
        self._channels = context.channels

    def run(self, seen: Floats) -> tuple[Int32s, Int32s]:
        """Means and tables (places, C) from the elements seen (places, K C)."""
        sums = (seen @ self._weights1).astype(np.int32)
        sums += self._biases1
        sums >>= self._shifts[0]
        np.maximum(sums, sums >> _LEAK, out=sums)
        np.maximum(sums, _LEAST_HIDDEN, out=sums)
        np.minimum(sums, _MOST_HIDDEN, out=sums)
        outputs = (sums.astype(self._weights2.dtype) @ self._weights2).astype(np.int32)
        outputs += self._biases2
        outputs >>= self._shifts[1]
        means, scales = outputs[:, : self._channels], outputs[:, self._channels :]
        np.maximum(scales, _LEAST_SCALE, out=scales)
        np.minimum(scales, _MOST_SCALE, out=scales)
        scales <<= _EIGHTHS_BITS
        scales += means & _EIGHTHS_MASK
        return means >> _EIGHTHS_BITS, scales


class ConvPlan:
    """A `ConvContext` laid out for one shape.

    All channels of a place lie in one front; there they come image by image, in each channel by
    channel. What is known is kept the other way, place by place, with margins of zeros: around a
    place there are then a few rows to copy.
    """

    def __init__(self, context: ConvContext, shape: Shape4) -> None:
        if shape[1] != context.channels:
            raise ValueError(f"{shape[1]} channels, the context has {context.channels}")
        radius = context.radius
        margin = Margin(top=radius, left=radius, right=radius)
        slope = radius + 1
        self.wave = Wavefront(shape, slope=slope, delays=[0] * context.channels, margin=margin)
        self.context, self.layers = context, _Layers(context)
        self.centres = context.centres.astype(np.int32)
        self._taps = taps(radius)
        self._steps = np.array([row * self.wave.row + column for row, column in self._taps])

    @property
    def starts(self) -> list[int]:
        """Where each front begins in the coding order, and the end."""
        return self.wave.starts

    @cached_property
    def places(self) -> Ints:
        """Rows of what is known, place by place: all places in coding order, (P,)."""
        images, channels, height, width = self.wave.shape
        firsts = [
            self.wave.order[span].reshape(images, channels, -1)[:, 0].reshape(-1)
            for span in self.wave.spans()
        ]
        image, place = np.divmod(np.concatenate(firsts), channels * height * width)
        row, column = np.divmod(place, width)
        places: Ints = (image * self.wave.padded[2] + row + self.wave.margin.top) * self.wave.row
        places += column + self.wave.margin.left
        return places

    @cached_property
    def around(self) -> Ints:
        """Those that are seen around each place, (P, K)."""
        around: Ints = np.add.outer(self.places, self._steps)
        return around

    @cached_property
    def fronts(self) -> list["_Front"]:
        """For a decoder."""
        ends = [start // self.context.channels for start in self.starts]
        return [
            _Front(places=self.places[first:last], around=self.around[first:last])
            for first, last in itertools.pairwise(ends)
        ]

    def survey(self, symbols: Int32s) -> tuple[Ints, Ints]:
        """Table and code of each element of `symbols`, in coding order."""
        known = self.known(symbols, self.layers.input_dtype)
        means, tables = self.layers.run(self._seen(known))
        codes = self.inner(known).astype(np.int32).reshape(means.shape) - means
        codes %= self.context.symbols
        return self._in_order(tables), self._in_order(codes)

    def reader(self, tensors: int) -> "ConvReader":
        return ConvReader(self, tensors)

    def nothing(self, dtype: "np.dtype[Any]", tensors: int = 1) -> NDArray[Any]:
        """Of no place anything is known yet: (tensors N, padded height, padded width, C)."""
        images, channels, height, width = self.wave.padded
        return np.zeros((tensors * images, height, width, channels), dtype)

    def known(self, symbols: Int32s, dtype: "np.dtype[Any]") -> NDArray[Any]:
        """What is known when all of one tensor is (N x C x H x W)."""
        known = self.nothing(dtype)
        self.inner(known)[...] = symbols.transpose(0, 2, 3, 1) - self.centres
        return known

    def symbols(self, known: NDArray[Any]) -> Int32s:
        """All elements (tensors N x C x H x W) of what is known."""
        values = self.inner(known).astype(np.int32) + self.centres
        return values.transpose(0, 3, 1, 2)

    def inner(self, known: NDArray[Any]) -> NDArray[Any]:
        """What is within the margins, (tensors N, H, W, C), as a view."""
        margin, width = self.wave.margin, self.wave.shape[3]
        return known[:, margin.top :, margin.left : margin.left + width]

    def _seen(self, known: Floats) -> Floats:
        """What is known around each place, (places, K C)."""
        images, height, width, channels = self.inner(known).shape
        seen = np.empty((images, height, width, len(self._taps), channels), dtype=known.dtype)
        for tap, (row, column) in enumerate(self._taps):
            top, left = self.context.radius + row, self.context.radius + column
            seen[..., tap, :] = known[:, top : top + height, left : left + width]
        return seen.reshape(-1, len(self._taps) * channels)

    def _in_order(self, by_place: Int32s) -> Ints:
        images, channels, height, width = self.wave.shape
        whole = by_place.reshape(images, height * width, channels).swapaxes(1, 2).reshape(-1)
        return whole.take(self.wave.order).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Front:
    """As in `ConvPlan`, the places of one front, image by image."""

    places: Ints
    around: Ints


class ConvReader:
    """Follows a decoder from front to front."""

    def __init__(self, plan: ConvPlan, tensors: int) -> None:
        self._plan, self._images = plan, tensors * plan.wave.shape[0]
        self._known = plan.nothing(plan.layers.input_dtype, tensors)
        # Tensor by tensor all places, and of each the channels.
        self._rows = self._known.reshape(tensors, -1, plan.context.channels)
        self._fronts = iter(plan.fronts)

    def bases(self) -> Ints:
        """The tables of the next front's elements, times 2^14: a row a tensor."""
        front = self._front = next(self._fronts)
        tensors = len(self._rows)
        seen = self._rows.take(front.around, axis=1).reshape(tensors * front.places.size, -1)
        self._means, tables = self._plan.layers.run(seen)
        by_channel = tables.reshape(self._images, -1, tables.shape[1]).swapaxes(1, 2)
        bases = by_channel.reshape(tensors, -1).astype(np.int64)
        bases <<= STATE_BITS
        return bases

    def put(self, codes: Ints) -> None:
        """What the coder read for them."""
        context, tensors = self._plan.context, len(self._rows)
        symbols = codes.reshape(self._images, context.channels, -1).swapaxes(1, 2)
        symbols = symbols.reshape(self._means.shape) + self._means
        symbols += self._plan.centres
        symbols %= context.symbols
        symbols -= self._plan.centres
        self._rows[:, self._front.places] = symbols.reshape(tensors, -1, context.channels)

    def symbols(self) -> Int32s:
        """All elements (tensors N x C x H x W), after the last front."""
        return self._plan.symbols(self._known)
