"""Parties that break the protocol, one way each: what the tests convict, and what a benchmark of
blame measures. Nothing else may import this module.

`recast` gives a core another class over the same state, so that a misbehaving party is an honest
one but for the methods below.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import numpy as np

from headtail_prifi.blame.accusation import Accusation
from headtail_prifi.blame.case import OpenCase, pack_bits, seats_of
from headtail_prifi.blame.charging import CaseWriter
from headtail_prifi.blame.judge import Statement
from headtail_prifi.blame.messages import MIX_ROW_BYTES, Claim, Mix, Mixed, Reveal
from headtail_prifi.blame.mixing import MixGuard
from headtail_prifi.blame.position import Place
from headtail_prifi.blame.prosecutor import Prosecutor
from headtail_prifi.blame.watch import Watch
from headtail_prifi.blame.witness import Witness
from headtail_prifi.core.body import decode_body, encode_body, split_signed
from headtail_prifi.core.header import HEADER_BYTES, Buffer, Header, Kind, read_header
from headtail_prifi.core.messages import Disclosure, Down
from headtail_prifi.core.seat import RELAY, Role, Seat
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.round.client import ClientCore
from headtail_prifi.round.composer import Bytes, Composer
from headtail_prifi.round.engine import Engine
from headtail_prifi.round.guard import GuardCore
from headtail_prifi.round.history import HistoryStatement, first_link, next_link
from headtail_prifi.round.lock import Lock
from headtail_prifi.round.record import RoundRecord
from headtail_prifi.round.relay import RelayCore
from headtail_prifi.round.segment import Segment
from headtail_prifi.round.testimony import ClientTestimony, GuardTestimony
from headtail_prifi.setup.core import Outgoing
from headtail_prifi.setup.roster import Membership

Flips = Callable[[int, tuple[int, ...]], Iterable[int]]
"""(round, owners) to the bits of the upstream frame that a client inverts."""

GuardFlips = Callable[[int], Iterable[int]]
"""round to the bits of its stream that a guard inverts."""

T = TypeVar("T")


def recast(instance: Any, kind: type[T]) -> T:
    """The state of `instance` under another class (a subclass of its own)."""
    other = kind.__new__(kind)
    other.__dict__.update(instance.__dict__)
    return other


def invert(data: Bytes, positions: Iterable[int]) -> None:
    """Invert bits (most significant of byte 0 first) in place."""
    for position in positions:
        data[position >> 3] ^= 0x80 >> (position & 7)


# -- clients and guards that disrupt ----------------------------------------------------------


class FlippingComposer(Composer):
    """Inverts bits of every frame; the client vouches for the result."""

    flips: Flips
    flipped: dict[int, list[int]]

    def compose(
        self, header: Header, row: Bytes, lock: Lock, owners: tuple[int, ...], permit: int
    ) -> tuple[bytes, int]:
        frame, bit = super().compose(header, row, lock, owners, permit)
        cell = np.frombuffer(bytearray(frame), np.uint8)
        self.flipped[header.round] = list(self.flips(header.round, owners))
        invert(cell[HEADER_BYTES:], self.flipped[header.round])
        return cell.tobytes(), bit


class FlippingClientTestimony(ClientTestimony):
    """Owns up to the cipher that a flipping client sent."""

    flipped: dict[int, list[int]]

    def cipher(self, version: int, round_: int) -> bytes | None:
        cell = np.frombuffer(bytearray(super().cipher(version, round_) or b""), np.uint8)
        invert(cell, self.flipped.get(round_, ()))
        return cell.tobytes()


def disrupt(client: ClientCore, flips: Flips) -> None:
    """Make a client disrupt; it owns up to what it sent when it is asked."""
    composer = recast(client._composer, FlippingComposer)
    composer.flips, composer.flipped = flips, {}
    client._composer = composer
    testimony = recast(client._witness._testimony, FlippingClientTestimony)
    testimony.flipped = composer.flipped
    client._witness._testimony = testimony


class FlippingGuard(GuardCore):
    """Inverts bits of what it sends, and vouches for the result."""

    flips: GuardFlips

    def _rows(self, segment: Segment, first: int, count: int) -> Bytes:
        rows = super()._rows(segment, first, count).copy()
        for offset, row in enumerate(rows):
            invert(row, self.flips(first + offset))
        return rows


class FlippingGuardTestimony(GuardTestimony):
    """Owns up to the cipher that a flipping guard sent."""

    flips: GuardFlips

    def cipher(self, version: int, round_: int) -> bytes | None:
        row = np.frombuffer(bytearray(super().cipher(version, round_) or b""), np.uint8)
        invert(row, self.flips(round_))
        return row.tobytes()


def disruptive_guard(guard: GuardCore, flips: GuardFlips) -> FlippingGuard:
    """The same guard, disrupting."""
    other = recast(guard, FlippingGuard)
    other.flips = flips
    testimony = recast(other._witness._testimony, FlippingGuardTestimony)
    testimony.flips = flips
    other._witness._testimony = testimony
    return other


# -- witnesses that lie -----------------------------------------------------------------------


class LyingWitness(Witness):
    """Reveals one pair's bit wrong whenever its bits would not add up to the relay's vote."""

    about = 0
    """Which pair it lies about, in order of the other role."""

    def _reveal(self, case: OpenCase) -> Statement:
        honest = super()._reveal(case)
        bits = list(honest.bits)
        if sum(bits) % 2 != case.votes[self._seat]:
            bits[self.about] ^= 1
        return self._state(case, bits, None)

    def _state(self, case: OpenCase, bits: list[int], cipher: bytes | None) -> Statement:
        reveal = Reveal(case=case.digest, role=self._seat.role, bits=pack_bits(bits), cipher=cipher)
        frame = self._signed(Kind.REVEAL, case, reveal)
        return Statement(seat=self._seat, bits=tuple(bits), cipher=cipher, frame=frame)


class FramingWitness(LyingWitness):
    """Reveals one pair's bit wrong, and another's too, so that its bits add up all the same."""

    def _reveal(self, case: OpenCase) -> Statement:
        bits = list(super()._reveal(case).bits)
        bits[self.about] ^= 1
        bits[self.about - 1] ^= 1
        return self._state(case, bits, None)


class DisputingWitness(LyingWitness):
    """Disputes the relay's vote with a cipher that it did not send."""

    def _reveal(self, case: OpenCase) -> Statement:
        honest = super()._reveal(case)
        cipher = self._testimony.cipher(case.membership.version, case.round)
        assert cipher is not None
        forged = bytearray(cipher)
        forged[case.position >> 3] ^= 0x80 >> (case.position & 7)
        return self._state(case, list(honest.bits), bytes(forged))


