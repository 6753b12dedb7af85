"""How the relay brings a disruption to a verdict: vouch, charge, compare, confront.

One case at a time; others wait. A new membership drops what is not decided: rounds before it can't
be accused, and whoever goes on disrupting is accused again.
"""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headtail_prifi.blame.accusation import Accusation, unpack_accusation
from headtail_prifi.blame.case import OpenCase, read_case
from headtail_prifi.blame.charging import CaseWriter
from headtail_prifi.blame.convener import Convener, ConvenerState
from headtail_prifi.blame.evidence import Evidence, Guilt, Refuted, encode_evidence
from headtail_prifi.blame.intake import Considered, Intake, Jams
from headtail_prifi.blame.judge import (
    Charge,
    Ruling,
    Statement,
    disagree,
    judge_pair,
    judge_statement,
    read_statement,
)
from headtail_prifi.blame.messages import (
    Claim,
    Conflict,
    Opening,
    Proclaim,
    Vouch,
    Vouched,
)
from headtail_prifi.blame.mixing import Shuffle
from headtail_prifi.core.body import Body, decode_body, frame_of
from headtail_prifi.core.chase import Chase
from headtail_prifi.core.errors import (
    AccusationError,
    FrameError,
    RecordError,
    UnexpectedFrameError,
)
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import HEADER_BYTES, Buffer, Header, Kind, short_id
from headtail_prifi.core.seat import (
    CLIENTS,
    GUARDS,
    RELAY,
    Seat,
    client_seat,
    guard_seat,
)
from headtail_prifi.crypto.cipher import PadCipher
from headtail_prifi.crypto.errors import CryptoError, SignatureError
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.round.books import Books
from headtail_prifi.round.options import RelayOptions
from headtail_prifi.round.voucher import window_start
from headtail_prifi.setup.core import Outgoing
from headtail_prifi.setup.epoch import Epoch


class ProsecutorState(StrEnum):
    """How far the relay is with a disruption."""

    QUIET = "quiet"
    SHUFFLING = "shuffling"
    VOUCHING = "vouching"
    REVEALING = "revealing"
    CONFRONTING = "confronting"


class _Milestone(StrEnum):
    JAMMED = "accusations are jammed"
    SHUFFLED = "shuffle opened"
    ACCUSED = "accusation holds"
    CHARGED = "case opened"
    CONTRADICTED = "a pair disagrees"
    CLOSED = "decided or dropped"


