"""Messages and buffers between two ends of a line."""

from multiprocessing import Pipe

import msgspec
import pytest

from headtail_edge.shared_memory import LARGE_BYTES, Arena, Channel


class Note(msgspec.Struct, frozen=True):
    text: str


@pytest.fixture
def ends() -> tuple[Channel[Note], Channel[Note]]:
    near, far = Pipe()
    there, back = Arena.create(), Arena.create()
    return (
        Channel(near, out=there, into=back, receives=Note),
        Channel(far, out=back, into=there, receives=Note),
    )


def test_small_and_large_buffers_arrive_in_order(
    ends: tuple[Channel[Note], Channel[Note]],
) -> None:
    edge, worker = ends
    buffers = [b"small", bytes([7]) * LARGE_BYTES, b"", bytes([9]) * (LARGE_BYTES + 33)]
    edge.send(Note("one"), buffers)
    received = worker.receive(1.0)
    assert received is not None
    message, came = received
    assert message == Note("one")
    assert [bytes(buffer) for buffer in came] == buffers


def test_the_memory_grows_and_what_was_seen_in_it_before_stays_readable(
    ends: tuple[Channel[Note], Channel[Note]],
) -> None:
    edge, worker = ends
    edge.send(Note("small"), [bytes([1]) * LARGE_BYTES])
    first = worker.receive(1.0)
    edge.send(Note("large"), [bytes([2]) * 8 * LARGE_BYTES])
    second = worker.receive(1.0)
    assert first is not None
    assert second is not None
    assert len(bytes(first[1][0])) == LARGE_BYTES
    assert set(bytes(second[1][0])) == {2}
    worker.send(Note("answer"), [bytes([3]) * 2 * LARGE_BYTES])
    back = edge.receive(1.0)
    assert back is not None
    assert set(bytes(back[1][0])) == {3}


def test_large_buffers_do_not_go_through_the_pipe() -> None:
    near, far = Pipe()
    there, back = Arena.create(), Arena.create()
    edge = Channel(near, out=there, into=back, receives=Note)
    edge.send(Note("much"), [bytes(4 * LARGE_BYTES)])
    header = far.recv_bytes()
    assert len(header) < 100
    assert not far.poll(0)
    edge.close()
    far.close()


def test_nothing_that_came_is_none_and_an_end_that_is_gone_an_error() -> None:
    near, far = Pipe()
    edge = Channel(near, out=Arena.create(), into=Arena.create(), receives=Note)
    assert edge.receive(0.0) is None
    far.close()
    with pytest.raises(EOFError):
        edge.receive(1.0)
    with pytest.raises(OSError, match="Broken pipe"):
        edge.send(Note("x"), [])
    edge.close()
