"""An accusation: the owner of a sub-slot swears that it sent a 0 where the relay got a 1.

Only such bits are accused: opening a bit that the owner sent as 1 would show who it is. It is made
with the pseudonym's key, so it names a slot and no client, and it travels inside the DC-net (or,
when that is jammed, through the accusation shuffle), so nobody sees from where it comes. It binds
the history that the owner saw: nobody can set it beside another record later.
"""

import hashlib
from struct import Struct
from typing import Annotated, Final

from msgspec import Meta

from headtail_prifi.core.body import Body, Hash, Round
from headtail_prifi.core.errors import AccusationError, FrameError
from headtail_prifi.core.header import MAX_VERSION
from headtail_prifi.core.messages import NOBODY
from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.errors import ProofError
from headtail_prifi.crypto.sigma import KNOWLEDGE_BYTES, prove_knowledge, verify_knowledge
from headtail_prifi.setup.epoch import Epoch

PROOF_BYTES: Final = KNOWLEDGE_BYTES

_PURPOSE: Final = b"prifi/accusation\0"
_RECORD: Final = b"prifi/record\0"
_PACKED: Final = Struct(f">HIIH32s{PROOF_BYTES}s")
PACKED_BYTES: Final = _PACKED.size


class Accusation(Body, frozen=True, kw_only=True):
    """`slot` owned the bit `position` of round `round` under this membership version, and did not
    set it; `record` names the frames that opened the round and showed the bit (`record_of`). The
    proof is Schnorr's, of the pseudonym's key, over all the other fields."""

    version: Annotated[int, Meta(ge=0, le=MAX_VERSION)]
    round: Round
    position: Annotated[int, Meta(ge=0, lt=2**24)]
    slot: Annotated[int, Meta(ge=0, lt=NOBODY)]
    record: Hash
    proof: Annotated[bytes, Meta(min_length=PROOF_BYTES, max_length=PROOF_BYTES)]

    def pack(self) -> bytes:
        """`PACKED_BYTES` bytes: they fit into the smallest cell."""
        return _PACKED.pack(
            self.version, self.round, self.position, self.slot, self.record, self.proof
        )

    def verify(self, epoch: Epoch) -> None:
        """Raises AccusationError unless the owner of the slot made it."""
        if self.slot >= len(epoch.slots):
            raise AccusationError(f"an accusation by slot {self.slot}, which does not exist")
        try:
            verify_knowledge(
                epoch.group,
                epoch.base,
                (epoch.slots[self.slot],),
                self.proof,
                context=_context(
                    epoch, self.version, self.round, self.position, self.slot, self.record
                ),
            )
        except ProofError as error:
            raise AccusationError(
                f"not by the owner of slot {self.slot}: {error.message}"
            ) from None


def unpack_accusation(packed: bytes) -> Accusation:
    """The inverse of `pack`; FrameError for everything else."""
    if len(packed) != PACKED_BYTES:
        raise FrameError(f"an accusation of {len(packed)} bytes")
    version, round_, position, slot, record, proof = _PACKED.unpack(packed)
    if position >= 2**24 or slot == NOBODY:
        raise FrameError("an accusation out of its limits")
    return Accusation(
        version=version, round=round_, position=position, slot=slot, record=record, proof=proof
    )


def record_of(opened_link: bytes, shown_link: bytes) -> bytes:
    """32 bytes that name two frames by the history after each."""
    return hashlib.sha256(_RECORD + opened_link + shown_link).digest()


def accuse(
    epoch: Epoch,
    *,
    version: int,
    round_: int,
    position: int,
    slot: int,
    record: bytes,
    secret: int,
    entropy: Entropy,
) -> Accusation:
    """The accusation of the owner of `slot`, whose pseudonym's secret is `secret`."""
    context = _context(epoch, version, round_, position, slot, record)
    proof = prove_knowledge(epoch.group, epoch.base, (secret,), context=context, entropy=entropy)
    return Accusation(
        version=version, round=round_, position=position, slot=slot, record=record, proof=proof
    )


def _context(
    epoch: Epoch, version: int, round_: int, position: int, slot: int, record: bytes
) -> bytes:
    numbers = b"".join(number.to_bytes(4) for number in (version, round_, position, slot))
    return _PURPOSE + epoch.epoch_id + numbers + record
