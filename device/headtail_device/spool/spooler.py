"""Frames that wait on disk for the edge: put there out of contact, sent when it is back.

    put -> SPOOLED, on disk -> sent -> answered                                     EDGE
                                   |-> too old                                     EXPIRED
                                   |-> room is needed for what is worth more       DROPPED
                                   `-> the edge fails it again and again, damaged  FAILED

A final outcome goes to the outputs first and to the disk then: a kill in between repeats it, under
the same spool number, and loses none.
"""

import logging
from dataclasses import dataclass
from typing import Final

from headtail_device.config import Drop
from headtail_device.decision import Decision
from headtail_device.delivery import Checkout
from headtail_device.edge_state import EdgeState
from headtail_device.head import Encoded, Head
from headtail_device.ledger import Outcome
from headtail_device.notices import Notices
from headtail_device.placement import Remote
from headtail_device.record import FrameRecord, by_edge
from headtail_device.source.frame import Frame
from headtail_device.spool.backlog import Backlog, Waiting
from headtail_device.spool.entry import SpoolEntry, from_bytes, to_bytes
from headtail_device.spool.errors import DamagedEntryError, SpoolWriteError
from headtail_device.spool.log import SpoolLog
from headtail_device.spool.record import OVERHEAD_BYTES
from headtail_fabric.clock import Clock
from headtail_fabric.errors import PeerError
from headtail_fabric.logs import fields
from headtail_fabric.peer.errors import WindowFullError
from headtail_fabric.peer.events import Answered, ClientEvent, Connected, Expired, Failed, Refused
from headtail_fabric.peer.ports import ClientPort
from headtail_fabric.wire import WireError

log = logging.getLogger(__name__)

_REST_AFTER_FAULT_S: Final = 5.0
"""A disk that is full is not asked again for each frame."""
_CLOCK_SET_UNIX: Final = 1_577_836_800.0
"""2020: machines without a clock of their own start long before."""
_LARGEST_SHARE: Final = 4
"""One entry takes at most a fourth of the spool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolSettings:
    """`drop`: what makes room in a full spool. `epoch_s`: what makes the calendar's time, in
    seconds since 1970, out of the clock's. `deadline_s`: how long the edge has for an entry."""

    way: Remote
    max_bytes: int
    max_entries: int
    drop: Drop
    deadline_s: float
    epoch_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolCount:
    """`waiting` entries take `size_bytes` on disk; `damaged` ones were found when it was opened;
    `refused` frames could not be put there, and were answered on the device."""

    waiting: int = 0
    size_bytes: int = 0
    damaged: int = 0
    refused: int = 0