_STEPS: Final = (Kind.SUBMIT, Kind.MIXED, Kind.SHARES)
_TABLE: Final[dict[ProsecutorState, dict[Kind | _Milestone, ProsecutorState]]] = {
    ProsecutorState.QUIET: {
        _Milestone.JAMMED: ProsecutorState.SHUFFLING,
        _Milestone.ACCUSED: ProsecutorState.VOUCHING,
        _Milestone.CLOSED: ProsecutorState.QUIET,
    },
    ProsecutorState.SHUFFLING: {
        **dict.fromkeys(_STEPS, ProsecutorState.SHUFFLING),
        _Milestone.SHUFFLED: ProsecutorState.QUIET,
        _Milestone.CLOSED: ProsecutorState.QUIET,
    },
    ProsecutorState.VOUCHING: {
        Kind.VOUCHED: ProsecutorState.VOUCHING,
        _Milestone.CHARGED: ProsecutorState.REVEALING,
        _Milestone.CLOSED: ProsecutorState.QUIET,
    },
    ProsecutorState.REVEALING: {
        Kind.REVEAL: ProsecutorState.REVEALING,
        _Milestone.CONTRADICTED: ProsecutorState.CONFRONTING,
        _Milestone.CLOSED: ProsecutorState.QUIET,
    },
    ProsecutorState.CONFRONTING: {
        Kind.OPENING: ProsecutorState.CONFRONTING,
        _Milestone.CLOSED: ProsecutorState.QUIET,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A ruling; without evidence it is the relay's word."""

    ruling: Ruling
    evidence: bytes = b""


class Prosecutor:
    """Frames in `outbox`, rulings in `outcomes`; raises PeerError for a frame that is no answer."""

    def __init__(
        self,
        *,
        epoch: Epoch,
        geometry: Geometry,
        books: Books,
        signing_key: SigningKey,
        cipher: PadCipher,
        options: RelayOptions,
    ) -> None:
        self._epoch = epoch
        self._geometry = geometry
        self._books = books
        self._cipher = cipher
        self._options = options
        self._intake = Intake(epoch=epoch, geometry=geometry, books=books)
        self._jams = Jams()
        self._shuffles = 0
        self._writer = CaseWriter(
            epoch=epoch, geometry=geometry, books=books, signing_key=signing_key
        )
        self._convener: Convener | None = None
        self._chase: Chase | None = None
        self._claim: Claim | None = None
        self._case: OpenCase | None = None
        self._statements: dict[Seat, Statement] = {}
        self._pair: tuple[Seat, Seat] | None = None
        self._waits_for_membership = False
        self.state = ProsecutorState.QUIET
        self.outbox: deque[Outgoing] = deque()
        self.outcomes: deque[Outcome] = deque()

    # -- what the round loop reports ----------------------------------------------------------

    def on_clean(self, slot: int) -> None:
        """A cell of the slot came through."""
        self._jams.clean(slot)

    def on_jam(self, slot: int, now: float) -> None:
        """A cell of the slot was disrupted. Three in a row, and accusations go by shuffle."""
        if not self._jams.jam(slot) or not self._idle:
            return
        self._jams.begin()
        self._reach(_Milestone.JAMMED)
        self._shuffles += 1
        shuffle = Shuffle(self._epoch, self._books.membership, self._shuffles)
        self._convener = Convener(shuffle, self._options, now)
        self._follow(self._convener)

    def on_accusation(self, body: bytes, slot: int, now: float) -> None:
        """The owner of a slot said this in the DC-net; if it can't be so, that costs its turns."""
        try:
            accusation = unpack_accusation(body)
            if accusation.slot != slot:
                raise AccusationError(f"slot {slot} accuses in the name of {accusation.slot}")
            self._consider(accusation)
        except (FrameError, RecordError, AccusationError):
            self._rule(Ruling(culprit=None, charge=Charge.FALSE_ACCUSATION, slot=slot))
        self._next(now)

    def on_membership(self) -> None:
        """A membership began: drop what is not decided."""
        self._intake.clear()
        self._jams.clear()
        self._waits_for_membership = False
        self._close()

    def receive(self, frame: Buffer, header: Header, source: Seat, now: float) -> None:
        """A frame of blame; one that is late is ignored."""
        if header.kind not in _TABLE[self.state]:
            return
        body = memoryview(frame)[HEADER_BYTES:]
        match header.kind:
            case Kind.VOUCHED:
                self._on_vouched(decode_body(Vouched, body), source, now)
            case Kind.REVEAL:
                self._on_reveal(frame, source, now)
            case Kind.OPENING:
                self._on_opening(decode_body(Opening, body), source, now)
            case _:
                self._on_step(frame, header.kind, source, now)

    def next_timer(self) -> float | None:
        """When to call `on_timer`."""
        return None if self._chase is None else self._chase.next_timer()

    def on_timer(self, now: float) -> None:
        """Ask again, or give up on whoever is silent."""
        if self._chase is None:
            return
        silent = self._chase.expired(now)
        if not silent:
            self.outbox.extend(self._chase.due(now))
            return
        for statement in self._statements.values():
            self._judge(statement)
        for seat in silent:
            self._rule(Ruling(culprit=seat, charge=Charge.SILENT))
        self._close()
        self._next(now)

    @property
    def _idle(self) -> bool:
        """Free for the next accusation: no case, and nobody who is convicted but still in."""
        return self.state is ProsecutorState.QUIET and not self._waits_for_membership

    # -- accusations --------------------------------------------------------------------------

    def _consider(self, accusation: Accusation) -> bool:
        """Whether it was queued. Raises RecordError or AccusationError when it can't be brought;
        files evidence when the record refutes it."""
        considered, claim = self._intake.consider(accusation)
        if claim is not None:
            ruling = Ruling(culprit=None, charge=Charge.FALSE_ACCUSATION, slot=accusation.slot)
            self._rule(ruling, Refuted(claim=claim))
        return considered is Considered.QUEUED

    def _next(self, now: float) -> None:
        if not self._idle:
            return
        claim = self._intake.next()
        if claim is not None:
            self._claim = claim
            self._reach(_Milestone.ACCUSED)
            self._ask_vouchers(claim.accusation.round, now)

    # -- the accusation shuffle ---------------------------------------------------------------

    def _on_step(self, frame: Buffer, kind: Kind, source: Seat, now: float) -> None:
        convener = self._convener
        assert convener is not None
        try:
            convener.receive(frame, kind, source, now)
        except (CryptoError, FrameError, UnexpectedFrameError):
            self._rule(Ruling(culprit=source, charge=Charge.BAD_MIX))
            self._close()
            return
        self._follow(convener)
        if convener.state is ConvenerState.DONE:
            self._reach(_Milestone.SHUFFLED)
            self._chase = self._convener = None
            self._on_shuffled(convener.messages)
            self._next(now)

    def _follow(self, convener: Convener) -> None:
        self._chase = convener.chase
        self.outbox.extend(convener.outbox)
        convener.outbox.clear()

    def _on_shuffled(self, messages: list[bytes]) -> None:
        """Whoever submitted what does not hold stays unknown: it is dropped."""
        fruitful = False
        for message in messages:
            try:
                fruitful |= self._consider(unpack_accusation(message))
            except (FrameError, RecordError, AccusationError):
                continue
        for slot in self._jams.end(fruitful=fruitful):
            self._rule(Ruling(culprit=None, charge=Charge.NOISE, slot=slot))

    # -- vouchers -----------------------------------------------------------------------------

    def _ask_vouchers(self, round_: int, now: float) -> None:
        frame = self._frame(Kind.VOUCH, round_, Vouch())
        seats = [client_seat(client) for client in self._books.membership.clients]
        self._ask({seat: frame for seat in seats if not self._books.log(seat).vouched(round_)}, now)
        self._charge_if_vouched(now)

    def _on_vouched(self, vouched: Vouched, source: Seat, now: float) -> None:
        assert self._chase is not None
        assert self._claim is not None
        if source not in self._chase.waiting:
            return
        round_ = self._claim.accusation.round
        log = self._books.log(source)
        first = window_start(round_, log.first_round)
        try:
            log.accept(
                first,
                round_ - first + 1,
                vouched.voucher,
                self._epoch.client_verify_key(source.index),
            )
        except SignatureError:
            self._rule(Ruling(culprit=source, charge=Charge.UNVOUCHED))
            self._close()
            self._next(now)
            return
        self._chase.answered(source)
        self._charge_if_vouched(now)

    # -- the case -----------------------------------------------------------------------------

    def _charge_if_vouched(self, now: float) -> None:
        assert self._chase is not None
        assert self._claim is not None
        if not self._chase.waiting:
            self._bring(self._writer.write(self._claim), now)

    def _bring(self, frame: bytes, now: float) -> None:
        self._case = read_case(frame, epoch=self._epoch, geometry=self._geometry)
        self._reach(_Milestone.CHARGED)
        self._ask(dict.fromkeys(self._case.votes, frame), now)

    def _on_reveal(self, frame: Buffer, source: Seat, now: float) -> None:
        assert self._chase is not None
        assert self._case is not None
        statement = read_statement(frame, self._case, self._epoch)
        if statement.seat != source:
            raise UnexpectedFrameError(f"{source} answers for {statement.seat}")
        if not self._chase.answered(source):
            return
        self._statements[source] = statement
        if self._chase.waiting:
            return
        rulings = [self._judge(each) for each in self._statements.values()]
        if not any(rulings):
            self._confront(now)
            return
        self._close()
        self._next(now)

    def _judge(self, statement: Statement) -> bool:
        assert self._case is not None
        ruling = judge_statement(self._case, statement)
        if ruling is not None:
            self._rule(ruling, Guilt(case=self._case.frame, answers=(statement.frame,)))
        return ruling is not None

    def _confront(self, now: float) -> None:
        assert self._case is not None
        client, guard = self._contradiction(self._case)
        self._pair = (client, guard)
        self._reach(_Milestone.CONTRADICTED)
        frames = {
            seat: self._frame(
                Kind.CONFLICT,
                self._case.round,
                Conflict(
                    client=client.index,
                    guard=guard.index,
                    reveal=self._statements[other].frame,
                ),
            )
            for seat, other in ((client, guard), (guard, client))
        }
        self._ask(frames, now)

    def _contradiction(self, case: OpenCase) -> tuple[Seat, Seat]:
        """A pair that disagrees: there is one, by the parity of all bits (`blame/case.py`)."""
        return next(
            (client, guard)
            for client in map(client_seat, case.membership.clients)
            for guard in map(guard_seat, range(self._epoch.guard_count))
            if disagree(case, self._statements[client], self._statements[guard])
        )

    def _on_opening(self, opening: Opening, source: Seat, now: float) -> None:
        assert self._case is not None
        assert self._pair is not None
        client, guard = self._pair
        if source not in self._pair or opening.role is not source.role:
            raise UnexpectedFrameError(f"{source} opens a secret that is not asked for")
        ruling = judge_pair(
            self._case,
            client=self._statements[client],
            guard=self._statements[guard],
            opening=opening,
            epoch=self._epoch,
            cipher=self._cipher,
        )
        answers = (self._statements[client].frame, self._statements[guard].frame)
        self._rule(ruling, Guilt(case=self._case.frame, answers=answers, opening=opening))
        self._close()
        self._next(now)

    # -- small parts --------------------------------------------------------------------------

    def _rule(self, ruling: Ruling, evidence: Evidence | None = None) -> None:
        self._waits_for_membership |= ruling.culprit is not None
        if evidence is None:
            self.outcomes.append(Outcome(ruling=ruling))
            return
        data = encode_evidence(evidence)
        self.outcomes.append(Outcome(ruling=ruling, evidence=data))
        frame = self._frame(Kind.VERDICT, 0, Proclaim(evidence=data))
        self.outbox.extend((Outgoing(CLIENTS, frame), Outgoing(GUARDS, frame)))

    def _ask(self, frames: dict[Seat, bytes], now: float) -> None:
        self.outbox.extend(Outgoing(seat, frame) for seat, frame in frames.items())
        self._chase = Chase(
            frames,
            now=now,
            resend_s=self._options.resend_s,
            patience_s=self._options.patience_s,
        )

    def _close(self) -> None:
        self._chase = self._convener = self._claim = self._case = self._pair = None
        self._statements.clear()
        self._reach(_Milestone.CLOSED)

    def _reach(self, milestone: _Milestone) -> None:
        self.state = _TABLE[self.state][milestone]

    def _frame(self, kind: Kind, round_: int, body: Body) -> bytes:
        return frame_of(self._header(kind, round_), body)

    def _header(self, kind: Kind, round_: int) -> Header:
        epoch = short_id(self._epoch.epoch_id)
        return Header(kind, 0, RELAY.index, round_, epoch, self._books.membership.version)
