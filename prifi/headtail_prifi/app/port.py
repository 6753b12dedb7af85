"""A program's way into the DC-net: anonymous datagrams with replies, and streams.

    core event -> on_event -> traffic event          send / open / write / close -> cells

It sits on a client's core (or succession of cores) and does no more than translate: who is heard
when is the scheduler's business, and each pseudonym gets its fair share.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, Protocol

from headtail_prifi.app.errors import StreamClosedError, TrafficError
from headtail_prifi.app.events import ClientTraffic, Replied, Sent, StreamRead
from headtail_prifi.app.fragments import HEADER_BYTES, cut, cut_again
from headtail_prifi.app.stream import SECRET_BYTES, StreamEnd
from headtail_prifi.app.wire import LAST, Part, Tag, read_part
from headtail_prifi.core.events import CellDelivered, CellReturned, DataReceived, Event
from headtail_prifi.crypto.cipher import PadCipher
from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.errors import SealError
from headtail_prifi.crypto.group import Group, Point
from headtail_prifi.crypto.seal import ReplyKey, seal

MAX_AWAITED_REPLIES: Final = 1024
MAX_STREAMS: Final = 256
MAX_REPLY_BYTES: Final = 2**24
CONTEXT: Final = b"prifi/exit"


class CellSender(Protocol):
    """What a port needs of a client's core."""

    @property
    def body_bytes(self) -> int:
        """What one cell can carry."""
        ...

    def send(self, body: bytes) -> int:
        """Queue one cell; returns the id of its `CellDelivered`."""
        ...


class _Awaited:
    """A datagram whose replies are still wanted."""

    def __init__(self, message: int, key: ReplyKey) -> None:
        self.message = message
        self.key = key
        self.number = 0
        self.parts: list[bytes] = []


class Port:
    """Everything is sealed to one exit's key. Not safe for several threads."""

    def __init__(
        self, *, group: Group, exit_key: Point, cipher: PadCipher, entropy: Entropy
    ) -> None:
        self._group = group
        self._exit_key = exit_key
        self._cipher = cipher
        self._entropy = entropy
        self._messages = 0
        self._cells: dict[int, int] = {}
        self._pending: dict[int, int] = {}
        self._awaited: OrderedDict[bytes, _Awaited] = OrderedDict()
        self._streams: dict[bytes, StreamEnd] = {}

    # -- saying -------------------------------------------------------------------------------

    def send(self, core: CellSender, payload: bytes) -> int:
        """Send a datagram; returns its id, which `Sent` and `Replied` repeat.

        Replies to the last `MAX_AWAITED_REPLIES` datagrams are recognised. Raises
        MessageTooLongError, or BacklogFullError when the core's queue is full.
        """
        sealed, key = seal(
            self._group,
            self._cipher,
            self._exit_key,
            payload,
            context=CONTEXT,
            entropy=self._entropy,
        )
        message = self._say(core, bytes([Tag.DATAGRAM]) + sealed)
        self._awaited[key.label] = _Awaited(message, key)
        if len(self._awaited) > MAX_AWAITED_REPLIES:
            self._awaited.popitem(last=False)
        return message

    def open(self, core: CellSender) -> bytes:
        """Open a stream to the exit; returns its label, which the calls and events below take."""
        if len(self._streams) >= MAX_STREAMS:
            raise StreamClosedError(f"{MAX_STREAMS} streams are open already")
        secret = self._entropy.bytes(SECRET_BYTES)
        sealed, _ = seal(
            self._group,
            self._cipher,
            self._exit_key,
            secret,
            context=CONTEXT,
            entropy=self._entropy,
        )
        stream = StreamEnd(secret, self._cipher, opener=True)
        self._streams[stream.label] = stream
        self._say(core, bytes([Tag.OPEN]) + sealed)
        return stream.label

    def write(self, core: CellSender, label: bytes, data: bytes, *, last: bool = False) -> None:
        """Send bytes in a stream, cell by cell; `last` closes it for writing.

        Raises StreamClosedError when it is not open.
        """
        stream = self._stream(label)
        room = core.body_bytes - HEADER_BYTES
        for segment in stream.write(data, segment_bytes=room, last=last):
            self._say(core, segment)
        self._forget_if_done(stream)

    def _stream(self, label: bytes) -> StreamEnd:
        stream = self._streams.get(label)
        if stream is None:
            raise StreamClosedError("a stream that is not open")
        return stream

    def _say(self, core: CellSender, message: bytes) -> int:
        self._messages += 1
        self._queue(core, self._messages, cut(message, self._messages & 0xFFFF, core.body_bytes))
        return self._messages

    def _queue(self, core: CellSender, message: int, bodies: Iterable[bytes]) -> None:
        for body in bodies:
            self._cells[core.send(body)] = message
            self._pending[message] = self._pending.get(message, 0) + 1

    # -- hearing ------------------------------------------------------------------------------

    def on_event(self, core: CellSender, event: Event) -> ClientTraffic | None:
        """What an event of the core means for this program, if anything.

        Raises TrafficError when the exit sent something that does not open.
        """
        match event:
            case CellDelivered():
                return self._on_delivered(event.id)
            case CellReturned():
                message = self._cells.pop(event.id)
                self._pending[message] -= 1
                self._queue(core, message, cut_again(event.body, core.body_bytes))
            case DataReceived():
                return self._on_data(event.data)
        return None

    def _on_delivered(self, cell: int) -> Sent | None:
        message = self._cells.pop(cell)
        self._pending[message] -= 1
        if self._pending[message]:
            return None
        del self._pending[message]
        return Sent(id=message)

    def _on_data(self, data: bytes) -> ClientTraffic | None:
        part = read_part(data)
        if part.tag is Tag.REPLY:
            return self._on_reply(part)
        stream = self._streams.get(part.label)
        if stream is None:
            return None
        read = stream.read(part)
        self._forget_if_done(stream)
        return StreamRead(label=part.label, data=read, ended=stream.received_all)

    def _on_reply(self, part: Part) -> Replied | None:
        awaited = self._awaited.get(part.label)
        if awaited is None:
            return None
        if part.number != awaited.number:
            raise TrafficError(f"part {part.number} of a reply, {awaited.number} is awaited")
        try:
            opened = awaited.key.open(part.number, part.sealed)
        except SealError as error:
            raise TrafficError(error.message) from None
        if opened[:1] != bytes([part.flags]):
            raise TrafficError("a reply whose flags were changed on the way")
        awaited.number += 1
        awaited.parts.append(opened[1:])
        if sum(map(len, awaited.parts)) > MAX_REPLY_BYTES:
            del self._awaited[part.label]
            raise TrafficError(f"a reply of more than {MAX_REPLY_BYTES} bytes")
        if not part.flags & LAST:
            return None
        payload = b"".join(awaited.parts)
        awaited.parts.clear()
        return Replied(id=awaited.message, payload=payload)

    def _forget_if_done(self, stream: StreamEnd) -> None:
        if stream.sent_all and stream.received_all:
            self._streams.pop(stream.label, None)
