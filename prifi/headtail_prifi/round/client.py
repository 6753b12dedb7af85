"""A client of the running DC-net.

The life of a round here: a downstream frame arrives in order, is hashed into the history, and is
answered at once with the XOR of the pads, the locked lanes and, in its own sub-slots, its own
sealed cell. Everything that depends on whether a sub-slot was its own (confirming, accusing,
sealing what comes next) waits until the answer has left: call `to_send` after `receive`, then
`next_event`. The module is longer than most, for a reader should see all that a client does with a
frame in one place.
"""

from collections import deque
from enum import StrEnum
from typing import Final

from headtail_prifi.blame.accusation import Accusation
from headtail_prifi.blame.evidence import TwoHistories, encode_evidence
from headtail_prifi.blame.judge import Charge
from headtail_prifi.blame.messages import Call, Vouched
from headtail_prifi.blame.mixing import NOTHING, MixClient
from headtail_prifi.blame.watch import Watch
from headtail_prifi.blame.witness import Witness
from headtail_prifi.core.body import Body, decode_body, frame_of, split_signed
from headtail_prifi.core.errors import FrameError, StateError, UnexpectedFrameError
from headtail_prifi.core.events import (
    CellDelivered,
    CellReturned,
    DataReceived,
    EpochOver,
    Event,
    MembershipChanged,
    VerdictReached,
)
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import (
    HEADER_BYTES,
    VOUCHED,
    Buffer,
    Header,
    Kind,
    read_header,
    short_id,
)
from headtail_prifi.core.membership import check_certificate
from headtail_prifi.core.messages import Down, Leave, Nack
from headtail_prifi.core.seat import RELAY, client_seat
from headtail_prifi.crypto.cipher import PadCipher
from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.round.cell import CellKind
from headtail_prifi.round.chain import Chain, Offer
from headtail_prifi.round.composer import Composer
from headtail_prifi.round.downstream import GapWatch, read_down
from headtail_prifi.round.history import HistoryStatement
from headtail_prifi.round.lock import Lock
from headtail_prifi.round.options import ClientOptions, retained_rounds
from headtail_prifi.round.outbound import Item, Outbound
from headtail_prifi.round.pads import PadBank
from headtail_prifi.round.schedule import decode_owners
from headtail_prifi.round.segment import Segments
from headtail_prifi.round.testimony import ClientTestimony
from headtail_prifi.round.voucher import closes_window, window_start
from headtail_prifi.setup.core import Outgoing
from headtail_prifi.setup.epoch import ClientSecrets, Epoch
from headtail_prifi.setup.roster import Membership


class ClientState(StrEnum):
    """Whether a client speaks."""

    SPEAKING = "speaking"
    RETIRED = "retired"
    ENDED = "ended"


class _Milestone(StrEnum):
    LAST_ROUND = "last round answered"
    STOPPED = "stopped"


_KINDS: Final = (Kind.DOWN, Kind.VOUCH, Kind.CALL, Kind.CASE, Kind.CONFLICT, Kind.VERDICT)
_TABLE: Final[dict[ClientState, dict[Kind | _Milestone, ClientState]]] = {
    ClientState.SPEAKING: {
        **dict.fromkeys(_KINDS, ClientState.SPEAKING),
        _Milestone.LAST_ROUND: ClientState.RETIRED,
        _Milestone.STOPPED: ClientState.ENDED,
    },
    ClientState.RETIRED: {
        **dict.fromkeys(_KINDS, ClientState.RETIRED),
        _Milestone.STOPPED: ClientState.ENDED,
    },
    ClientState.ENDED: dict.fromkeys(_KINDS, ClientState.ENDED),
}


