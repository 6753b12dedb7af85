"""Messages in pieces, in any order, and what a hostile pseudonym may try."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_prifi.app.errors import StreamClosedError, TrafficError
from headtail_prifi.app.fragments import HEADER_BYTES, MAX_OPEN_MESSAGES, Assembler, cut, cut_again
from headtail_prifi.app.stream import MAX_AHEAD_SEGMENTS, StreamEnd
from headtail_prifi.app.wire import MAX_NUMBER, PART_OVERHEAD, read_part
from headtail_prifi.crypto.cipher import default_cipher


@settings(max_examples=60, deadline=None)
@given(
    messages=st.lists(st.binary(max_size=700), min_size=1, max_size=5),
    size=st.integers(HEADER_BYTES + 1, 200),
    smaller=st.integers(HEADER_BYTES + 1, 60),
    data=st.data(),
)
def test_messages_come_out_whole_in_any_order(
    messages: list[bytes], size: int, smaller: int, data: st.DataObject
) -> None:
    bodies = [
        piece
        for number, message in enumerate(messages)
        for body in cut(message, number, size)
        for piece in ([body] if data.draw(st.booleans()) else cut_again(body, smaller))
    ]
    assembler = Assembler()
    found = [assembler.add(body) for body in data.draw(st.permutations(bodies))]
    assert sorted(each for each in found if each is not None) == sorted(messages)
    assert assembler.dropped == 0


def piece(number: int, offset: int, total: int, data: bytes) -> bytes:
    return number.to_bytes(2) + offset.to_bytes(3) + total.to_bytes(3) + data


@pytest.mark.parametrize(
    "pieces",
    [
        [piece(1, 0, 9, b"12345"), piece(1, 0, 9, b"12345")],
        [piece(1, 0, 9, b"12345"), piece(1, 5, 10, b"6789")],
        [piece(1, 5, 9, b"56789")],
        [piece(1, 0, 4, b"12"), piece(1, 1, 4, b"23")],
        [piece(1, 1, 4, b"23"), piece(1, 2, 4, b"34")],
        [piece(1, 0, 3000, b"")],
        [b"short"],
    ],
)
def test_pieces_that_do_not_fit_are_refused(pieces: list[bytes]) -> None:
    assembler = Assembler(max_bytes=2000)
    for body in pieces[:-1]:
        assert assembler.add(body) is None
    with pytest.raises(TrafficError):
        assembler.add(pieces[-1])
    assert assembler.add(piece(1, 0, 2, b"ok")) == b"ok"


def test_unfinished_messages_make_way() -> None:
    assembler = Assembler(max_bytes=1000)
    for number in range(MAX_OPEN_MESSAGES + 3):
        assembler.add(piece(number, 0, 10, b"1"))
    assert assembler.dropped == 3
    for number in range(4):
        assembler.add(piece(1000 + number, 0, 1000, bytes(400)))
    assert sum(part.size for part in assembler._open.values()) <= 1000
    assert assembler.add(piece(1003, 400, 1000, bytes(600))) == bytes(1000)


def ends() -> tuple[StreamEnd, StreamEnd]:
    secret = b"s" * 32
    return (
        StreamEnd(secret, default_cipher(), opener=True),
        StreamEnd(secret, default_cipher(), opener=False),
    )


@settings(max_examples=40, deadline=None)
@given(
    writes=st.lists(st.binary(max_size=300), max_size=6),
    size=st.integers(PART_OVERHEAD + 1, 200),
    data=st.data(),
)
def test_streams_are_in_order_whatever_comes_first(
    writes: list[bytes], size: int, data: st.DataObject
) -> None:
    one, other = ends()
    segments = [segment for write in writes for segment in one.write(write, segment_bytes=size)]
    segments += one.write(b"", segment_bytes=size, last=True)
    assert all(len(segment) <= size for segment in segments)
    read = b"".join(
        other.read(read_part(segment)) for segment in data.draw(st.permutations(segments))
    )
    assert read == b"".join(writes)
    assert other.received_all
    assert not one.received_all
    with pytest.raises(StreamClosedError):
        one.write(b"more", segment_bytes=size)
    with pytest.raises(TrafficError):
        other.read(read_part(segments[0]))


def test_streams_refuse_what_is_not_theirs() -> None:
    one, other = ends()
    (segment,) = one.write(b"x", segment_bytes=100)
    part = read_part(segment)
    for bad in (
        part._replace(number=1),
        part._replace(number=MAX_AHEAD_SEGMENTS),
        part._replace(flags=1),
        part._replace(sealed=bytes(40)),
    ):
        with pytest.raises(TrafficError):
            other.read(bad)
    with pytest.raises(TrafficError):
        one.read(part)  # its own direction
    assert other.read(part) == b"x"
    assert one.label == other.label


def test_a_stream_ends_before_its_numbers_repeat() -> None:
    one, _ = ends()
    one._next_out = MAX_NUMBER
    one.write(b"the last", segment_bytes=100)
    with pytest.raises(StreamClosedError):
        one.write(b"one too many", segment_bytes=100)


def test_a_piece_beyond_its_message_is_not_cut_again() -> None:
    body = (1).to_bytes(2) + (2**24 - 1).to_bytes(3) + (2**24 - 1).to_bytes(3) + bytes(300)
    with pytest.raises(TrafficError, match="of 16777215"):
        list(cut_again(body, 100))
