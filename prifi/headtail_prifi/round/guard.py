"""A guard of the running DC-net: pads ahead of time, endorses memberships, answers in blame.

It is on nobody's critical path: the relay grants it rounds, and it sends the XOR of the streams of
all clients for them, many rounds to a frame. It knows neither what is said nor who may speak.
"""

from collections import deque
from enum import StrEnum
from typing import Final

from headtail_prifi.blame.messages import Mix, Unmask
from headtail_prifi.blame.mixing import MixGuard
from headtail_prifi.blame.witness import Witness
from headtail_prifi.core.body import decode_body, frame_of
from headtail_prifi.core.errors import FrameError, UnexpectedFrameError
from headtail_prifi.core.events import EpochOver, Event, MembershipChanged
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import (
    HEADER_BYTES,
    MAX_ROUND,
    VOUCHED,
    Buffer,
    Header,
    Kind,
    read_header,
    short_id,
)
from headtail_prifi.core.membership import unpack_clients
from headtail_prifi.core.messages import Endorse, Grant, Propose
from headtail_prifi.core.seat import RELAY, guard_seat
from headtail_prifi.crypto.cipher import PadCipher
from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.round.pads import Bytes, batch_rounds, combined
from headtail_prifi.round.segment import Segment, Segments
from headtail_prifi.round.testimony import GuardTestimony
from headtail_prifi.setup.core import Outgoing
from headtail_prifi.setup.epoch import Epoch, GuardSecrets
from headtail_prifi.setup.roster import Membership, MembershipLedger


class GuardState(StrEnum):
    """Whether a guard still serves its epoch."""

    SERVING = "serving"
    ENDED = "ended"


_KINDS: Final = (
    Kind.GRANT,
    Kind.PROPOSE,
    Kind.CASE,
    Kind.CONFLICT,
    Kind.VERDICT,
    Kind.MIX,
    Kind.UNMASK,
)
_TABLE: Final[dict[GuardState, dict[Kind, GuardState]]] = {
    GuardState.SERVING: dict.fromkeys(_KINDS, GuardState.SERVING),
    GuardState.ENDED: dict.fromkeys(_KINDS, GuardState.ENDED),
}


