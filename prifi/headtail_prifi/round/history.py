"""The history: a hash chain over every byte that the relay broadcast in an epoch.

    link_-1 = H(start, epoch id)          link_r = H(next, link_{r-1}, signed part of downstream r)

The relay signs (epoch id, r, link_r), never a frame alone, so one signature vouches for the whole
history up to r. Two of them with one r and different links are a proof of equivocation that
anybody can check, and as chains that once differed differ for ever (SHA-256), any later r will do.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from headtail_prifi.core.header import Buffer
from headtail_prifi.crypto.signature import SigningKey, verify_signature

PURPOSE: Final = "prifi/history"

_START: Final = b"prifi/history/start\0"
_NEXT: Final = b"prifi/history/next\0"


def first_link(epoch_id: bytes) -> bytes:
    """32 bytes: the history before round 0."""
    return hashlib.sha256(_START + epoch_id).digest()


def next_link(link: bytes, signed: Buffer) -> bytes:
    """32 bytes: the history after a downstream frame, given as header and body."""
    digest = hashlib.sha256(_NEXT + link)
    digest.update(signed)
    return digest.digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStatement:
    """The relay's word that the history of the epoch was `link` after round `round`."""

    epoch_id: bytes
    round: int
    link: bytes
    signature: bytes

    @classmethod
    def signed(
        cls, *, epoch_id: bytes, round: int, link: bytes, key: SigningKey
    ) -> "HistoryStatement":
        """The statement with the relay's signature."""
        signature = key.sign(_content(epoch_id, round, link), purpose=PURPOSE)
        return cls(epoch_id=epoch_id, round=round, link=link, signature=signature)

    def verify(self, relay_key: bytes) -> None:
        """Raises SignatureError unless the relay signed it."""
        content = _content(self.epoch_id, self.round, self.link)
        verify_signature(relay_key, self.signature, content, purpose=PURPOSE)


def _content(epoch_id: bytes, round: int, link: bytes) -> bytes:
    return epoch_id + round.to_bytes(4) + link
