"""Curves of accuracy against bytes."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_models.rate.curve import Place, accuracy_at, bytes_at, envelope


def _places(*pairs: tuple[float, float]) -> list[Place]:
    return [Place(size_bytes=size, accuracy=accuracy) for size, accuracy in pairs]


def test_the_envelope_leaves_out_what_is_beaten() -> None:
    places = _places((400, 0.7), (100, 0.5), (200, 0.4), (400, 0.8), (800, 0.8))
    assert envelope(places) == tuple(_places((100, 0.5), (400, 0.8)))


def test_between_points_the_logarithm_of_the_bytes_is_linear() -> None:
    places = _places((100, 0.5), (400, 0.9))
    assert bytes_at(places, 0.7) == pytest.approx(200)
    assert accuracy_at(places, 200) == pytest.approx(0.7)


def test_nothing_is_said_beyond_the_ends() -> None:
    places = _places((100, 0.5), (400, 0.9))
    assert bytes_at(places, 0.91) is None
    assert bytes_at(places, 0.49) is None
    assert accuracy_at(places, 99) is None
    assert accuracy_at(places, 401) is None
    assert bytes_at([], 0.5) is None
    assert accuracy_at([], 100) is None


def test_the_ends_belong_to_the_curve() -> None:
    places = _places((100, 0.5), (400, 0.9))
    assert bytes_at(places, 0.5) == pytest.approx(100)
    assert bytes_at(places, 0.9) == pytest.approx(400)
    assert bytes_at(_places((100, 0.5)), 0.5) == 100
    assert accuracy_at(_places((100, 0.5)), 100) == 0.5


_PLACES = st.lists(
    st.tuples(st.floats(1, 1e6), st.floats(0, 1)).map(
        lambda pair: Place(size_bytes=pair[0], accuracy=pair[1])
    ),
    min_size=1,
    max_size=12,
)


@given(places=_PLACES)
def test_the_envelope_rises_and_beats_all(places: list[Place]) -> None:
    upper = envelope(places)
    assert all(
        low.size_bytes < high.size_bytes and low.accuracy < high.accuracy
        for low, high in pairwise(upper)
    )
    for place in places:
        assert any(
            other.size_bytes <= place.size_bytes and other.accuracy >= place.accuracy
            for other in upper
        )


@given(places=_PLACES, share=st.floats(0, 1))
def test_more_accuracy_never_takes_fewer_bytes(places: list[Place], share: float) -> None:
    upper = envelope(places)
    low, high = upper[0].accuracy, upper[-1].accuracy
    middle = min(low + share * (high - low), high)
    found, most = bytes_at(places, middle), bytes_at(places, high)
    assert found is not None
    assert most is not None
    assert found <= most * (1 + 1e-9) or math.isclose(found, most)
