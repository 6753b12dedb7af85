"""A client's watch over its own bits: what it sent, what the relay shows, whom that lets accuse."""

from collections import OrderedDict
from typing import Final

import numpy as np

from headtail_prifi.blame.accusation import Accusation, accuse, record_of
from headtail_prifi.blame.position import Place, bit_of, position_of
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import Buffer
from headtail_prifi.core.messages import Disclosure
from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.round.chain import Chain
from headtail_prifi.round.outbound import Spoilt
from headtail_prifi.setup.epoch import Epoch

MAX_SUSPECTS: Final = 64
SUPPRESSED_BEFORE_PROBING: Final = 2


class Watch:
    """Turns disturbed bits of one pseudonym into accusations, each round and place once."""

    def __init__(
        self,
        *,
        epoch: Epoch,
        geometry: Geometry,
        slot: int,
        secret: int,
        chain: Chain,
        entropy: Entropy,
    ) -> None:
        self._epoch = epoch
        self._geometry = geometry
        self._slot = slot
        self._secret = secret
        self._chain = chain
        self._entropy = entropy
        self._suspects: OrderedDict[tuple[int, int], Spoilt] = OrderedDict()
        self._reserved: dict[int, int] = {}
        self._suppressed = 0

    @property
    def probing(self) -> bool:
        """Reservations vanish: somebody clears them. Ours: send each only with chance 1/2 from now
        on, for a disruptor who clears a bit that was not set sets it, and that can be accused."""
        return self._suppressed >= SUPPRESSED_BEFORE_PROBING

    def reserved(self, round_: int, bit: int) -> None:
        """The reservation bit that this client sent in a round."""
        self._reserved[round_] = bit

    def spoilt(self, spoilt: Spoilt) -> None:
        """An own cell did not arrive as it was sent; its disclosure should follow."""
        self._suspects[spoilt.round, spoilt.sub_slot] = spoilt
        if len(self._suspects) > MAX_SUSPECTS:
            self._suspects.popitem(last=False)

    def on_disclosure(
        self, shown_round: int, disclosure: Disclosure, version: int
    ) -> Accusation | None:
        """An accusation, if it shows an own cell in which a 0 became a 1."""
        spoilt = self._suspects.pop((disclosure.round, disclosure.sub_slot), None)
        if spoilt is None or len(disclosure.payload) != self._geometry.cell_bytes:
            return None
        sent = np.concatenate((spoilt.cell.payload, spoilt.cell.key))
        got = np.frombuffer(disclosure.payload + disclosure.key, np.uint8)
        risen = np.flatnonzero(np.unpackbits(got & ~sent))
        if not len(risen):
            return None
        place = Place(disclosure.sub_slot, int(risen[0]))
        return self._accuse(disclosure.round, shown_round, place, version)

    def on_reservations(
        self, shown_round: int, round_: int, lanes: Buffer, version: int
    ) -> Accusation | None:
        """An accusation, if the relay saw a reservation that this client did not make."""
        sent = self._reserved.pop(round_, None)
        if sent is None:
            return None
        got = bit_of(lanes, self._slot)
        if sent and not got:
            self._suppressed += 1
        elif sent:
            self._suppressed = 0
        if sent or not got:
            return None
        return self._accuse(round_, shown_round, Place(None, self._slot), version)

    def forget(self) -> None:
        """A new membership: what happened under the old one can't be accused any more."""
        self._suspects.clear()
        self._reserved.clear()
        self._suppressed = 0

    def _accuse(
        self, round_: int, shown_round: int, place: Place, version: int
    ) -> Accusation | None:
        opened, shown = self._chain.link_of(round_), self._chain.link_of(shown_round)
        if opened is None or shown is None:
            return None
        return accuse(
            self._epoch,
            version=version,
            round_=round_,
            position=position_of(self._geometry, place),
            slot=self._slot,
            record=record_of(opened, shown),
            secret=self._secret,
            entropy=self._entropy,
        )
