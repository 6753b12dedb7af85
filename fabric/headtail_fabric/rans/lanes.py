"""The coder: many rANS states side by side, one array operation for all of them.

A range variant of asymmetric numeral systems (Duda, "Asymmetric numeral systems: entropy coding
combining speed of Huffman coding with compression rate of arithmetic coding", arXiv:1311.2540,
2013), in lanes that share one stream (Giesen, "Interleaved entropy coders", arXiv:1402.3392,
2014). With f the frequency of a symbol, c the sum of those before it, and n = 12:

    encode   x' = floor(q / f) 2^n + c + q mod f       with q = x without its lowest k bits
    decode   q = f floor(x' / 2^n) + (x' mod 2^n) - c  and k bits put back below it

Differences to the usual form, since a payload here has a few thousand bytes and hundreds of lanes:

* The state lies in [2^16, 2^17), and k, the number of bits moved, is whatever keeps it there, so
  what a lane's last state costs is 16 bits that are nearly all information. (With 32-bit states
  and 16-bit moves a lane wastes about 8 bits at its end and 16 at its start: three bytes a lane,
  a tenth of a payload.)
* Lanes are not started empty. The encoder begins with 8, and doubles them as soon as its stream
  holds 16 bits for each new lane: those bits become the new lane's first state. The decoder runs
  backwards through this: where the lanes halve it puts the states of those that end back into
  the stream, in front of what it has not read. Eight lanes are all that is paid for, and their
  first states carry the check value.

Symbols come in *fronts*: those of one front don't depend on each other, so the decoder takes a
whole front once the tables of all its symbols are known. A front of n symbols uses the first n
lanes, or all of them several times.

    body = doublings u8, fronts of each stage but the widest LEB128 (narrowest first),
           states u16 LE a lane, stream (most significant bit first, zeros to the end of the byte)
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from headtail_fabric.codec.base import CodecError
from headtail_fabric.rans import bits
from headtail_fabric.rans.bits import Bits, Ints
from headtail_fabric.rans.frequencies import PRECISION, TOTAL, FrequencyTables

NARROWEST: Final = 8
MAX_DOUBLINGS: Final = 7
MAX_LANES: Final = NARROWEST << MAX_DOUBLINGS
SEED_WORDS: Final = 2
"""16-bit words that the caller may hide in the first states, and check in the end."""

_STATE_BITS: Final = 16
_LOWEST: Final = 1 << _STATE_BITS
_MAX_VARINT: Final = 4
# In arrays: an operation with a Python int takes twice as long on a few hundred elements.
_EXPONENT_BIAS: Final = 1023


class _Constants:
    """Constants as arrays as long as the lanes."""

    def __init__(self, lanes: int) -> None:
        self.slot_mask = np.full(lanes, TOTAL - 1)
        self.precision = np.full(lanes, PRECISION)
        self.mantissa = np.full(lanes, 52)
        self.exponent = np.full(lanes, _EXPONENT_BIAS + _STATE_BITS)
        self.widest = np.full(lanes, _EXPONENT_BIAS + 2 * _STATE_BITS)
        self.width_shift = np.full(lanes, _STATE_BITS + 1)


_CONSTANTS: Final = _Constants(MAX_LANES)


def encode(
    tables: FrequencyTables,
    chosen: Ints,
    symbols: Ints,
    starts: Sequence[int],
    *,
    seed: Sequence[int] = (0,) * SEED_WORDS,
    max_lanes: int = MAX_LANES,
) -> bytes:
    """The body for `symbols`, each coded by the table `chosen` for it, in coding order.

    `starts`: where each front begins, and the end; `seed`: two 16-bit words.
    """
    coded = _Coded(tables, chosen * tables.symbols + symbols)
    constants = _CONSTANTS
    states = np.full(max(max_lanes, NARROWEST), _LOWEST)
    states[:SEED_WORDS] += seed
    stream: Bits = np.empty(0, dtype=np.uint8)
    stages: list[int] = []
    lanes, stage, end, waiting = NARROWEST, 0, len(symbols), 0
    for first, last in zip(starts[-2::-1], starts[:0:-1], strict=True):
        if 2 * lanes <= max_lanes and waiting >= lanes * _STATE_BITS and stage:
            stream = np.concatenate([coded.moved(last, end), stream])
            taken = lanes * _STATE_BITS
            states[lanes : 2 * lanes] = bits.words(stream[:taken]) + _LOWEST
            stream, waiting, end = stream[taken:], waiting - taken, last
            stages.append(stage)
            lanes, stage = 2 * lanes, 0
        for low in range(first + (last - first - 1) // lanes * lanes, first - 1, -lanes):
            span = slice(low, min(low + lanes, last))
            size = span.stop - low
            state, width = states[:size], coded.widths[span]
            coded.states[span] = state
            np.add(state, coded.deltas[span], out=width)
            np.right_shift(width, constants.width_shift[:size], out=width)
            np.right_shift(state, width, out=state)
            quotient = state // coded.frequencies[span]
            quotient *= coded.complements[span]
            state += quotient
            state += coded.sums[span]
        stage += 1
        if 2 * lanes <= max_lanes:
            waiting += int(np.add.reduce(coded.widths[first:last]))
    stream = np.concatenate([coded.moved(0, end), stream])
    head = bytes([len(stages)]) + b"".join(map(_varint, stages))
    final = (states[:lanes] - _LOWEST).astype("<u2").tobytes()
    return head + final + np.packbits(stream).tobytes()


class _Coded:
    """All that the encoder needs to know of each symbol, and what it moves out for it."""

    def __init__(self, tables: FrequencyTables, rows: Ints) -> None:
        frequencies = tables.frequencies.reshape(-1).astype(np.int64)
        # Of x in [2^16, 2^17) the bits (x + delta) >> 17 must go, so that x / 2^bits lies in
        # [16 f, 32 f): `most` of them, or one fewer below the least state that bears `most`.
        most = PRECISION - np.floor(np.log2(frequencies)).astype(np.int64)
        least = frequencies << _STATE_BITS - PRECISION + most
        self.deltas = ((most << _STATE_BITS + 1) - least)[rows]
        self.frequencies = frequencies[rows]
        self.complements = (TOTAL - frequencies)[rows]
        self.sums = tables.starts.reshape(-1).astype(np.int64)[rows]
        self.states = np.empty(rows.size, dtype=np.int64)
        self.widths = np.empty(rows.size, dtype=np.int64)

    def moved(self, first: int, last: int) -> Bits:
        """The bits of the symbols of that range, in the order in which they are read."""
        return bits.fields(self.states[first:last], self.widths[first:last])


class LaneDecoder:
    """Takes symbols off a body, front by front. Raises CodecError for what no encoder wrote."""

    def __init__(self, tables: FrequencyTables, body: bytes | memoryview, fronts: int) -> None:
        """`fronts`: how many there will be."""
        data = memoryview(body)
        if len(data) == 0 or data[0] > MAX_DOUBLINGS:
            raise CodecError("the number of lanes is missing or too large")
        stages, at = _varints(data, 1, data[0])
        if 0 in stages or sum(stages) > fronts:
            raise CodecError(f"stages of {stages} fronts, there are {fronts}")
        lanes = NARROWEST << len(stages)
        if len(data) < at + 2 * lanes:
            raise CodecError(f"{len(data)} bytes do not hold {lanes} states")
        self._stages = [*stages, fronts - sum(stages)]
        self._states = np.frombuffer(data[at : at + 2 * lanes], dtype="<u2").astype(np.int64)
        self._states += _LOWEST
        self._symbols = tables.slot_symbols
        self._frequencies, self._offsets = tables.slot_frequencies, tables.slot_offsets
        self._widths = np.empty(lanes + 1, dtype=np.int64)
        self._floats = np.empty(lanes)
        self._exponents = self._floats.view(np.int64)
        self._load(np.unpackbits(np.frombuffer(data[at + 2 * lanes :], dtype=np.uint8)))

    def front(self, bases: Ints) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
        """The symbols of one front; `bases`: the table of each, times 4096."""
        while self._stages[-1] == 0:
            self._halve()
        self._stages[-1] -= 1
        slots = np.empty(bases.size, dtype=np.int64)
        lanes = self._states.size
        for first in range(0, bases.size, lanes):
            self._step(bases[first : first + lanes], slots[first : first + lanes])
            if self._position > self._bits.size:
                raise CodecError("the payload ends too early")
        return self._symbols[slots]

    def finish(self) -> tuple[int, ...]:
        """The seed. Checks that everything was read and that the states are back at their start."""
        while len(self._stages) > 1 and self._stages[-1] == 0:
            self._halve()
        rest = self._bits[self._position :]
        words = self._states - _LOWEST
        if self._stages != [0] or rest.size >= 8 or rest.any() or words[SEED_WORDS:].any():
            raise CodecError("the payload does not end where it should")
        return tuple(int(word) for word in words[:SEED_WORDS])

    def _step(self, bases: Ints, slots: Ints) -> None:
        constants, size = _CONSTANTS, bases.size
        state, widths = self._states[:size], self._widths[: size + 1]
        np.bitwise_and(state, constants.slot_mask[:size], out=slots)
        slots += bases
        np.right_shift(state, constants.precision[:size], out=state)
        state *= self._frequencies[slots]
        state += self._offsets[slots]  # now 2^16 q
        floats, exponents = self._floats[:size], self._exponents[:size]
        floats[:] = state
        # The exponent of a float is the place of an integer's highest bit.
        np.right_shift(exponents, constants.mantissa[:size], out=exponents)
        np.subtract(constants.widest[:size], exponents, out=widths[1:])
        widths[0] = self._position
        offsets = np.add.accumulate(widths)
        state |= self._windows[offsets[:-1]]
        exponents -= constants.exponent[:size]
        np.right_shift(state, exponents, out=state)
        self._position = int(offsets[-1])

    def _halve(self) -> None:
        """Ends the upper half of the lanes; their states go back in front of the stream."""
        half = self._states.size // 2
        ended = bits.from_words(self._states[half:] - _LOWEST)
        self._states = self._states[:half]
        self._stages.pop()
        self._load(np.concatenate([ended, self._bits[self._position :]]))

    def _load(self, stream: Bits) -> None:
        self._bits, self._position = stream, 0
        self._windows = bits.windows(stream, PRECISION * self._states.size)


def _varint(value: int) -> bytes:
    """LEB128: seven bits a byte, the lowest first, the top bit set on all but the last."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _varints(data: memoryview, at: int, count: int) -> tuple[list[int], int]:
    """`count` numbers from `at` on, and where they end."""
    values = []
    for _ in range(count):
        value, shift = 0, 0
        while True:
            if at >= len(data) or shift >= 7 * _MAX_VARINT:
                raise CodecError("a stage's length is cut off or too long")
            byte, at = data[at], at + 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        values.append(value)
    return values, at