class GuardCore:
    """Sans-IO; frames come from the relay and go to it. Raises PeerError for what the relay must
    not ask for, and changes nothing then."""

    def __init__(
        self,
        *,
        epoch: Epoch,
        secrets: GuardSecrets,
        signing_key: SigningKey,
        cipher: PadCipher,
        entropy: Entropy,
    ) -> None:
        self._epoch = epoch
        self._guard = secrets.guard
        self._signing_key = signing_key
        self._short_id = short_id(epoch.epoch_id)
        self._geometry = Geometry.decode(epoch.parameters, clients=epoch.client_count)
        seat = guard_seat(secrets.guard)
        self._segments = Segments(epoch=epoch, seat=seat, secrets=secrets, cipher=cipher)
        self._ledger = MembershipLedger(epoch.membership, min_clients=epoch.roster.min_clients)
        self._witness = Witness(
            seat=seat,
            epoch=epoch,
            geometry=self._geometry,
            signing_key=signing_key,
            exponent=secrets.exponent,
            cipher=cipher,
            entropy=entropy,
            testimony=GuardTestimony(self._segments, self._geometry),
        )
        self._mix = MixGuard(epoch=epoch, secrets=secrets, signing_key=signing_key, entropy=entropy)
        self._outbox: deque[Outgoing] = deque()
        self._events: deque[Event] = deque()
        self.state = GuardState.SERVING

    def receive(self, frame: Buffer, now: float) -> None:
        """A frame from the relay."""
        header = read_header(frame)
        if header.epoch != self._short_id:
            raise FrameError("a frame of another epoch")
        if header.kind not in _TABLE[self.state]:
            raise UnexpectedFrameError(f"{header.kind.name} while {self.state}")
        if self.state is GuardState.ENDED:
            return
        match header.kind:
            case Kind.GRANT:
                self._on_grant(frame, header)
            case Kind.PROPOSE:
                self._on_propose(frame)
            case Kind.MIX | Kind.UNMASK:
                self._on_mix(frame, header)
            case _:
                self._on_blame(frame)

    def to_send(self, now: float) -> list[Outgoing]:
        """Frames that must leave now, in order; all go to the relay."""
        frames = list(self._outbox)
        self._outbox.clear()
        return frames

    def next_event(self) -> Event | None:
        """What happened."""
        return self._events.popleft() if self._events else None

    def next_timer(self) -> float | None:
        """A guard waits for nothing."""
        return None

    def on_timer(self, now: float) -> None:
        """Nothing to do."""

    @property
    def membership(self) -> Membership:
        """The newest membership that it endorsed."""
        return self._segments.current.membership

    def _on_grant(self, frame: Buffer, header: Header) -> None:
        grant = decode_body(Grant, memoryview(frame)[HEADER_BYTES:])
        segment = self._segments.get(header.version)
        if segment is None:
            raise UnexpectedFrameError(f"asked for pads of membership {header.version}")
        first, last = header.round, header.round + grant.count
        if last > MAX_ROUND + 1:
            raise UnexpectedFrameError(f"asked for pads of {grant.count} rounds from {first} on")
        while first < last:
            count = min(batch_rounds(self._geometry), last - first)
            self._outbox.append(Outgoing(RELAY, self._pads(segment, first, count)))
            first += count

    def _pads(self, segment: Segment, first: int, count: int) -> bytes:
        rows = self._rows(segment, first, count)
        for offset, row in enumerate(rows):
            segment.log.add(first + offset, row.data)
        return b"".join(
            (
                self._header(Kind.PADS, first, segment.membership.version, VOUCHED).encode(),
                rows.tobytes(),
                segment.log.sign(first, count, self._signing_key),
            )
        )

    def _rows(self, segment: Segment, first: int, count: int) -> Bytes:
        return combined(segment.streams, self._geometry, first, count)

    def _on_propose(self, frame: Buffer) -> None:
        propose = decode_body(Propose, memoryview(frame)[HEADER_BYTES:])
        membership = Membership(
            epoch_id=self._epoch.epoch_id,
            version=propose.version,
            clients=unpack_clients(propose.clients, self._epoch.client_count),
        )
        signature = self._ledger.endorse(membership, self._signing_key)
        if membership != self._segments.current.membership:
            self._segments.open(membership, first_round=0)
            self._events.append(MembershipChanged(membership=membership, first_round=0))
        header = self._header(Kind.ENDORSE, 0, membership.version)
        self._outbox.append(Outgoing(RELAY, frame_of(header, Endorse(signature=signature))))

    def _on_mix(self, frame: Buffer, header: Header) -> None:
        body = memoryview(frame)[HEADER_BYTES:]
        if header.kind is Kind.UNMASK:
            answer = self._mix.on_unmask(decode_body(Unmask, body))
        else:
            membership = self._segments.membership(header.version)
            if membership is None:
                raise UnexpectedFrameError(f"asked to mix under membership {header.version}")
            answer = self._mix.on_mix(decode_body(Mix, body), membership)
        self._outbox.append(Outgoing(RELAY, answer))

    def _on_blame(self, frame: Buffer) -> None:
        self._witness.receive(frame)
        while self._witness.outbox:
            self._outbox.append(Outgoing(RELAY, self._witness.outbox.popleft()))
        while self._witness.events:
            event = self._witness.events.popleft()
            self._events.append(event)
            if isinstance(event, EpochOver):
                self.state = GuardState.ENDED

    def _header(self, kind: Kind, round_: int, version: int, flags: int = 0) -> Header:
        return Header(kind, flags, self._guard, round_, self._short_id, version)

    def __repr__(self) -> str:
        return (
            f"GuardCore(guard {self._guard}, {self.state}, "
            f"membership {self.membership.version}, witness {self._witness.state})"
        )