class SilentWitness(Witness):
    """Does not answer a case."""

    def _on_case(self, frame: Buffer) -> None:
        return


class ClosedWitness(LyingWitness):
    """Lies, and does not open its secret when it is confronted."""

    def _on_conflict(self, frame: Buffer) -> None:
        return


def witness_as(party: ClientCore | GuardCore, kind: type[Witness]) -> None:
    """Make a party answer cases in this way."""
    party._witness = recast(party._witness, kind)


class FalseWatch(Watch):
    """Accuses a bit of its spoilt cell that came as 0."""

    def on_disclosure(
        self, shown_round: int, disclosure: Disclosure, version: int
    ) -> Accusation | None:
        spoilt = self._suspects.pop((disclosure.round, disclosure.sub_slot), None)
        if spoilt is None:
            return None
        got = np.unpackbits(np.frombuffer(disclosure.payload, np.uint8))
        place = Place(disclosure.sub_slot, int(np.flatnonzero(got == 0)[0]))
        return self._accuse(disclosure.round, shown_round, place, version)


class MisvouchingClient(ClientCore):
    """Vouches, when it is called to, for something else than it sent."""

    def _voucher(self, round_: int) -> bytes:
        return self._signing_key.sign(b"nothing", purpose="prifi/voucher")


class ForgingMixGuard(MixGuard):
    """Puts a row of its own into an accusation shuffle."""

    def on_mix(self, request: Mix, membership: Membership) -> bytes:
        honest = super().on_mix(request, membership)
        shuffle = self._shuffle
        assert shuffle is not None
        body = decode_body(Mixed, split_signed(honest)[0][HEADER_BYTES:])
        forged = Mixed(
            number=body.number,
            rows=body.rows[:MIX_ROW_BYTES] * len(request.submissions),
            proof=body.proof,
        )
        return shuffle.sign(Kind.MIXED, forged, self._seat, self._signing_key)


