"""Channels over a real socket pair, within one process; large buffers in shared memory."""

import os
import socket
import struct
from pathlib import Path

import numpy as np
import pytest

from headtail_cloud.runtime import channel as channels
from headtail_cloud.runtime.arena import Arena, ArenaError, ArenaTooLargeError, ArenaView
from headtail_cloud.runtime.channel import (
    SHARED_FROM_BYTES,
    BadMessageError,
    Channel,
    ChannelClosedError,
    ChannelSilentError,
)

LARGE = SHARED_FROM_BYTES + 1


@pytest.fixture
def ends() -> "tuple[Channel, Channel, socket.socket]":
    left, right = channels.pair()
    return Channel(left), Channel(right), left


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_small_and_large_buffers_arrive(ends: tuple[Channel, Channel, socket.socket]) -> None:
    left, right, _ = ends
    for size in (0, 10, LARGE, 3 * LARGE, 100, LARGE):
        sent = [np.random.default_rng(size).bytes(size), b"", b"small"]
        left.send(b"message", sent)
        came = right.receive(5)
        assert came.message == b"message"
        assert [bytes(buffer) for buffer in came.buffers] == sent
        assert all(isinstance(b, memoryview) for b in came.buffers) is (size >= LARGE)
    left.close()
    right.close()


def test_an_arena_is_sent_once_and_again_when_it_grows(
    ends: tuple[Channel, Channel, socket.socket],
) -> None:
    left, right, _ = ends
    before = open_files()
    for _ in range(5):
        left.send(b"m", [bytes(LARGE)])
        right.receive(5)
    left.send(b"m", [bytes(8 * LARGE)])
    right.receive(5)
    assert open_files() <= before + 4, "descriptors are closed when the memory is mapped"
    left.close()
    right.close()


def test_a_descriptor_travels_along(ends: tuple[Channel, Channel, socket.socket]) -> None:
    left, right, _ = ends
    read, write = os.pipe()
    left.send(b"take this", [bytes(LARGE)], [write])
    os.close(write)
    came = right.receive(5)
    os.write(came.descriptors[0], b"hello")
    assert os.read(read, 5) == b"hello"
    for fd in (read, *came.descriptors):
        os.close(fd)
    left.close()
    right.close()


def test_an_end_that_closes_and_one_that_is_silent(
    ends: tuple[Channel, Channel, socket.socket],
) -> None:
    left, right, _ = ends
    with pytest.raises(ChannelSilentError):
        right.receive(0.01)
    left.close()
    with pytest.raises(ChannelClosedError):
        right.receive(5)
    with pytest.raises(ChannelClosedError):
        right.send(b"anybody?", [bytes(100)])
    right.close()


@pytest.mark.parametrize(
    "raw",
    [
        struct.pack("<QQ", 2**60, 0),
        struct.pack("<QQ", 1, 1) + b"\xc1",
        struct.pack("<QQ", 1, 0) + b"\xc1",
        struct.pack("<QQ", 5, 0) + b"\x94\xc4\x00\x90\x90",
    ],
)
def test_nonsense_is_refused(raw: bytes, ends: tuple[Channel, Channel, socket.socket]) -> None:
    """Too long, descriptors that did not come, no msgpack, too short."""
    _, right, sender = ends
    sender.sendall(raw)
    sender.shutdown(socket.SHUT_WR)
    with pytest.raises((BadMessageError, ChannelClosedError)):
        right.receive(5)
    sender.close()
    right.close()


def test_memory_that_its_sender_could_cut_off_is_refused() -> None:
    """Reading beyond a file's end kills the reader."""
    fd = os.memfd_create("unsealed")
    os.ftruncate(fd, 4096)
    with pytest.raises(ArenaError, match="not sealed"):
        ArenaView().attach(fd)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_places_outside_of_an_arena_are_refused() -> None:
    view = ArenaView()
    with pytest.raises(ArenaError):
        view.look((0, 1))
    _, fd = Arena().place([bytes(100)])
    assert fd is not None
    view.attach(fd)
    assert bytes(view.look((0, 100))) == bytes(100)
    for place in ((0, 10**6), (10**6, 1), (-1, 5), (5, -1)):
        with pytest.raises(ArenaError):
            view.look(place)


def test_too_much_for_an_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headtail_cloud.runtime.arena.MAX_ARENA_BYTES", 1000)
    with pytest.raises(ArenaTooLargeError):
        Arena().place([bytes(600), bytes(600)])
