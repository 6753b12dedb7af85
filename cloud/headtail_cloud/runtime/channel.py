"""Messages between a process and its worker, over a Unix stream socket.

    prefix      length of the body, number of file descriptors; eight bytes each, little-endian
    body        msgpack [message, small buffers, places of large ones]

Buffers of more than 256 KB together go through shared memory (`arena`): a megabyte takes 1.6 ms
through a pipe. The two sides take turns, one message each: a buffer that was received is good until
the next message is.
"""

import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from headtail_cloud.runtime.arena import Arena, ArenaError, ArenaView, Place
from headtail_fabric.errors import PeerError, ResourceError
from headtail_fabric.wire import Buffer

SHARED_FROM_BYTES: Final = 256 * 1024
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
MAX_DESCRIPTORS: Final = 4
_PREFIX: Final = struct.Struct("<QQ")


class ChannelClosedError(ResourceError):
    """The process at the other end has died, or has closed its end. See the log for why."""


class NotSentError(ChannelClosedError):
    """The process at the other end was dead before it was asked. See the log for why."""


class ChannelSilentError(ResourceError):
    """The process at the other end did not answer in time: it hangs, and is stopped."""


class BadMessageError(PeerError):
    """A worker process sent something that is no message. It is stopped, and its requests are
    tried elsewhere. Please report it with the log."""


class _Body(msgspec.Struct, frozen=True, array_like=True):
    message: bytes
    small: list[bytes]
    large: list[Place]
    new_arena: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """`descriptors`: what was sent along, for the receiver to close."""

    message: bytes
    buffers: list[Buffer]
    descriptors: list[int]


class Channel:
    """One end. For one thread at a time."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._arena = Arena()
        self._view = ArenaView()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(_Body)

    def __repr__(self) -> str:
        return f"<Channel {self._socket.fileno()}>"

    def send(
        self, message: bytes, buffers: Sequence[Buffer] = (), descriptors: Sequence[int] = ()
    ) -> None:
        """Raises NotSentError, ArenaTooLargeError."""
        small: list[bytes] = []
        large: list[Place] = []
        fd = None
        if sum(memoryview(buffer).nbytes for buffer in buffers) > SHARED_FROM_BYTES:
            large, fd = self._arena.place(buffers)
        else:
            small = [bytes(buffer) for buffer in buffers]
        body = self._encoder.encode(_Body(message, small, large, fd is not None))
        fds = [*([] if fd is None else [fd]), *descriptors]
        try:
            socket.send_fds(self._socket, [_PREFIX.pack(len(body), len(fds))], fds)
            self._socket.sendall(body)
        except OSError as error:
            raise NotSentError(f"the channel broke: {error}") from None
        finally:
            if fd is not None:
                os.close(fd)

    def receive(self, timeout_s: float | None = None) -> Received:
        """The next message. Raises ChannelClosedError, ChannelSilentError when there is none
        within `timeout_s`, BadMessageError, ArenaError: after each of them the channel is of no use
        any more."""
        self._socket.settimeout(timeout_s)
        descriptors: list[int] = []
        try:
            size, count = _PREFIX.unpack(self._read(_PREFIX.size, descriptors))
            if size > MAX_BODY_BYTES or count != len(descriptors):
                raise BadMessageError(f"{size} bytes and {count} descriptors announced")
            body = self._decoder.decode(self._read(size, descriptors))
            if body.new_arena:
                if not descriptors:
                    raise BadMessageError("a new arena, but no descriptor")
                self._view.attach(descriptors.pop(0))
            buffers: list[Buffer] = [*body.small, *map(self._view.look, body.large)]
        except (msgspec.MsgspecError, ArenaError, BadMessageError) as error:
            _close_all(descriptors)
            raise BadMessageError(f"not a message: {error}") from None
        except BaseException:
            _close_all(descriptors)
            raise
        return Received(message=body.message, buffers=buffers, descriptors=descriptors)

    def close(self) -> None:
        """The other end finds out."""
        self._socket.close()

    def _read(self, size: int, descriptors: list[int]) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part, fds, _, _ = socket.recv_fds(
                    self._socket, size - len(data), MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
                )
            except TimeoutError:
                raise ChannelSilentError("no message in time") from None
            except OSError as error:
                raise ChannelClosedError(f"the channel broke: {error}") from None
            descriptors += fds
            if not part:
                raise ChannelClosedError("the other process is gone")
            data += part
        return bytes(data)


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends that belong together."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def _close_all(descriptors: Sequence[int]) -> None:
    for fd in descriptors:
        os.close(fd)
