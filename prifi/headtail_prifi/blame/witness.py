"""How a client or guard answers a case: check, reveal, open a pair only against proof of a lie.

What protects an honest party here. It reveals bits only for an accusation that the slot's owner
made and that names a bit the owner sent as 0, so that its own equation is that of a cover client
(section "Blame" of `prifi/README.md`). It opens a secret only when the other side's signed answer
contradicts its own: two honest parties never do.
"""

from collections import deque
from enum import StrEnum
from typing import Final, Protocol

from headtail_prifi.blame.case import OpenCase, pack_bits, read_case
from headtail_prifi.blame.evidence import (
    BogusCase,
    DoubleCase,
    Evidence,
    TwoHistories,
    encode_evidence,
    verify_evidence,
)
from headtail_prifi.blame.judge import (
    Ruling,
    Statement,
    disagree,
    opening_context,
    read_statement,
)
from headtail_prifi.blame.messages import Conflict, Opening, Proclaim, Reveal, sign_frame
from headtail_prifi.core.body import decode_body, frame_of
from headtail_prifi.core.errors import (
    BogusCaseError,
    EvidenceError,
    FrameError,
    UnexpectedFrameError,
)
from headtail_prifi.core.events import CaseOpened, EpochOver, Event, VerdictReached
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import HEADER_BYTES, Buffer, Header, Kind, read_header, short_id
from headtail_prifi.core.seat import RELAY, Role, Seat
from headtail_prifi.crypto.cipher import PadCipher, PadStream
from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.sigma import prove_equality
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.round.history import HistoryStatement
from headtail_prifi.round.pads import single
from headtail_prifi.setup.epoch import Epoch
from headtail_prifi.setup.roster import Membership


class WitnessState(StrEnum):
    """Where this side stands in the newest case."""

    QUIET = "quiet"
    ANSWERED = "answered"
    OPENED = "opened"
    ENDED = "ended"


_TABLE: Final[dict[WitnessState, dict[Kind, WitnessState]]] = {
    WitnessState.QUIET: {
        Kind.CASE: WitnessState.ANSWERED,
        Kind.VERDICT: WitnessState.QUIET,
    },
    WitnessState.ANSWERED: {
        Kind.CASE: WitnessState.ANSWERED,
        Kind.CONFLICT: WitnessState.OPENED,
        Kind.VERDICT: WitnessState.QUIET,
    },
    WitnessState.OPENED: {
        Kind.CASE: WitnessState.ANSWERED,
        Kind.CONFLICT: WitnessState.OPENED,
        Kind.VERDICT: WitnessState.QUIET,
    },
    WitnessState.ENDED: {},
}


class Testimony(Protocol):
    """What its own side of the round loop can tell the witness."""

    def membership(self, version: int) -> Membership | None:
        """A membership of this epoch that is still remembered."""
        ...

    def sees_history(self) -> bool:
        """Whether this side follows the downstream: a client does, a guard does not."""
        ...

    def link(self, round_: int) -> bytes | None:
        """This side's history after a round; None when it is too old or still to come."""
        ...

    def statement(self, round_: int) -> HistoryStatement | None:
        """The relay's signed word for that history, if its signature is good."""
        ...

    def streams(self, version: int) -> tuple[PadStream, ...]:
        """This side's pair streams under a remembered membership, in order of the other role."""
        ...

    def cipher(self, version: int, round_: int) -> bytes | None:
        """The cipher that this side sent; None when it did not or it is too old."""
        ...