# -- relays that cheat ------------------------------------------------------------------------


class FakingEngine(Engine):
    """Shows an owner a cell with bits inverted that came undisturbed, in each round."""

    positions: tuple[int, ...] = (5,)

    def _open_up(self, record: RoundRecord) -> Bytes:
        opened = super()._open_up(record)
        invert(opened, self.positions)
        return opened


class FakingWriter(CaseWriter):
    """Charges a party with a bit that it did not send, so that the votes add up."""

    scapegoat: Seat

    def _vote(self, record: RoundRecord, seat: Seat, claim: Claim) -> int:
        return super()._vote(record, seat, claim) ^ (seat == self.scapegoat)


class BluntProsecutor(Prosecutor):
    """Brings a case that its own record does not support."""

    def _bring(self, frame: bytes, now: float) -> None:
        seats = seats_of(self._books.membership, self._epoch.guard_count)
        self.outbox.extend(Outgoing(seat, frame) for seat in seats)


class RepeatingProsecutor(Prosecutor):
    """Brings each accusation in two cases, to have more bits revealed."""

    def _bring(self, frame: bytes, now: float) -> None:
        super()._bring(frame, now)
        assert self._claim is not None
        again = self._writer.write(self._claim)
        seats = seats_of(self._books.membership, self._epoch.guard_count)
        self.outbox.extend(Outgoing(seat, again) for seat in seats)


def engine_as(relay: RelayCore, kind: type[Engine]) -> None:
    """Make a relay read rounds in this way."""
    relay._engine = recast(relay._engine, kind)


def prosecutor_as(relay: RelayCore, kind: type[Prosecutor]) -> None:
    """Make a relay bring cases in this way."""
    relay._prosecutor = recast(relay._prosecutor, kind)


def charge_falsely(relay: RelayCore, scapegoat: Seat) -> None:
    """Make a relay charge this party with a bit that it did not send."""
    writer = recast(relay._prosecutor._writer, FakingWriter)
    writer.scapegoat = scapegoat
    relay._prosecutor._writer = writer


class Equivocator:
    """An adversary on the links with the relay's key: some clients get another history.

    From round `since` on, `change` rewrites the downstream body for them, and all is signed again
    for the history that they see. Use it as a swarm's `tamper`.
    """

    def __init__(
        self,
        *,
        victims: Iterable[int],
        since: int,
        change: Callable[[int, Down], Down],
        epoch_id: bytes,
        key: SigningKey,
    ) -> None:
        self._victims = frozenset(victims)
        self._since = since
        self._change = change
        self._epoch_id = epoch_id
        self._key = key
        self._links: Final = {-1: first_link(epoch_id)}

    def __call__(self, source: Seat, target: Seat, frame: bytes) -> tuple[bytes, ...]:
        header = read_header(frame)
        if source != RELAY or header.kind is not Kind.DOWN or target.role is not Role.CLIENT:
            return (frame,)
        if target.index not in self._victims:
            return (frame,)
        return (self._forge(header, frame),)

    def _forge(self, header: Header, frame: bytes) -> bytes:
        signed, signature = split_signed(frame)
        round_ = header.round
        if round_ >= self._since:
            down = self._change(round_, decode_body(Down, signed[HEADER_BYTES:]))
            signed = memoryview(header.encode() + encode_body(down))
        self._links[round_] = next_link(self._links[round_ - 1], signed)
        if round_ >= self._since:
            signature = HistoryStatement.signed(
                epoch_id=self._epoch_id, round=round_, link=self._links[round_], key=self._key
            ).signature
        return bytes(signed) + signature
