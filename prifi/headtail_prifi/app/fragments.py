"""Messages in cells: cut at one end, put together at the other, in any order.

    cell body    message id u16 | offset u24 | total u24 | bytes

Cells of a pseudonym arrive once each, but a spoilt one is repeated later than its successors.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from headtail_prifi.app.errors import MessageTooLongError, TrafficError

HEADER_BYTES: Final = 8
MAX_MESSAGE_BYTES: Final = 2**24 - 1
MAX_OPEN_MESSAGES: Final = 64


def cut(message: bytes, message_id: int, body_bytes: int) -> Iterator[bytes]:
    """The bodies of the cells that carry a message; MessageTooLongError beyond 16 MiB."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise MessageTooLongError(f"{len(message)} bytes, at most {MAX_MESSAGE_BYTES}")
    step = body_bytes - HEADER_BYTES
    for offset in range(0, max(1, len(message)), step):
        yield _join(message_id, offset, len(message), message[offset : offset + step])


def cut_again(body: bytes, body_bytes: int) -> Iterator[bytes]:
    """The same part of a message in smaller cells. Raises TrafficError for what is no part of
    one."""
    message_id, offset, total, data = _split(body)
    if offset + len(data) > total:
        raise TrafficError(f"a piece up to byte {offset + len(data)} of {total}")
    step = body_bytes - HEADER_BYTES
    for start in range(0, max(1, len(data)), step):
        yield _join(message_id, offset + start, total, data[start : start + step])


class Assembler:
    """The messages of one pseudonym. When more than `MAX_OPEN_MESSAGES` are open, or more than
    `max_bytes` wait in them, the oldest are dropped: they cost nobody else anything."""

    def __init__(self, *, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._open: OrderedDict[int, _Partial] = OrderedDict()
        self.dropped = 0
        """How many messages were dropped unfinished."""

    def add(self, body: bytes) -> bytes | None:
        """The message that this body completes, if it does.

        Raises TrafficError, and drops the message, when the pieces do not fit together.
        """
        message_id, offset, total, data = _split(body)
        if total > self._max_bytes:
            raise TrafficError(f"a message of {total} bytes, at most {self._max_bytes}")
        partial = self._open.setdefault(message_id, _Partial(total))
        if not partial.add(offset, total, data):
            del self._open[message_id]
            self.dropped += 1
            raise TrafficError(f"pieces of message {message_id} that do not fit together")
        if partial.size == total:
            del self._open[message_id]
            return partial.join()
        self._shrink()
        return None

    def _shrink(self) -> None:
        waiting = sum(partial.size for partial in self._open.values())
        while len(self._open) > MAX_OPEN_MESSAGES or waiting > self._max_bytes:
            _, partial = self._open.popitem(last=False)
            waiting -= partial.size
            self.dropped += 1


class _Partial:
    def __init__(self, total: int) -> None:
        self._total = total
        self._pieces: dict[int, bytes] = {}
        self.size = 0

    def add(self, offset: int, total: int, data: bytes) -> bool:
        """Whether the piece fits what is here."""
        if total != self._total or offset + len(data) > total or offset in self._pieces:
            return False
        self._pieces[offset] = data
        self.size += len(data)
        return self.size < total or self._contiguous()

    def join(self) -> bytes:
        return b"".join(self._pieces[offset] for offset in sorted(self._pieces))

    def _contiguous(self) -> bool:
        at = 0
        for offset in sorted(self._pieces):
            if offset != at:
                return False
            at += len(self._pieces[offset])
        return at == self._total


def _join(message_id: int, offset: int, total: int, data: bytes) -> bytes:
    return message_id.to_bytes(2) + offset.to_bytes(3) + total.to_bytes(3) + data


def _split(body: bytes) -> tuple[int, int, int, bytes]:
    if len(body) < HEADER_BYTES:
        raise TrafficError(f"a cell of {len(body)} bytes carries no message")
    numbers = int.from_bytes(body[:2]), int.from_bytes(body[2:5]), int.from_bytes(body[5:8])
    return (*numbers, body[HEADER_BYTES:])