class Witness:
    """`receive` answers by frames in `outbox` (all to the relay) and by `events`."""

    def __init__(
        self,
        *,
        seat: Seat,
        epoch: Epoch,
        geometry: Geometry,
        signing_key: SigningKey,
        exponent: int,
        cipher: PadCipher,
        entropy: Entropy,
        testimony: Testimony,
    ) -> None:
        self._seat = seat
        self._epoch = epoch
        self._geometry = geometry
        self._signing_key = signing_key
        self._exponent = exponent
        self._cipher = cipher
        self._entropy = entropy
        self._testimony = testimony
        self._case: OpenCase | None = None
        self._answer: Statement | None = None
        self._seen: dict[int, bytes] = {}
        self._accusations: dict[bytes, int] = {}
        self._openings: dict[int, bytes] = {}
        self._over = False
        self.state = WitnessState.QUIET
        self.outbox: deque[bytes] = deque()
        self.events: deque[Event] = deque()

    def receive(self, frame: Buffer) -> None:
        """A CASE, CONFLICT or VERDICT from the relay.

        Raises FrameError, SignatureError or UnexpectedFrameError and changes nothing when it is
        not one that this side may get now.
        """
        header = read_header(frame)
        follows = _TABLE[self.state].get(header.kind)
        if follows is None:
            raise UnexpectedFrameError(f"{header.kind.name} while {self.state}")
        if header.kind is Kind.CASE:
            self._on_case(frame)
        elif header.kind is Kind.CONFLICT:
            self._on_conflict(frame)
        else:
            self._on_verdict(frame)
        self.state = WitnessState.ENDED if self._over else follows

    def _on_case(self, frame: Buffer) -> None:
        try:
            case = read_case(frame, epoch=self._epoch, geometry=self._geometry)
        except BogusCaseError:
            self._convict(BogusCase(case=bytes(frame)))
            return
        if self._testimony.membership(case.membership.version) != case.membership:
            return  # it may overtake the frame that announces the membership, and comes again
        if self._repeats(case) or not self._same_history(case):
            return
        self._case = case
        self._openings.clear()
        self._answer = self._reveal(case)
        self.outbox.append(self._answer.frame)
        self.events.append(CaseOpened(round=case.round, number=case.number))

    def _same_history(self, case: OpenCase) -> bool:
        """Whether the case is about this side's own history. Under another one its own equation
        would not hold, so it must not answer."""
        if not self._testimony.sees_history():
            return True
        link = self._testimony.link(case.round)
        if link == case.claim.opened.link:
            return True
        own = self._testimony.statement(case.round)
        if link is None or own is None:
            raise FrameError(f"a case about round {case.round}, of which nothing is left here")
        self._convict(TwoHistories.of(own, case.claim.opened))
        return False

    def _repeats(self, case: OpenCase) -> bool:
        """Whether the case was met before: then the old answer goes again, or the relay cheats."""
        accusation = case.claim.accusation.pack()
        number = self._accusations.setdefault(accusation, case.number)
        seen = self._seen.get(number, self._seen.get(case.number))
        if seen is None:
            self._seen[case.number] = case.frame
            return False
        if seen != case.frame:
            self._convict(DoubleCase(first=seen, second=case.frame))
        elif self._answer is not None and self._case is not None and self._case.frame == seen:
            self.outbox.append(self._answer.frame)
        return True

    def _reveal(self, case: OpenCase) -> Statement:
        streams = self._testimony.streams(case.membership.version)
        bits = [case.pair_bit(single(stream, self._geometry, case.round)) for stream in streams]
        cipher = self._testimony.cipher(case.membership.version, case.round)
        disputed = cipher is not None and case.vote_of(self._seat, cipher) != case.votes[self._seat]
        reveal = Reveal(
            case=case.digest,
            role=self._seat.role,
            bits=pack_bits(bits),
            cipher=cipher if disputed else None,
        )
        frame = self._signed(Kind.REVEAL, case, reveal)
        return Statement(seat=self._seat, bits=tuple(bits), cipher=reveal.cipher, frame=frame)

    def _on_conflict(self, frame: Buffer) -> None:
        case, answer = self._case, self._answer
        assert case is not None
        assert answer is not None
        conflict = decode_body(Conflict, memoryview(frame)[HEADER_BYTES:])
        other = read_statement(conflict.reveal, case, self._epoch)
        pair = {
            Role.CLIENT: Seat(Role.CLIENT, conflict.client),
            Role.GUARD: Seat(Role.GUARD, conflict.guard),
        }
        if {self._seat, other.seat} != set(pair.values()):
            raise UnexpectedFrameError("asked to open a secret of another pair")
        client, guard = (answer, other) if self._seat.role is Role.CLIENT else (other, answer)
        if not disagree(case, client, guard):
            raise UnexpectedFrameError("asked to open a secret without a contradiction")
        opening = self._openings.get(other.seat.index)
        if opening is None:
            opening = self._open(case, conflict)
            self._openings[other.seat.index] = opening
        self.outbox.append(opening)

    def _open(self, case: OpenCase, conflict: Conflict) -> bytes:
        other = (
            self._epoch.guard_keys[conflict.guard]
            if self._seat.role is Role.CLIENT
            else self._epoch.client_keys[conflict.client]
        )
        opening = Opening(
            case=case.digest,
            client=conflict.client,
            guard=conflict.guard,
            role=self._seat.role,
            shared=self._epoch.group.mul(other, self._exponent).encode(),
            proof=prove_equality(
                self._epoch.group,
                self._exponent,
                other,
                context=opening_context(case.digest, conflict.client, conflict.guard),
                entropy=self._entropy,
            ),
        )
        return frame_of(self._header(Kind.OPENING, case), opening)

    def _on_verdict(self, frame: Buffer) -> None:
        proclaim = decode_body(Proclaim, memoryview(frame)[HEADER_BYTES:])
        try:
            ruling = verify_evidence(proclaim.evidence, self._epoch, cipher=self._cipher)
        except EvidenceError as error:
            raise FrameError(f"a verdict that nothing supports: {error.message}") from None
        self.events.append(
            VerdictReached(
                culprit=ruling.culprit,
                slot=ruling.slot,
                charge=ruling.charge,
                evidence=proclaim.evidence,
            )
        )
        if ruling.culprit is not None and ruling.culprit.role is not Role.CLIENT:
            self._end(ruling)

    def _convict(self, evidence: Evidence) -> None:
        data = encode_evidence(evidence)
        ruling = verify_evidence(data, self._epoch, cipher=self._cipher)
        self.events.append(
            VerdictReached(culprit=RELAY, slot=None, charge=ruling.charge, evidence=data)
        )
        self._end(ruling)

    def _end(self, ruling: Ruling) -> None:
        self._over = True
        self.events.append(EpochOver(reason=f"{ruling.culprit} {ruling.charge}"))

    def _signed(self, kind: Kind, case: OpenCase, reveal: Reveal) -> bytes:
        return sign_frame(
            self._header(kind, case),
            reveal,
            seat=self._seat,
            epoch_id=self._epoch.epoch_id,
            key=self._signing_key,
        )

    def _header(self, kind: Kind, case: OpenCase) -> Header:
        return Header(
            kind,
            0,
            self._seat.index,
            case.round,
            short_id(self._epoch.epoch_id),
            case.membership.version,
        )
