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