NO_SPOOL: Final = SpoolCount()
"""What a device without a spool has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    request_id: int
    waiting: Waiting
    entry: SpoolEntry


class Spooler:
    """The spool of one bundle's device."""

    def __init__(
        self,
        *,
        spool: SpoolLog,
        backlog: Backlog,
        port: ClientPort,
        head: Head,
        checkout: Checkout,
        clock: Clock,
        settings: SpoolSettings,
    ) -> None:
        """Takes over what earlier runs left."""
        self._spool = spool
        self._backlog = backlog
        self._port = port
        self._head = head
        self._checkout = checkout
        self._clock = clock
        self._settings = settings
        self._notices = Notices()
        self._sent: _Sent | None = None
        self._refused = 0
        self._held = False
        self._closed_until = float("-inf")
        self._take_over()

    def __repr__(self) -> str:
        return f"<Spooler {self._spool!r} {self._backlog!r}>"

    @property
    def way(self) -> Remote:
        """How frames are encoded that will be sent some day."""
        return self._settings.way

    @property
    def count(self) -> SpoolCount:
        return SpoolCount(
            waiting=len(self._spool),
            size_bytes=self._spool.size_bytes,
            damaged=self._spool.damaged,
            refused=self._refused,
        )

    @property
    def in_flight(self) -> int:
        """Entries at the edge."""
        return 0 if self._sent is None else 1

    @property
    def hopeful(self) -> bool:
        """Whether an edge that is there would probably take something."""
        return self._sent is not None or self._backlog.hopeful

    def admits(self) -> bool:
        """Whether a frame would probably be taken now; one that is not counts as refused."""
        if self._clock.now() >= self._closed_until:
            return True
        self._refused += 1
        return False

    def put(
        self,
        frame: Frame,
        way: Remote,
        encoded: Encoded,
        reason: str,
        *,
        decision: Decision | None = None,
    ) -> bool:
        """Take a frame, which then is SPOOLED; False when it must be answered in another way."""
        captured_unix = frame.captured_at + self._settings.epoch_s
        entry = SpoolEntry.of(
            frame, way, encoded, bundle=self._head.digest, captured_unix=captured_unix
        )
        level = entry.level if self._settings.drop == "surest" else 0
        body = to_bytes(entry)
        if not self.admits():
            return False
        if not self._make_room(len(body) + OVERHEAD_BYTES, level):
            self._refused += 1
            return False
        try:
            number = self._spool.append(body, level=level)
        except SpoolWriteError as error:
            self._refused += 1
            self._closed_until = self._clock.now() + _REST_AFTER_FAULT_S
            self._notices.tell("write", "frames can't be spooled", error=error)
            return False
        self._backlog.add(
            Waiting(
                number=number,
                index=frame.index,
                origin=frame.origin,
                captured_at=frame.captured_at,
            )
        )
        record = FrameRecord(
            index=frame.index,
            origin=frame.origin,
            outcome=Outcome.SPOOLED,
            captured_at=frame.captured_at,
            decision=decision,
            cut=way.cut,
            macs=encoded.macs,
            verdicts=encoded.verdicts,
            reason=reason,
            spool=_key(number),
        )
        self._checkout.leave(record, frame.picture)
        return True

    def hold(self) -> None:
        """Send nothing more."""
        self._held = True

    def live_frame(self) -> None:
        """A frame of the source is on its way."""
        self._backlog.live_frame(self._clock.now())

    def due_in_s(self, edge: EdgeState, *, live_in_flight: int) -> float | None:
        """How long until `work` has something to send, None when not before an event."""
        if not self._has_room(edge, live_in_flight):
            return None
        now, due_in_s = self._clock.now(), self._backlog.due_in_s(self._clock.now())
        return None if due_in_s is None else max(due_in_s, edge.retry_in_s(now))

    def work(self, edge: EdgeState, *, live_in_flight: int) -> None:
        """End what is too old; send an entry if live frames leave room for it."""
        now = self._clock.now()
        for waiting in self._backlog.expired(now):
            self._end(waiting, Outcome.EXPIRED, "it waited too long for the edge")
        if self._has_room(edge, live_in_flight) and edge.retry_in_s(now) <= 0:
            chosen = self._backlog.next(now)
            if chosen is not None:
                self._send(chosen)

    def on_event(self, event: ClientEvent, edge: EdgeState) -> bool:
        """Follow what the port tells; whether it was about an entry, and so about no live frame.
        `edge` has followed it already."""
        match event:
            case Connected():
                self._notices.renew()
                self._backlog.welcome()
                return False
            case Answered() | Refused() | Failed() | Expired():
                sent = self._sent
                if sent is None or sent.request_id != event.id:
                    return False
                self._sent = None
                if isinstance(event, Failed) and not edge.ready:
                    self._backlog.recall()
                else:
                    self._returned(sent, event)
                return True
            case _:
                return False

    def recall(self) -> None:
        """The edge is gone, or this run ends: what is there waits again."""
        if self._sent is not None:
            self._port.cancel(self._sent.request_id)
            self._sent = None
            self._backlog.recall()

    def close(self) -> None:
        """Leave the disk in order."""
        self._spool.close()

    def _take_over(self) -> None:
        now, found = self._clock.now(), []
        damaged = self._spool.damaged
        for number in self._spool:
            try:
                entry = from_bytes(self._spool.read(number))
            except DamagedEntryError:
                damaged += 1
                self._spool.end(number)
                continue
            found.append(
                Waiting(
                    number=number,
                    index=entry.index,
                    origin=entry.origin,
                    captured_at=self._captured_at(entry, now),
                    sendable=entry.bundle == self._head.digest,
                    inherited=True,
                )
            )
        for waiting in sorted(found, key=lambda one: one.captured_at):
            self._backlog.add(waiting)
        self._checkout.inherit(len(found))
        if found or damaged:
            tell = log.error if damaged else log.info
            tell("spool opened", extra=fields(waiting=len(found), damaged=damaged))

    def _has_room(self, edge: EdgeState, live_in_flight: int) -> bool:
        """Whether the edge would take an entry, and the next live frame beside it."""
        return (
            not self._held
            and edge.ready
            and self._port.free_window() > (1 if live_in_flight else 0)
        )

    def _captured_at(self, entry: SpoolEntry, now: float) -> float:
        """On this run's clock. A calendar that was set back makes no entry younger than new, and
        one that was not set yet makes none older."""
        if entry.captured_unix < _CLOCK_SET_UNIX:
            return now
        return min(now, entry.captured_unix - self._settings.epoch_s)

    def _make_room(self, size_bytes: int, level: int) -> bool:
        settings = self._settings
        if size_bytes > settings.max_bytes // _LARGEST_SHARE:
            self._notices.tell("large", "a frame is too large for the spool", size_bytes=size_bytes)
            return False
        while (
            self._spool.size_bytes + size_bytes > settings.max_bytes
            or len(self._spool) >= settings.max_entries
        ):
            numbers = self._spool.victims(level=level)
            if not numbers:
                self._notices.tell("full", "the spool is full of frames that are worth more")
                return False
            for number in numbers:
                self._end(self._backlog[number], Outcome.DROPPED, "the spool was full")
        return True

    def _send(self, waiting: Waiting) -> None:
        try:
            entry = from_bytes(self._spool.read(waiting.number))
        except DamagedEntryError as error:
            self._end(waiting, Outcome.FAILED, error.message)
            return
        try:
            request_id = self._port.submit(
                bundle=entry.bundle,
                cut=entry.cut,
                tensors=entry.tensors,
                payloads=entry.payloads,
                deadline_s=self._settings.deadline_s,
            )
        except WindowFullError:
            return
        except WireError as error:
            self._end(waiting, Outcome.FAILED, f"it can't be sent: {error}")
            return
        self._backlog.sent(waiting.number, self._clock.now())
        self._sent = _Sent(request_id=request_id, waiting=waiting, entry=entry)

    def _returned(self, sent: _Sent, event: Answered | Refused | Failed | Expired) -> None:
        now = self._clock.now()
        match event:
            case Answered():
                self._answered(sent, event)
            case Refused():
                self._backlog.set_back(now, wait_s=event.retry_after_s)
            case Failed():
                self._failed(sent, f"the edge failed it: {event.message}")
            case Expired():
                self._backlog.set_back(now)

    def _answered(self, sent: _Sent, event: Answered) -> None:
        entry = sent.entry
        try:
            answer = self._head.decode(event.tensors, event.payloads, entry.geometry)
        except PeerError as error:
            self._failed(sent, f"the edge's answer: {error}")
            return
        record = FrameRecord(
            index=entry.index,
            origin=entry.origin,
            outcome=Outcome.EDGE,
            captured_at=sent.waiting.captured_at,
            cut=entry.cut,
            codec=entry.codec,
            payload_bytes=entry.payload_bytes,
            spool=_key(sent.waiting.number),
            late=True,
            inherited=sent.waiting.inherited,
        )
        now = self._clock.now()
        self._conclude(
            sent.waiting, by_edge(record, event, head_s=entry.head_s, answer=answer, now=now)
        )

    def _failed(self, sent: _Sent, reason: str) -> None:
        if self._backlog.refused(sent.waiting.number):
            self._end(sent.waiting, Outcome.FAILED, reason)
            return
        self._notices.tell("failed", "the edge failed a spooled frame", reason=reason)
        self._backlog.set_back(self._clock.now())

    def _end(self, waiting: Waiting, outcome: Outcome, reason: str) -> None:
        if self._sent is not None and self._sent.waiting is waiting:
            self.recall()
        record = FrameRecord(
            index=waiting.index,
            origin=waiting.origin,
            outcome=outcome,
            captured_at=waiting.captured_at,
            reason=reason,
            spool=_key(waiting.number),
            late=True,
            inherited=waiting.inherited,
        )
        self._conclude(waiting, record)

    def _conclude(self, waiting: Waiting, record: FrameRecord) -> None:
        self._checkout.conclude(record)
        self._spool.end(waiting.number)
        self._backlog.gone(waiting.number, self._clock.now())


def _key(number: int) -> str:
    """A number as it is told: the opening and the count."""
    return f"{number >> 32:08x}-{number & 0xFFFFFFFF}"