class ClientCore:
    """Sans-IO; frames come from the relay and go to it. Raises PeerError for what the relay must
    not send, and changes nothing then; StateError when told to speak in an epoch that is over."""

    def __init__(
        self,
        *,
        epoch: Epoch,
        secrets: ClientSecrets,
        signing_key: SigningKey,
        cipher: PadCipher,
        entropy: Entropy,
        options: ClientOptions | None = None,
    ) -> None:
        self._epoch = epoch
        self._secrets = secrets
        self._signing_key = signing_key
        self._entropy = entropy
        self._options = options or ClientOptions()
        self._short_id = short_id(epoch.epoch_id)
        self._geometry = Geometry.decode(epoch.parameters, clients=epoch.client_count)
        self._seat = client_seat(secrets.client)
        retain = retained_rounds(epoch.client_count)
        self._segments = Segments(epoch=epoch, seat=self._seat, secrets=secrets, cipher=cipher)
        self._bank = PadBank(self._segments.current.streams, self._geometry, 0)
        self._chain = Chain(
            epoch_id=epoch.epoch_id,
            relay_key=epoch.roster.relay.verify_key,
            retain=retain,
            verify_every=self._options.verify_every,
        )
        self._outbound = Outbound(
            geometry=self._geometry,
            cipher=cipher,
            entropy=entropy,
            max_waiting=self._options.max_waiting,
            retain=retain,
        )
        self._composer = Composer(
            geometry=self._geometry, slot=secrets.slot, outbound=self._outbound
        )
        self._watch = Watch(
            epoch=epoch,
            geometry=self._geometry,
            slot=secrets.slot,
            secret=secrets.pseudonym,
            chain=self._chain,
            entropy=entropy,
        )
        self._sent: dict[int, bytes] = {}
        """The answers to rounds that may be open at the relay."""
        self._witness = Witness(
            seat=self._seat,
            epoch=epoch,
            geometry=self._geometry,
            signing_key=signing_key,
            exponent=secrets.exponent,
            cipher=cipher,
            entropy=entropy,
            testimony=ClientTestimony(
                segments=self._segments,
                chain=self._chain,
                composer=self._composer,
                outbound=self._outbound,
                geometry=self._geometry,
            ),
        )
        self._accusation = NOTHING
        self._mix = MixClient(
            epoch=epoch, client=secrets.client, signing_key=signing_key, entropy=entropy
        )
        self._outbox: deque[Outgoing] = deque()
        self._events: deque[Event] = deque()
        self._unsettled: tuple[int, int, Down] | None = None
        self._permit = 1
        self._gaps = GapWatch(self._chain, self._options.nack_s)
        self.state = ClientState.SPEAKING

    # -- for the program around it ------------------------------------------------------------

    def send(self, body: bytes) -> int:
        """Queue the body of one cell (at most `body_bytes`); returns the id of its `CellDelivered`.

        Raises BacklogFullError when too many wait, StateError when the epoch is over.
        """
        if self.state is not ClientState.SPEAKING:
            raise StateError(f"nothing can be said in an epoch that is {self.state}")
        if len(body) > self.body_bytes:
            raise ValueError(f"a body of {len(body)} bytes, a cell holds {self.body_bytes}")
        self._settle()
        return self._outbound.add(CellKind.DATA, body)

    @property
    def body_bytes(self) -> int:
        """What one cell can carry."""
        return self._geometry.body_bytes

    @property
    def waiting(self) -> int:
        """How many cells are queued and not yet sent."""
        return self._outbound.stock

    def drain(self) -> list[Item]:
        """Everything that is not known to have arrived, oldest first, for the next epoch."""
        self._settle()
        return self._outbound.drain()

    def adopt(self, items: list[Item]) -> None:
        """Take over what another epoch left (`drain`), in front of all else; ids stay the same.

        What does not fit into this epoch's cells comes back as `CellReturned`.
        """
        fitting = [item for item in items if len(item.body) <= self.body_bytes]
        self._outbound.adopt(fitting)
        self._events.extend(
            CellReturned(id=item.id, body=item.body)
            for item in items
            if len(item.body) > self.body_bytes
        )

    def leave(self) -> None:
        """Ask to be left out of the next membership; `EpochOver` follows."""
        self._send(Kind.LEAVE, self._chain.next_round, Leave())

    @property
    def membership(self) -> Membership:
        """The clients that take part now: the anonymity set."""
        return self._segments.current.membership

    @property
    def next_round(self) -> int:
        """The round that this client waits for."""
        return self._chain.next_round

    def history(self, round_: int) -> HistoryStatement | None:
        """The relay's signed word for what it broadcast up to a round, to be compared with that of
        other clients (`blame.evidence.TwoHistories`); None when too old or still to come."""
        return self._chain.statement(round_)

    # -- sans-IO ------------------------------------------------------------------------------

    def receive(self, frame: Buffer, now: float) -> None:
        """A frame from the relay."""
        header = read_header(frame)
        if header.epoch != self._short_id:
            raise FrameError("a frame of another epoch")
        if header.kind not in _TABLE[self.state]:
            raise UnexpectedFrameError(f"{header.kind.name} while {self.state}")
        if self.state is ClientState.ENDED:
            return
        self._settle()
        match header.kind:
            case Kind.DOWN:
                self._on_down(frame, header, now)
            case Kind.VOUCH:
                self._on_vouch(header)
            case Kind.CALL:
                self._on_call(frame, header)
            case _:
                self._on_blame(frame)

    def to_send(self, now: float) -> list[Outgoing]:
        """Frames that must leave now, in order; all go to the relay."""
        frames = list(self._outbox)
        self._outbox.clear()
        return frames

    def next_event(self) -> Event | None:
        """What happened; call it after `to_send`."""
        self._settle()
        return self._events.popleft() if self._events else None

    def next_timer(self) -> float | None:
        """When `on_timer` wants to be called, if at all."""
        return self._gaps.due_at

    def on_timer(self, now: float) -> None:
        """Ask again for a frame that is missing."""
        self._ask_for_missing(now)

    # -- rounds -------------------------------------------------------------------------------

    def _on_down(self, frame: Buffer, header: Header, now: float) -> None:
        match self._chain.offer(header.round, frame):
            case Offer.NEXT:
                self._advance(frame, header)
                while self._chain.waits and (held := self._chain.held()) is not None:
                    self._settle()
                    self._advance(held, read_header(held))
            case Offer.REPEATED:
                if header.round in self._sent:
                    self._outbox.append(Outgoing(RELAY, self._sent[header.round]))
            case Offer.DIFFERENT:
                self._on_difference(frame, header)
        if self._chain.waits or self._gaps.due_at is not None:
            self._ask_for_missing(now)

    def _advance(self, frame: Buffer, header: Header) -> None:
        if self.state is not ClientState.SPEAKING:
            raise UnexpectedFrameError(f"round {header.round} while {self.state}")
        signed, signature = split_signed(frame)
        down = read_down(signed, self._geometry)
        membership = self._segments.current.membership
        if down.certificate is not None:
            membership = check_certificate(down.certificate, self._epoch, membership)
        if header.version != membership.version:
            raise FrameError(f"round {header.round} under membership {header.version}")
        try:
            link = self._chain.extend(signed, signature)
        except SignatureError as error:
            self._stop(f"the relay broke its history: {error.message}")
            return
        if down.certificate is not None:
            self._change(membership, header.round)
            if self._secrets.client not in membership.clients:
                self._read_reports(header.round, down)
                self._stop("this client is in no further membership")
                return
        self._answer(header, down, link)

    def _answer(self, opened: Header, down: Down, link: bytes) -> None:
        round_ = opened.round
        log = self._segments.current.log
        header = Header(
            Kind.UP,
            VOUCHED if closes_window(round_) else 0,
            self._secrets.client,
            round_,
            self._short_id,
            opened.version,
        )
        frame, bit = self._composer.compose(
            header, self._bank.take(round_), Lock(link), decode_owners(down.owners), self._permit
        )
        log.add(round_, memoryview(frame)[HEADER_BYTES:])
        if header.flags:
            frame += self._voucher(round_)
        self._sent[round_] = frame
        self._sent.pop(round_ - 2 * self._geometry.window, None)
        self._outbox.append(Outgoing(RELAY, frame))
        self._unsettled = (round_, bit, down)
        if down.retirement is not None and round_ >= down.retirement.last_round:
            self.state = _TABLE[self.state][_Milestone.LAST_ROUND]

    def _settle(self) -> None:
        """All that an answer must not wait for."""
        if self._unsettled is None:
            return
        round_, bit, down = self._unsettled
        self._unsettled = None
        self._outbound.settle(round_, bit)
        self._watch.reserved(round_, bit)
        self._bank.prepare(round_)
        self._read_reports(round_, down)
        if down.certificate is not None:
            self._outbound.abandon(round_)
        if down.disclosure is not None:
            version = self._segments.current.membership.version
            accusation = self._watch.on_disclosure(round_, down.disclosure, version)
            if accusation is not None:
                self._accuse(accusation)
        self._permit = self._entropy.bytes(1)[0] & 1 if self._watch.probing else 1
        for data in down.data:
            self._events.append(DataReceived(round=round_, data=data))
        if self.state is ClientState.RETIRED and down.retirement is not None:
            self._events.append(EpochOver(reason="succeeded", successor=down.retirement.successor))

    def _read_reports(self, round_: int, down: Down) -> None:
        version = self._segments.current.membership.version
        for report in down.reports:
            arrived, spoilt = self._outbound.confirm(report)
            for item_id in arrived:
                self._events.append(CellDelivered(id=item_id))
            for one in spoilt:
                self._watch.spoilt(one)
            accusation = self._watch.on_reservations(
                round_, report.round, report.reservations, version
            )
            if accusation is not None:
                self._accuse(accusation)

    def _accuse(self, accusation: Accusation) -> None:
        if not self._outbound.accusing:
            self._accusation = accusation.pack()
            self._outbound.add(CellKind.ACCUSATION, self._accusation)

    def _change(self, membership: Membership, first_round: int) -> None:
        self._watch.forget()
        self._accusation = NOTHING
        if self._secrets.client in membership.clients:
            segment = self._segments.open(membership, first_round=first_round)
            self._bank = PadBank(segment.streams, self._geometry, first_round)
        self._events.append(MembershipChanged(membership=membership, first_round=first_round))

    def _on_difference(self, frame: Buffer, header: Header) -> None:
        other = self._chain.differing(header.round, frame)
        if other is None:
            raise FrameError(f"another frame of round {header.round}, not signed by the relay")
        own = self._chain.statement(header.round)
        if own is not None:
            self._events.append(
                VerdictReached(
                    culprit=RELAY,
                    slot=None,
                    charge=Charge.EQUIVOCATED,
                    evidence=encode_evidence(TwoHistories.of(own, other)),
                )
            )
        self._stop("the relay signed two histories")

    def _ask_for_missing(self, now: float) -> None:
        gap = self._gaps.look(now)
        if gap is not None:
            self._send(Kind.NACK, gap[0], Nack(count=gap[1]))

    # -- blame --------------------------------------------------------------------------------

    def _on_vouch(self, header: Header) -> None:
        if header.version != self.membership.version:
            return  # a new membership overtook it: there will be no case
        try:
            voucher = self._voucher(header.round)
        except KeyError:
            raise UnexpectedFrameError(f"asked to vouch for round {header.round}") from None
        self._send(Kind.VOUCHED, header.round, Vouched(voucher=voucher))

    def _voucher(self, round_: int) -> bytes:
        log = self._segments.current.log
        first = window_start(round_, log.first_round)
        return log.sign(first, round_ - first + 1, self._signing_key)

    def _on_call(self, frame: Buffer, header: Header) -> None:
        if header.version != self.membership.version:
            return
        call = decode_body(Call, memoryview(frame)[HEADER_BYTES:])
        submission = self._mix.on_call(call, self.membership, self._accusation)
        self._outbox.append(Outgoing(RELAY, submission))

    def _on_blame(self, frame: Buffer) -> None:
        self._witness.receive(frame)
        while self._witness.outbox:
            self._outbox.append(Outgoing(RELAY, self._witness.outbox.popleft()))
        while self._witness.events:
            event = self._witness.events.popleft()
            self._events.append(event)
            if isinstance(event, EpochOver):
                self.state = _TABLE[self.state][_Milestone.STOPPED]

    # -- small parts --------------------------------------------------------------------------

    def _stop(self, reason: str) -> None:
        self.state = _TABLE[self.state][_Milestone.STOPPED]
        self._gaps.due_at = None
        self._events.append(EpochOver(reason=reason))

    def _send(self, kind: Kind, round_: int, body: Body) -> None:
        version = self._segments.current.membership.version
        header = Header(kind, 0, self._secrets.client, round_, self._short_id, version)
        self._outbox.append(Outgoing(RELAY, frame_of(header, body)))

    def __repr__(self) -> str:
        return (
            f"ClientCore({self._seat}, {self.state}, next round {self._chain.next_round}, "
            f"{self._outbound.stock} waiting, witness {self._witness.state})"
        )
