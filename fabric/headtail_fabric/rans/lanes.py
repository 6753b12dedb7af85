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
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

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

# For the many small steps: an operation with a Python int takes nearly twice as long as with an
# array of no axes.
_MOVED_AT: Final = np.array(MOVED_AT)
_WINDOW: Final = np.array(bits.WINDOW)
_LOWEST_STATE: Final = np.array(_LOWEST)
_STATE_MASK: Final = np.array((1 << SYMBOL_AT) - 1)
_WIDTH_AT: Final = np.array(STATE_BITS + 1, dtype=np.int32)
_QUOTIENT_AT: Final = np.array(INVERSE_BITS, dtype=np.int32)


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
    lanes = first = first_lanes or first_lanes_for(len(symbols))
    coded = _Coded(tables, chosen, symbols)
    states = np.full(MAX_LANES, _LOWEST, dtype=np.int32)
    states[:SEED_LANES] += _seed_states(seed)
    stream: Bits = np.empty(0, dtype=np.uint8)
    stages: list[int] = []
    stage, end, waiting = 0, len(symbols), 0
    for begin, last in zip(starts[-2::-1], starts[:0:-1], strict=True):
        if 2 * lanes <= max_lanes and waiting >= lanes * STATE_BITS:
            stream = np.concatenate([coded.moved(last, end), stream])
            taken = lanes * STATE_BITS
            states[lanes : 2 * lanes] = bits.split(stream[:taken], STATE_BITS) + _LOWEST
            stream, waiting, end = stream[taken:], waiting - taken, last
            stages.append(stage)
            lanes, stage = 2 * lanes, 0
        for low in range(begin + (last - begin - 1) // lanes * lanes, begin - 1, -lanes):
            coded.push(states, low, min(low + lanes, last))
        stage += 1
        if 2 * lanes <= max_lanes:
            waiting += int(np.add.reduce(coded.widths[begin:last]))
    final = bits.join(states[:lanes], STATE_BITS)
    return body_of(first, stages, np.concatenate([final, coded.moved(0, end), stream]))


def body_of(first: int, stages: Sequence[int], stream: Bits) -> bytes:
    """`first` lanes, the `stages` but the widest, states and stream."""
    head = bytes([first.bit_length() - 1 << 4 | len(stages)])
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
        np.right_shift(width, _WIDTH_AT, out=width)
        np.right_shift(state, width, out=state)
        np.multiply(state, self.inverses[span], out=quotient)
        np.right_shift(quotient, _QUOTIENT_AT, out=quotient)
        np.multiply(quotient, self.complements[span], out=quotient)
        np.add(state, quotient, out=state)
        np.add(state, self.sums[span], out=state)

    def moved(self, first: int, last: int) -> Bits:
        """The bits of the symbols of that range, in the order in which they are read."""
        return bits.fields(self.states[first:last], self.widths[first:last])


class LaneDecoder:
    """Takes symbols off bodies, front by front, the same fronts of all of them at once: a step of
    several costs little more than that of one. Raises CodecError for what no encoder wrote."""

    def __init__(
        self, tables: FrequencyTables, bodies: Sequence[bytes | memoryview], fronts: int
    ) -> None:
        """`fronts`: how many there will be."""
        self._transitions = tables.transitions
        self._streams: list[_Stream] = []
        begin = 0
        for body in bodies:
            stream = _Stream(body, fronts, begin=begin)
            begin += stream.room
            self._streams.append(stream)
        self._windows = np.zeros(begin, dtype=np.int64)
        for stream in self._streams:
            stream.load(self._windows)
        self._groups = self._grouped()

    def front(self, bases: Ints) -> Ints:
        """The symbols of one front, a row a body; `bases`: the table of each, times 2^14."""
        if 0 in [stream.stages[-1] for stream in self._streams]:
            self._halve()
        for stream in self._streams:
            stream.stages[-1] -= 1
        if len(self._groups) == 1:
            taken = self._groups[0].front(bases, self._transitions, self._windows)
        else:
            taken = np.empty(bases.shape, dtype=np.int64)
            for group in self._groups:
                rows = group.rows
                taken[rows] = group.front(bases[rows], self._transitions, self._windows)
        taken >>= SYMBOL_AT
        taken &= MAX_SYMBOLS - 1
        return taken

    def finish(self) -> list[int]:
        """The seeds. Checks that everything was read and that the states are back at their
        start."""
        self._settle()
        return [stream.finish() for stream in self._streams]

    def _halve(self) -> None:
        self._settle()
        for stream in self._streams:
            while stream.stages[-1] == 0:
                stream.halve()
                stream.load(self._windows)
        self._groups = self._grouped()

    def _settle(self) -> None:
        """Gives the streams back what the groups worked on."""
        for group in self._groups:
            for row, states, position in zip(
                group.rows, group.states, group.positions.tolist(), strict=True
            ):
                self._streams[row].came_to(position, states)

    def _grouped(self) -> list["_Group"]:
        by_lanes: dict[int, list[int]] = {}
        for row, stream in enumerate(self._streams):
            by_lanes.setdefault(stream.states.size, []).append(row)
        return [_Group(rows, [self._streams[row] for row in rows]) for rows in by_lanes.values()]


@dataclass(frozen=True, slots=True)
class Head:
    """What a body begins with: `size` bytes, how many `lanes` the decoder begins with, and how many
    fronts each stage takes, the widest last."""

    size: int
    lanes: int
    stages: list[int]

    @classmethod
    def of(cls, body: memoryview, fronts: int) -> Self:
        """`fronts`: how many there are. Raises CodecError for what no encoder wrote."""
        if len(body) == 0:
            raise CodecError("the payload ends before the number of its lanes")
        first, doublings = 1 << (body[0] >> 4), body[0] & 15
        lanes = first << doublings
        if not SEED_LANES <= first <= lanes <= MAX_LANES:
            raise CodecError(f"{first} to {lanes} lanes")
        stages, size = _varints(body, 1, doublings)
        if 0 in stages or sum(stages) > fronts:
            raise CodecError(f"stages of {stages} fronts, there are {fronts}")
        if 8 * (len(body) - size) < lanes * STATE_BITS:
            raise CodecError(f"{len(body)} bytes do not hold {lanes} states")
        return cls(size, lanes, [*stages, fronts - sum(stages)])


class _Stream:
    """What is left of one body."""

    def __init__(self, body: bytes | memoryview, fronts: int, *, begin: int) -> None:
        data = memoryview(body)
        head = Head.of(data, fronts)
        stream = np.unpackbits(np.frombuffer(data[head.size :], dtype=np.uint8))
        self.stages = head.stages
        self.states = bits.split(stream[: head.lanes * STATE_BITS], STATE_BITS)
        self.begin = begin
        # What halving puts back was read here: the rest never grows beyond what it is now.
        self.room = bits.windows_size(stream.size, PRECISION * head.lanes)
        self._rest, self.position = stream[head.lanes * STATE_BITS :], 0

    def came_to(self, position: int, states: Ints) -> None:
        """`position`: in the array of all windows. Raises CodecError when that is past the end."""
        self.states, self.position = states, position - self.begin
        if self.position > self._rest.size:
            raise CodecError("the payload ends too early")

    def load(self, windows: Ints) -> None:
        """Lays the windows of what is left where it has its place."""
        own = bits.windows(self._rest, PRECISION * self.states.size)
        windows[self.begin : self.begin + own.size] = own

    def halve(self) -> None:
        """Ends the upper half of the lanes; their states go back in front of the stream."""
        half = self.states.size // 2
        ended = bits.join(self.states[half:], STATE_BITS)
        self.states = self.states[:half]
        self.stages.pop()
        self._rest = np.concatenate([ended, self._rest[self.position :]])
        self.position = 0

    def finish(self) -> int:
        assert self.stages == [0]  # every front was taken
        rest, states = self._rest[self.position :], self.states
        seed = sum(int(s) << STATE_BITS * lane for lane, s in enumerate(states[:SEED_LANES]))
        if seed >> _SEED_BITS or states[SEED_LANES:].any() or rest.size >= 8 or rest.any():
            raise CodecError("the payload does not end where it should")
        return seed


class _Group:
    """Bodies with the same number of lanes: `states` (bodies, lanes), `positions` (bodies,) in the
    array of all windows."""

    def __init__(self, rows: list[int], streams: Sequence[_Stream]) -> None:
        self.rows = rows
        self.states = np.stack([stream.states for stream in streams])
        self.positions = np.array([stream.begin + stream.position for stream in streams])
        bodies, lanes = self.states.shape
        self._offsets = np.empty((bodies, lanes + 1), dtype=np.int64)

    def front(self, bases: Ints, transitions: Ints, windows: Ints) -> Ints:
        """What was done for each symbol of a front (bodies, symbols), as in `transitions`."""
        lanes, symbols = self.states.shape[1], bases.shape[1]
        taken = np.empty(bases.shape, dtype=np.int64)
        for first in range(0, symbols, lanes):
            span = slice(first, min(first + lanes, symbols))
            taken[:, span] = self._step(bases[:, span], transitions, windows)
        return taken

    def _step(self, bases: Ints, transitions: Ints, windows: Ints) -> Ints:
        size = bases.shape[1]
        state, offsets = self.states[:, :size], self._offsets[:, : size + 1]
        state += bases
        taken: Ints = transitions[state]
        moved = np.right_shift(taken, _MOVED_AT, out=offsets[:, 1:])
        unmoved = _WINDOW - moved
        offsets[:, 0] = self.positions
        np.add.accumulate(offsets, axis=1, out=offsets)
        np.bitwise_and(taken, _STATE_MASK, out=state)
        # One that ran past its end reads zeros or another's bits, and is found out later.
        state |= windows.take(offsets[:, :-1], mode="clip")
        state >>= unmoved
        state -= _LOWEST_STATE
        self.positions = offsets[:, -1].copy()
        return taken


def first_lanes_for(symbols: int) -> int:
    """How many an encoder begins with by default."""
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
