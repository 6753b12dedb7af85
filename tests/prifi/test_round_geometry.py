"""Sizes, and that bits of an upstream frame are found where the geometry puts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_prifi.blame.position import Place, bit_of, owner_of, place_of, position_of
from headtail_prifi.core.errors import GeometryError
from headtail_prifi.core.geometry import LANE_BYTES, Geometry
from headtail_prifi.core.messages import NOBODY

geometries = st.builds(
    Geometry,
    clients=st.integers(1, 300),
    cell_bytes=st.integers(128, 2000),
    sub_slots=st.integers(1, 9),
    window=st.integers(1, 8),
    down_bytes=st.integers(128, 9000),
)


@given(geometry=geometries)
def test_sizes_follow_from_one_value(geometry: Geometry) -> None:
    lanes = -(-geometry.clients // 128) + geometry.sub_slots
    assert geometry.upstream_bytes == geometry.payload_bytes + LANE_BYTES * lanes
    assert geometry.stream_bytes == geometry.payload_bytes + 2 * LANE_BYTES * lanes
    assert 0 <= 16 * geometry.stride_blocks - geometry.stream_bytes < 16
    assert geometry.body_bytes == geometry.cell_bytes - 16 - 4
    assert Geometry.decode(geometry.encode(), clients=geometry.clients) == geometry


@given(geometry=geometries, data=st.data())
def test_every_bit_has_one_place(geometry: Geometry, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, 8 * geometry.upstream_bytes - 1))
    place = place_of(geometry, position)
    assert place is not None
    assert position_of(geometry, place) == position
    assert place_of(geometry, 8 * geometry.upstream_bytes) is None


def test_owners_of_places() -> None:
    assert owner_of(Place(1, 5), (4, 9)) == 9
    assert owner_of(Place(2, 5), (4, 9)) == NOBODY
    assert owner_of(Place(None, 7), (4, 9)) == 7
    assert [bit_of(b"\x81", bit) for bit in range(8)] == [1, 0, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    "values",
    [
        {"clients": 0},
        {"clients": 4000},
        {"cell_bytes": 64},
        {"cell_bytes": 10**6},
        {"sub_slots": 0},
        {"window": 65},
        {"down_bytes": 1},
        {"cell_bytes": 65536, "sub_slots": 32},
    ],
)
def test_values_out_of_limits_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(GeometryError):
        Geometry(**{"clients": 4, "cell_bytes": 256, **values})


def test_parameters_of_something_else_are_refused() -> None:
    for parameters in (b"", b"HTG2" + bytes(12), Geometry(clients=3).encode() + b"x"):
        with pytest.raises(GeometryError):
            Geometry.decode(parameters, clients=3)
