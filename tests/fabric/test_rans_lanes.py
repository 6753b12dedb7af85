import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_fabric.codec import CodecError
from headtail_fabric.rans import bits, lanes
from headtail_fabric.rans.frequencies import STATE_BITS, FrequencyTables, from_counts
from headtail_fabric.rans.lanes import LaneDecoder


class Message:
    """Random symbols under random tables, cut into fronts."""

    def __init__(self, sizes: list[int], *, symbols: int = 16, sharp: float = 0.2, seed: int = 0):
        random = np.random.default_rng(seed)
        self.tables: FrequencyTables = from_counts(random.dirichlet(np.full(symbols, sharp), 6))
        self.starts = [0, *np.cumsum(sizes).tolist()]
        count = self.starts[-1]
        self.chosen = random.integers(0, 6, count)
        ends = np.cumsum(self.tables.frequencies, axis=1)[self.chosen]
        self.symbols = (random.integers(0, 4096, count)[:, np.newaxis] >= ends).sum(axis=1)

    def encode(self, **options: int) -> bytes:
        return lanes.encode(self.tables, self.chosen, self.symbols, self.starts, **options)

    def decode(self, body: bytes) -> tuple[np.ndarray, int]:
        (found,), (seed,) = decoded_together(self.starts, self.tables, [self.chosen], [body])
        return found, seed

    @property
    def ideal_bytes(self) -> float:
        """By the tables' own probabilities."""
        return float(-np.log2(self.tables.frequencies[self.chosen, self.symbols] / 4096).sum() / 8)


def decoded_together(
    starts: list[int], tables: FrequencyTables, chosen: list[np.ndarray], bodies: list[bytes]
) -> tuple[np.ndarray, list[int]]:
    """Symbols and seed of bodies with the same fronts; `chosen`: the tables of each."""
    decoder = LaneDecoder(tables, bodies, len(starts) - 1)
    rows = np.stack(chosen) << STATE_BITS
    found = [decoder.front(rows[:, a:b]) for a, b in itertools.pairwise(starts)]
    return np.concatenate(found, axis=1), decoder.finish()


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=30),
    symbols=st.integers(2, 64),
    sharp=st.sampled_from([0.01, 0.2, 5.0]),
    first=st.sampled_from([4, 8, 32, 1024]),
    most=st.sampled_from([4, 64, 1024]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_message_comes_back(
    sizes: list[int], symbols: int, sharp: float, first: int, most: int, seed: int
) -> None:
    message = Message(sizes, symbols=symbols, sharp=sharp, seed=seed)
    found, check = message.decode(message.encode(seed=seed, first_lanes=first, max_lanes=most))
    assert np.array_equal(found, message.symbols)
    assert check == seed


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=30),
    lanes=st.lists(
        st.tuples(st.sampled_from([4, 8, 32, 1024]), st.sampled_from([4, 64, 1024])),
        min_size=1,
        max_size=4,
    ),
    sharp=st.sampled_from([0.01, 0.2, 5.0]),
)
def test_messages_read_together_are_those_read_alone(
    sizes: list[int], lanes: list[tuple[int, int]], sharp: float
) -> None:
    # Each has lanes of its own, which halve where its own stream has them halve.
    tables = Message(sizes, sharp=sharp).tables
    messages = [Message(sizes, sharp=sharp, seed=seed) for seed in range(len(lanes))]
    bodies = []
    for seed, (message, (first, most)) in enumerate(zip(messages, lanes, strict=True)):
        message.tables = tables
        bodies.append(message.encode(seed=seed, first_lanes=first, max_lanes=most))
    found, seeds = decoded_together(
        messages[0].starts, tables, [message.chosen for message in messages], bodies
    )
    assert np.array_equal(found, [message.symbols for message in messages])
    assert seeds == list(range(len(lanes)))


@pytest.mark.parametrize("sharp", [0.02, 0.2, 2.0])
def test_lanes_cost_little_more_than_the_first_ones(sharp: float) -> None:
    message = Message([200] * 100, sharp=sharp)
    body = message.encode()
    assert body[0] & 15 >= 2  # 128 lanes at the least
    first_states = (1 << (body[0] >> 4)) * STATE_BITS / 8
    assert len(body) <= 1.005 * message.ideal_bytes + first_states + 12


def test_long_stages() -> None:
    message = Message([1] * 900, sharp=0.01)
    body = message.encode(first_lanes=4)
    assert body[0] & 15 >= 1
    assert body[1] >= 0x80
    assert np.array_equal(message.decode(body)[0], message.symbols)


def test_one_lane_in_a_front_is_enough() -> None:
    message = Message([1])
    assert np.array_equal(message.decode(message.encode())[0], message.symbols)


def test_damaged_bodies_never_decode_to_the_same_end() -> None:
    message = Message([50] * 20)
    body = message.encode(seed=0xDEADBEEF)
    damaged = [body[:cut] for cut in range(0, len(body), 7)]
    damaged += [body + b"\0", body + b"\xff", b"\0" + body, b"", b"\xff" * len(body)]
    for data in damaged:
        with pytest.raises(CodecError):
            message.decode(data)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"\x10", "2 to 2 lanes"),
        (b"\x5f", "32 to 1048576 lanes"),
        (b"\xf0", "32768 to 32768"),
        (b"\x51\x00", "stages of"),
        (b"\x51\x7f", "stages of"),
        (b"\x51\xff\xff\xff\xff\xff", "cut off or too long"),
        (b"\x51", "cut off or too long"),
        (b"\x50\x00", "do not hold 32 states"),
    ],
)
def test_impossible_heads_are_named(head: bytes, words: str) -> None:
    with pytest.raises(CodecError, match=words):
        LaneDecoder(Message([5]).tables, [head], 20)


@given(st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 16)), max_size=40))
def test_fields_are_what_windows_read(pairs: list[tuple[int, int]]) -> None:
    values = np.array([value for value, _ in pairs], dtype=np.int64)
    widths = np.array([width for _, width in pairs], dtype=np.int64)
    written = bits.fields(values, widths)
    windows = bits.windows(written, 32)
    at = np.cumsum(widths) - widths
    assert np.array_equal(windows[at] >> 16 - widths, values & (1 << widths) - 1)


def test_equal_fields_come_back() -> None:
    values = np.arange(37, dtype=np.int64)
    assert np.array_equal(bits.split(bits.join(values, 7), 7), values)
