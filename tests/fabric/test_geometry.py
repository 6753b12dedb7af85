import pytest

from headtail_fabric.peer.geometry import framed_bytes


@pytest.mark.parametrize(
    ("sizes", "curve", "expected"),
    [
        ([0], False, 2),
        ([255], False, 257),
        ([256], False, 265),
        ([10, 1000], False, 12 + 1009),
        ([10], True, 10 + 33 + 2),
        ([222], True, 222 + 33 + 2),
        ([223], True, 223 + 33 + 9),
        ([], False, 0),
    ],
)
def test_frame_headers_are_two_or_nine_bytes(sizes: list[int], curve: bool, expected: int) -> None:
    assert framed_bytes([bytes(size) for size in sizes], curve=curve) == expected


def test_views_count_as_their_bytes() -> None:
    view = memoryview(bytearray(4000)).cast("I")
    assert framed_bytes([view], curve=False) == 4009
