"""The coder: many rANS states side by side, one array operation for all of them.

A range variant of asymmetric numeral systems (Duda, "Asymmetric numeral systems: entropy coding
combining speed of Huffman coding with compression rate of arithmetic coding", arXiv:1311.2540,
2013), in lanes that share one stream (Giesen, "Interleaved entropy coders", arXiv:1402.3392,
2014). With f the frequency of a symbol, c the sum of those before it, and n = 12:

    encode   x' = floor(q / f) 2^n + c + q mod f       with q = x without its lowest k bits
    decode   q = f floor(x' / 2^n) + (x' mod 2^n) - c  and k bits put back below it

Differences to the usual form, since a payload here has a few thousand bytes and hundreds of lanes:

* The state lies in [2^14, 2^15), and k, the number of bits moved, is whatever keeps it there, so
  what a lane's last state costs is 14 bits that are nearly all information. (With 32-bit states
  and 16-bit moves a lane wastes about 8 bits at its end and 16 at its start: three bytes a lane,
  a tenth of a payload.)
* Lanes are not started empty. The encoder begins with a few, and doubles them as soon as its
  stream holds 14 bits for each new lane: those bits become the new lane's first state. The decoder
  runs backwards through this: where the lanes halve it puts the states of those that end back into
  the stream, in front of what it has not read. Only the few lanes are paid for, and the check
  value lies in the first states of two or three of them.
* A state of 15 bits lets the decoder look up the whole step of a table, state and symbol and k, in
  one place. The encoder needs the frequencies only, and fits into a small device.

Symbols come in *fronts*: those of one front don't depend on each other, so the decoder takes a
whole front once the tables of all its symbols are known. A front of n symbols uses the first n
lanes, or all of them several times.

    body = lanes u8: log2 of the first number x 16 + doublings
           fronts of each stage but the widest, LEB128, narrowest first
           states, 14 bits each, then the stream; most significant bit first, zeros to a whole byte
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec.base import CodecError
from headtail_fabric.rans import bits
from headtail_fabric.rans.bits import Bits, Int32s, Ints
from headtail_fabric.rans.frequencies import (
    INVERSE_BITS,
    MAX_SYMBOLS,
    MOVED_AT,
    PRECISION,
    STATE_BITS,
    SYMBOL_AT,
    FrequencyTables,
)

MAX_LANES: Final = 1024
SEED_LANES: Final = 3
"""Take the check value into their first states."""

_LOWEST: Final = 1 << STATE_BITS
_FEWEST: Final = 4
_MOST_AT_FIRST: Final = 32
_SYMBOLS_A_LANE: Final = 1024
_MAX_VARINT: Final = 4
_SEED_BITS: Final = 32


class _Constants:
    """A decoder's constants as arrays as long as the lanes: an operation with a Python int takes
    twice as long on a few hundred elements."""

    def __init__(self, lanes: int) -> None:
        self.moved_at = np.full(lanes, MOVED_AT)
        self.window = np.full(lanes, bits.WINDOW)
        self.lowest = np.full(lanes, _LOWEST)
        self.state_mask = np.full(lanes, (1 << SYMBOL_AT) - 1)


_CONSTANTS: Final = _Constants(MAX_LANES)
_WIDTH_AT: Final = np.full(MAX_LANES, STATE_BITS + 1, dtype=np.int32)
_QUOTIENT_AT: Final = np.full(MAX_LANES, INVERSE_BITS, dtype=np.int32)


def encode(
    tables: FrequencyTables,
    chosen: Ints,
    symbols: Ints,
    starts: Sequence[int],
    *,
    seed: int = 0,
    first_lanes: int | None = None,
    max_lanes: int = MAX_LANES,
) -> bytes:
    """The body for `symbols`, each coded by the table `chosen` for it, in coding order.

    `starts`: where each front begins, and the end; `seed`: 32 bits that the decoder gets back in
    the end; `first_lanes`: 4 to 1024, a power of two, by default one of 1024 symbols but at most
    32; `max_lanes`: where doubling stops. More lanes at first make both ends faster and cost 14
    bits each.
    """
    first_lanes = first_lanes or _first_lanes(len(symbols))
    coded = _Coded(tables, chosen, symbols)
    states = np.full(MAX_LANES, _LOWEST, dtype=np.int32)
    states[:SEED_LANES] += _seed_states(seed)
    stream: Bits = np.empty(0, dtype=np.uint8)
    stages: list[int] = []
    lanes, stage, end, waiting = first_lanes, 0, len(symbols), 0
    for first, last in zip(starts[-2::-1], starts[:0:-1], strict=True):
        if 2 * lanes <= max_lanes and waiting >= lanes * STATE_BITS:
            stream = np.concatenate([coded.moved(last, end), stream])
            taken = lanes * STATE_BITS
            states[lanes : 2 * lanes] = bits.split(stream[:taken], STATE_BITS) + _LOWEST
            stream, waiting, end = stream[taken:], waiting - taken, last
            stages.append(stage)
            lanes, stage = 2 * lanes, 0
        for low in range(first + (last - first - 1) // lanes * lanes, first - 1, -lanes):
            coded.push(states, low, min(low + lanes, last))
        stage += 1
        if 2 * lanes <= max_lanes:
            waiting += int(np.add.reduce(coded.widths[first:last]))
    final = bits.join(states[:lanes], STATE_BITS)
    stream = np.concatenate([final, coded.moved(0, end), stream])
    head = bytes([first_lanes.bit_length() - 1 << 4 | len(stages)])
    return head + b"".join(map(_varint, stages)) + np.packbits(stream).tobytes()


class _Coded:
    """All that the encoder needs to know of each symbol, and what it moves out for it."""

    def __init__(self, tables: FrequencyTables, chosen: Ints, symbols: Ints) -> None:
        rows = chosen * tables.symbols + symbols
        self.deltas, self.inverses, self.complements, self.sums = tables.steps.take(rows, axis=1)
        self.states = np.empty(rows.size, dtype=np.int32)
        self.widths = np.empty(rows.size, dtype=np.int32)
        self._quotients = np.empty(MAX_LANES, dtype=np.int32)

    def push(self, lanes: Int32s, first: int, last: int) -> None:
        """Codes the symbols of that range, each into a lane of its own."""
        size, span = last - first, slice(first, last)
        state, width, quotient = lanes[:size], self.widths[span], self._quotients[:size]
        self.states[span] = state
        np.add(state, self.deltas[span], out=width)
        np.right_shift(width, _WIDTH_AT[:size], out=width)
        np.right_shift(state, width, out=state)
        np.multiply(state, self.inverses[span], out=quotient)
        np.right_shift(quotient, _QUOTIENT_AT[:size], out=quotient)
        np.multiply(quotient, self.complements[span], out=quotient)
        np.add(state, quotient, out=state)
        np.add(state, self.sums[span], out=state)

    def moved(self, first: int, last: int) -> Bits:
        """The bits of the symbols of that range, in the order in which they are read."""
        return bits.fields(self.states[first:last], self.widths[first:last])


class LaneDecoder:
    """Takes symbols off a body, front by front. Raises CodecError for what no encoder wrote."""

    def __init__(self, tables: FrequencyTables, body: bytes | memoryview, fronts: int) -> None:
        """`fronts`: how many there will be."""
        data = memoryview(body)
        if len(data) == 0:
            raise CodecError("the payload ends before the number of its lanes")
        first, doublings = 1 << (data[0] >> 4), data[0] & 15
        lanes = first << doublings
        if not SEED_LANES <= first <= lanes <= MAX_LANES:
            raise CodecError(f"{first} to {lanes} lanes")
        stages, at = _varints(data, 1, doublings)
        if 0 in stages or sum(stages) > fronts:
            raise CodecError(f"stages of {stages} fronts, there are {fronts}")
        stream = np.unpackbits(np.frombuffer(data[at:], dtype=np.uint8))
        if stream.size < lanes * STATE_BITS:
            raise CodecError(f"{len(data)} bytes do not hold {lanes} states")
        self._stages = [*stages, fronts - sum(stages)]
        self._states = bits.split(stream[: lanes * STATE_BITS], STATE_BITS)
        self._transitions = tables.transitions
        self._widths = np.empty(lanes + 1, dtype=np.int64)
        self._position = 0
        self._load(stream[lanes * STATE_BITS :])

    def front(self, bases: Ints) -> NDArray[np.int64]:
        """The symbols of one front; `bases`: the table of each, times 2^14."""
        while self._stages[-1] == 0:
            self._halve()
        self._stages[-1] -= 1
        taken = np.empty(bases.size, dtype=np.int64)
        lanes = self._states.size
        for first in range(0, bases.size, lanes):
            self._step(bases[first : first + lanes], taken[first : first + lanes])
            if self._position > self._bits.size:
                raise CodecError("the payload ends too early")
        taken >>= SYMBOL_AT
        taken &= MAX_SYMBOLS - 1
        return taken

    def finish(self) -> int:
        """The seed. Checks that everything was read and that the states are back at their start."""
        assert self._stages == [0]  # every front was taken
        rest = self._bits[self._position :]
        states = self._states
        seed = sum(int(s) << STATE_BITS * lane for lane, s in enumerate(states[:SEED_LANES]))
        if seed >> _SEED_BITS or states[SEED_LANES:].any() or rest.size >= 8 or rest.any():
            raise CodecError("the payload does not end where it should")
        return seed

    def _step(self, bases: Ints, taken: Ints) -> None:
        constants, size = _CONSTANTS, bases.size
        state, widths = self._states[:size], self._widths[: size + 1]
        state += bases
        taken[:] = self._transitions[state]
        moved = np.right_shift(taken, constants.moved_at[:size], out=widths[1:])
        unmoved = constants.window[:size] - moved
        widths[0] = self._position
        offsets = np.add.accumulate(widths)
        np.bitwise_and(taken, constants.state_mask[:size], out=state)
        state |= self._windows[offsets[:-1]]
        state >>= unmoved
        state -= constants.lowest[:size]
        self._position = int(offsets[-1])

    def _halve(self) -> None:
        """Ends the upper half of the lanes; their states go back in front of the stream."""
        half = self._states.size // 2
        ended = bits.join(self._states[half:], STATE_BITS)
        self._states = self._states[:half]
        self._stages.pop()
        self._load(np.concatenate([ended, self._bits[self._position :]]))

    def _load(self, stream: Bits) -> None:
        self._bits, self._position = stream, 0
        self._windows = bits.windows(stream, PRECISION * self._states.size)


def _first_lanes(symbols: int) -> int:
    wanted = round(math.log2(max(symbols, 1) / _SYMBOLS_A_LANE))
    return min(max(1 << max(wanted, 0), _FEWEST), _MOST_AT_FIRST)


def _seed_states(seed: int) -> Ints:
    mask = (1 << STATE_BITS) - 1
    return np.array([seed >> STATE_BITS * lane & mask for lane in range(SEED_LANES)])


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
