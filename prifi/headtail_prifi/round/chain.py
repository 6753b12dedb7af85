"""A client's view of the downstream: in order, without gaps, hashed.

Downstream frames are numbered by the round they open. A gap is asked for (NACK) and held back until
it is filled, for a client that skipped a frame would have another history than all others. A frame
that was seen before makes the client send the same answer again; one that differs from what was
seen is, if signed, proof of equivocation.

The relay's signature is checked every `verify_every` rounds: as links are chained, one vouches for
all rounds before it, and the lock does not depend on signatures at all.
"""

from enum import Enum, auto
from typing import Final

from headtail_prifi.core.body import split_signed
from headtail_prifi.core.errors import FrameError
from headtail_prifi.core.header import Buffer
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.round.history import HistoryStatement, first_link, next_link

MAX_HELD: Final = 128


class Offer(Enum):
    """What became of a downstream frame."""

    NEXT = auto()
    HELD = auto()
    REPEATED = auto()
    STALE = auto()
    DIFFERENT = auto()


class Chain:
    """Raises nothing but FrameError and SignatureError; what it raises changes nothing."""

    def __init__(
        self, *, epoch_id: bytes, relay_key: bytes, retain: int, verify_every: int
    ) -> None:
        self._epoch_id = epoch_id
        self._relay_key = relay_key
        self._retain = retain
        self._verify_every = verify_every
        self._links: dict[int, bytes] = {-1: first_link(epoch_id)}
        self._signatures: dict[int, bytes] = {}
        """The relay's, of the history after each round; perhaps not checked yet."""
        self._held: dict[int, Buffer] = {}
        self.next_round = 0

    @property
    def waits(self) -> bool:
        """Whether frames were held back, for one before them is missing."""
        return bool(self._held)

    @property
    def missing(self) -> tuple[int, int] | None:
        """The first missing round and how many are missing in a row; None without a gap."""
        if not self._held:
            return None
        return self.next_round, min(self._held) - self.next_round

    def offer(self, round_: int, frame: Buffer) -> Offer:
        """Sort a frame in. After NEXT, call `extend` with it once its body was read."""
        if round_ == self.next_round:
            return Offer.NEXT
        if round_ > self.next_round:
            if round_ - self.next_round > MAX_HELD:
                raise FrameError(f"downstream {round_} while waiting for {self.next_round}")
            self._held.setdefault(round_, frame)
            return Offer.HELD
        known = self.link_of(round_)
        before = self.link_of(round_ - 1)
        if known is None or before is None:
            return Offer.STALE
        signed, _ = split_signed(frame)
        return Offer.REPEATED if next_link(before, signed) == known else Offer.DIFFERENT

    def extend(self, signed: Buffer, signature: bytes) -> bytes:
        """Append the next frame, split; the new link. SignatureError when it was checked and is
        bad."""
        round_ = self.next_round
        link = next_link(self._links[round_ - 1], signed)
        if round_ % self._verify_every == 0:
            HistoryStatement(
                epoch_id=self._epoch_id, round=round_, link=link, signature=signature
            ).verify(self._relay_key)
        self._links[round_] = link
        self._signatures[round_] = signature
        self._links.pop(round_ - self._retain, None)
        self._signatures.pop(round_ - self._retain, None)
        if self._held:
            self._held.pop(round_, None)
        self.next_round = round_ + 1
        return link

    def held(self) -> Buffer | None:
        """Hands out the frame that comes next, if it was held back."""
        return self._held.pop(self.next_round, None)

    def link_of(self, round_: int) -> bytes | None:
        """The history after a round; None when it is too old or still to come."""
        return self._links.get(round_)

    def statement(self, round_: int) -> HistoryStatement | None:
        """The relay's signed word for this side's history, to compare with another's.

        None when the round is too old, still to come, or the relay's signature of it is bad.
        """
        link, signature = self._links.get(round_), self._signatures.get(round_)
        if link is None or signature is None:
            return None
        statement = HistoryStatement(
            epoch_id=self._epoch_id, round=round_, link=link, signature=signature
        )
        try:
            statement.verify(self._relay_key)
        except SignatureError:
            return None
        return statement

    def differing(self, round_: int, frame: Buffer) -> HistoryStatement | None:
        """The relay's signed word for another history than this side's, from a DIFFERENT frame;
        None when the frame is not the relay's."""
        before = self.link_of(round_ - 1)
        if before is None:
            return None
        signed, signature = split_signed(frame)
        statement = HistoryStatement(
            epoch_id=self._epoch_id,
            round=round_,
            link=next_link(before, signed),
            signature=signature,
        )
        try:
            statement.verify(self._relay_key)
        except SignatureError:
            return None
        return statement
