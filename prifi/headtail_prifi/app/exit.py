"""The other end of anonymous traffic: where pseudonyms' messages are put together and opened.

It may sit beside the relay or elsewhere: it gets the relay's `CellArrived` events, and gives back
items for `RelayCore.broadcast`. It learns what was said, by which pseudonym, and not by whom; a
relay that is not the exit learns only how much.
"""

from collections import OrderedDict
from typing import Final

from headtail_prifi.app.errors import StreamClosedError, TrafficError
from headtail_prifi.app.events import Asked, ExitTraffic, Request, StreamOpened, StreamRead
from headtail_prifi.app.fragments import Assembler
from headtail_prifi.app.port import CONTEXT
from headtail_prifi.app.stream import SECRET_BYTES, StreamEnd
from headtail_prifi.app.wire import LAST, PART_OVERHEAD, Part, Tag, read_part, read_tag
from headtail_prifi.crypto.cipher import PadCipher
from headtail_prifi.crypto.errors import SealError
from headtail_prifi.crypto.group import Group
from headtail_prifi.crypto.seal import ReplyKey, open_sealed

MAX_SEEN: Final = 65_536
MAX_SLOT_STREAMS: Final = 64


class Exit:
    """Everything of a slot that breaks a rule is dropped and raised as TrafficError; it costs no
    other slot anything."""

    def __init__(
        self,
        *,
        group: Group,
        secret: int,
        cipher: PadCipher,
        item_bytes: int,
        max_message_bytes: int = 4 * 1024 * 1024,
    ) -> None:
        self._group = group
        self._secret = secret
        self._cipher = cipher
        self._item_bytes = item_bytes
        self._max_message_bytes = max_message_bytes
        self._assemblers: dict[int, Assembler] = {}
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._streams: dict[bytes, tuple[int, StreamEnd]] = {}
        self._early: dict[int, OrderedDict[bytes, list[Part]]] = {}

    def on_cell(self, slot: int, body: bytes) -> list[ExitTraffic]:
        """What a cell of a pseudonym brings: nothing, while its message is not complete."""
        assembler = self._assemblers.get(slot)
        if assembler is None:
            assembler = self._assemblers[slot] = Assembler(max_bytes=self._max_message_bytes)
        message = assembler.add(body)
        if message is None:
            return []
        match read_tag(message):
            case Tag.DATAGRAM:
                payload, key = self._open(message[1:])
                return [Asked(slot=slot, payload=payload, request=Request(key=key))]
            case Tag.OPEN:
                return self._on_open(slot, message[1:])
            case Tag.SEGMENT:
                return self._on_segment(slot, read_part(message))
            case tag:
                raise TrafficError(f"a pseudonym sent a {tag.name.lower()}")

    def reply(self, request: Request, payload: bytes) -> list[bytes]:
        """Items to broadcast that answer a datagram; only its sender can read them."""
        room = self._item_bytes - PART_OVERHEAD - 1
        starts = range(0, max(1, len(payload)), room)
        items = []
        for start in starts:
            flags = LAST if start == starts[-1] else 0
            sealed = request.key.seal(request.used, bytes([flags]) + payload[start : start + room])
            part = Part(Tag.REPLY, request.key.label, request.used, flags, sealed)
            items.append(part.encode())
            request.used += 1
        return items

    def write(self, label: bytes, data: bytes, *, last: bool = False) -> list[bytes]:
        """Items to broadcast that carry bytes of a stream; StreamClosedError if it is not open."""
        if label not in self._streams:
            raise StreamClosedError("a stream that is not open")
        _, stream = self._streams[label]
        segments = stream.write(data, segment_bytes=self._item_bytes, last=last)
        self._forget_if_done(stream)
        return segments

    def _open(self, sealed: bytes) -> tuple[bytes, ReplyKey]:
        """Open a message, and refuse one that came before (a pseudonym may have copied it)."""
        try:
            payload, key = open_sealed(
                self._group, self._cipher, self._secret, sealed, context=CONTEXT
            )
        except SealError as error:
            raise TrafficError(error.message) from None
        if key.label in self._seen:
            raise TrafficError("a message that was sent before")
        self._seen[key.label] = None
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        return payload, key

    def _on_open(self, slot: int, sealed: bytes) -> list[ExitTraffic]:
        secret, _ = self._open(sealed)
        owned = sum(owner == slot for owner, _ in self._streams.values())
        if len(secret) != SECRET_BYTES or owned >= MAX_SLOT_STREAMS:
            raise TrafficError("a stream that can't be opened")
        stream = StreamEnd(secret, self._cipher, opener=False)
        self._streams[stream.label] = (slot, stream)
        traffic: list[ExitTraffic] = [StreamOpened(slot=slot, label=stream.label)]
        early = self._early.setdefault(slot, OrderedDict())
        for part in early.pop(stream.label, []):
            traffic += self._read(stream, part)
        return traffic

    def _on_segment(self, slot: int, part: Part) -> list[ExitTraffic]:
        known = self._streams.get(part.label)
        if known is None:
            self._keep_early(slot, part)
            return []
        owner, stream = known
        if owner != slot:
            raise TrafficError("a segment of another pseudonym's stream")
        return self._read(stream, part)

    def _keep_early(self, slot: int, part: Part) -> None:
        """A segment may overtake the message that opens its stream, when that one was spoilt."""
        waiting = self._early.setdefault(slot, OrderedDict())
        waiting.setdefault(part.label, []).append(part)
        if sum(map(len, waiting.values())) > MAX_SLOT_STREAMS:
            waiting.popitem(last=False)

    def _read(self, stream: StreamEnd, part: Part) -> list[ExitTraffic]:
        data = stream.read(part)
        ended = stream.received_all
        self._forget_if_done(stream)
        return [StreamRead(label=part.label, data=data, ended=ended)] if data or ended else []

    def _forget_if_done(self, stream: StreamEnd) -> None:
        if stream.sent_all and stream.received_all:
            self._streams.pop(stream.label, None)
