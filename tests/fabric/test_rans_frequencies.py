import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_fabric.rans.frequencies import (
    MOVED_AT,
    STATE_AT,
    STATE_BITS,
    SYMBOL_AT,
    TOTAL,
    FrequencyTables,
    from_counts,
)


@given(
    st.integers(2, 64).flatmap(
        lambda size: st.lists(
            st.lists(st.floats(0, 1e9), min_size=size, max_size=size), min_size=1, max_size=4
        )
    )
)
def test_any_counts_make_tables(counts: list[list[float]]) -> None:
    tables = from_counts(np.array(counts))
    assert tables.frequencies.min() >= 1
    assert (tables.frequencies.sum(axis=1) == TOTAL).all()


def test_frequencies_follow_the_counts() -> None:
    assert from_counts(np.array([[3.0, 1.0]])).frequencies.tolist() == [[3072, 1024]]
    assert from_counts(np.array([[0.0, 0.0]])).frequencies.tolist() == [[2048, 2048]]
    assert from_counts(np.array([[7.0, 0.0, 0.0]])).frequencies.tolist() == [[4094, 1, 1]]


@pytest.mark.parametrize(
    "table",
    [
        np.full((1, 2), 2047),
        np.array([[0, 4096]]),
        np.full(2, 2048),
        np.full((0, 2), 1),
        np.full((1, 1), 4096),
        np.full((257, 2), 2048),
        np.full((1, 128), 32),
    ],
)
def test_bad_tables_are_refused(table: np.ndarray) -> None:
    with pytest.raises(ValueError, match="frequenc"):
        FrequencyTables(table.astype(np.uint16))


def test_transitions_undo_the_coding_formula() -> None:
    tables = from_counts(np.array([[5.0, 1.0, 0.0], [1.0, 1.0, 900.0]]))
    transitions = tables.transitions.reshape(2, -1)
    for table in range(2):
        for symbol in range(3):
            frequency = int(tables.frequencies[table, symbol])
            start = int(tables.starts[table, symbol])
            for before in (4 * frequency, 5 * frequency - 1, 8 * frequency - 1):
                state = (before // frequency << 12) + start + before % frequency
                found = int(transitions[table, state - (1 << STATE_BITS)])
                moved = found >> MOVED_AT
                assert found >> SYMBOL_AT & 63 == symbol
                assert found >> STATE_AT & 0x7FFF == before
                assert 1 << STATE_BITS <= before << moved < 2 << STATE_BITS


def test_an_encoders_steps_divide_exactly() -> None:
    """For every frequency, around each state at which a quotient or a width changes."""
    for frequency in [*range(1, 130), *range(500, 4096, 37), 4094, 4095]:
        tables = FrequencyTables(np.array([[frequency, 4096 - frequency]], dtype=np.uint16))
        delta, inverse, complement, below = tables.steps[:, 0].astype(np.int64)
        edges = np.arange(4, 9) * frequency
        states = np.unique(np.concatenate([edges - 1, edges, edges + 1]))
        states = states[(states >= 4 * frequency) & (states < 8 * frequency)]
        assert ((states * inverse >> 27) == states // frequency).all()
        assert int(states.max()) * int(inverse) < 2**31
        assert (complement, below) == (4096 - frequency, 0)
        full = np.arange(2**14, 2**15)
        left = full >> (full + delta >> 15)
        assert 4 * frequency <= left.min() <= left.max() < 8 * frequency
