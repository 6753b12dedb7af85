"""An accusation: the owner of a sub-slot swears that it sent a 0 where the relay got a 1.

Only such bits are accused: opening a bit that the owner sent as 1 would show who it is. It is made
with the pseudonym's key, so it names a slot and no client, and it travels inside the DC-net (or,
when that is jammed, through the accusation shuffle), so nobody sees from where it comes.
"""

from typing import Annotated, Final

from msgspec import Meta

from headtail_prifi.core.body import Body, Round
from headtail_prifi.core.errors import AccusationError
from headtail_prifi.core.header import MAX_VERSION
from headtail_prifi.core.messages import NOBODY
from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.errors import ProofError
from headtail_prifi.crypto.sigma import KNOWLEDGE_BYTES, prove_knowledge, verify_knowledge
from headtail_prifi.setup.epoch import Epoch

_PURPOSE: Final = b"prifi/accusation\0"


class Accusation(Body, frozen=True, kw_only=True):
    """`slot` owned the bit `position` of round `round` under this membership version, and did not
    set it. The proof is Schnorr's, of the pseudonym's key, over all the other fields."""

    version: Annotated[int, Meta(ge=0, le=MAX_VERSION)]
    round: Round
    position: Annotated[int, Meta(ge=0, lt=2**24)]
    slot: Annotated[int, Meta(ge=0, lt=NOBODY)]
    proof: Annotated[bytes, Meta(min_length=KNOWLEDGE_BYTES, max_length=KNOWLEDGE_BYTES)]

    def verify(self, epoch: Epoch) -> None:
        """Raises AccusationError unless the owner of the slot made it."""
        if self.slot >= len(epoch.slots):
            raise AccusationError(f"an accusation by slot {self.slot}, which does not exist")
        context = _context(epoch, self.version, self.round, self.position, self.slot)
        try:
            verify_knowledge(
                epoch.group, epoch.base, (epoch.slots[self.slot],), self.proof, context=context
            )
        except ProofError as error:
            raise AccusationError(f"not by the owner of slot {self.slot}: {error.message}") from None


def accuse(
    epoch: Epoch,
    *,
    version: int,
    round_: int,
    position: int,
    slot: int,
    secret: int,
    entropy: Entropy,
) -> Accusation:
    """The accusation of the owner of `slot`, whose pseudonym's secret is `secret`."""
    context = _context(epoch, version, round_, position, slot)
    proof = prove_knowledge(epoch.group, epoch.base, (secret,), context=context, entropy=entropy)
    return Accusation(version=version, round=round_, position=position, slot=slot, proof=proof)


def _context(epoch: Epoch, version: int, round_: int, position: int, slot: int) -> bytes:
    numbers = b"".join(number.to_bytes(4) for number in (version, round_, position, slot))
    return _PURPOSE + epoch.epoch_id + numbers
