"""Vouchers: signatures by which a party owns up to the ciphers that it sent.

To sign every cipher would cost more than all the rest of a round. A client signs the Merkle root of
its ciphers' hashes once per window of 64 rounds (aligned, or shorter at the start of a membership)
and when it is called to before a case; a guard signs each batch. The relay compares with what it
received. So a relay can't frame anybody with a cipher that was never sent, its sender can't deny
one, and a *receipt* of 300 bytes shows to anybody which cipher a party sent in a round.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from headtail_prifi.core.body import Body, Hash, Round, Signature
from headtail_prifi.core.header import Buffer
from headtail_prifi.core.seat import Seat
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.crypto.signature import SigningKey, verify_signature

PURPOSE: Final = "prifi/voucher"
WINDOW_ROUNDS: Final = 64
MAX_VOUCHED_ROUNDS: Final = 256

_LEAF: Final = b"prifi/cipher\0"
_NODE: Final = b"prifi/node\0"


def closes_window(round_: int) -> bool:
    """Whether the upstream frame of this round carries a voucher."""
    return round_ % WINDOW_ROUNDS == WINDOW_ROUNDS - 1


def window_start(round_: int, first_round: int) -> int:
    """The first round of the window of `round_` in a membership that began at `first_round`."""
    return max(first_round, round_ - round_ % WINDOW_ROUNDS)


def cipher_digest(cipher: Buffer) -> bytes:
    """32 bytes that name the cipher of a round: a leaf."""
    digest = hashlib.sha256(_LEAF)
    digest.update(cipher)
    return digest.digest()


@dataclass(frozen=True, slots=True)
class Span:
    """Whose ciphers, of which rounds under which membership."""

    epoch_id: bytes
    version: int
    seat: Seat
    first: int
    count: int

    def sign(self, root: bytes, key: SigningKey) -> bytes:
        """The voucher: 64 bytes."""
        return key.sign(self._content(root), purpose=PURPOSE)

    def verify(self, root: bytes, voucher: bytes, verify_key: bytes) -> None:
        """Raises SignatureError unless the party signed exactly this."""
        verify_signature(verify_key, voucher, self._content(root), purpose=PURPOSE)

    def _content(self, root: bytes) -> bytes:
        return b"".join(
            (
                self.epoch_id,
                self.version.to_bytes(4),
                self.seat.encode(),
                self.first.to_bytes(4),
                self.count.to_bytes(4),
                root,
            )
        )


class Receipt(Body, frozen=True, kw_only=True):
    """That a party sent the cipher with this digest: a leaf, its path to the root of the span
    (`first`, `count`), and the party's voucher for the root."""

    first: Round
    count: Annotated[int, Meta(ge=1, le=MAX_VOUCHED_ROUNDS)]
    digest: Hash
    path: Annotated[tuple[Hash, ...], Meta(max_length=8)]
    voucher: Signature

    def verify(self, span: Span, round_: int, verify_key: bytes) -> None:
        """Raises SignatureError unless it holds for `round_` of the span."""
        offset = round_ - span.first
        if not 0 <= offset < span.count:
            raise SignatureError(f"a receipt for another round than {round_}")
        span.verify(_climb(self.digest, offset, span.count, self.path), self.voucher, verify_key)


class CipherLog:
    """The digests of one party's ciphers under one membership, of the last `retain` rounds."""

    def __init__(
        self, *, epoch_id: bytes, version: int, seat: Seat, first_round: int, retain: int
    ) -> None:
        self._epoch_id = epoch_id
        self._version = version
        self._seat = seat
        self._retain = retain + WINDOW_ROUNDS
        self._digests: dict[int, bytes] = {}
        self._vouchers: dict[int, tuple[int, bytes]] = {}
        self.first_round = first_round

    def add(self, round_: int, cipher: Buffer) -> None:
        """Note the cipher of a round; the first one counts."""
        digests = self._digests
        if round_ not in digests:
            digests[round_] = cipher_digest(cipher)
            digests.pop(round_ - self._retain, None)
            if self._vouchers:
                self._vouchers.pop(round_ - self._retain, None)

    def sign(self, first: int, count: int, key: SigningKey) -> bytes:
        """This party's voucher; KeyError when one of the rounds is not in the log."""
        return self._span(first, count).sign(self._root(first, count), key)

    def accept(self, first: int, count: int, voucher: bytes, verify_key: bytes) -> None:
        """Check and keep a voucher of another party.

        Raises SignatureError when it is not for what is in this log; KeyError when a round is not.
        """
        self._span(first, count).verify(self._root(first, count), voucher, verify_key)
        self._vouchers[first] = (count, voucher)

    def vouched(self, round_: int) -> bool:
        """Whether a kept voucher covers the round."""
        return self._covering(round_) is not None

    def receipt(self, round_: int) -> Receipt:
        """The receipt for a vouched round; KeyError when it is not."""
        first = self._covering(round_)
        if first is None:
            raise KeyError(round_)
        count, voucher = self._vouchers[first]
        leaves = self._leaves(first, count)
        return Receipt(
            first=first,
            count=count,
            digest=self._digests[round_],
            path=_path(leaves, round_ - first),
            voucher=voucher,
        )

    def _covering(self, round_: int) -> int | None:
        for first, (count, _) in self._vouchers.items():
            if first <= round_ < first + count:
                return first
        return None

    def _span(self, first: int, count: int) -> Span:
        return Span(self._epoch_id, self._version, self._seat, first, count)

    def _leaves(self, first: int, count: int) -> list[bytes]:
        return [self._digests[round_] for round_ in range(first, first + count)]

    def _root(self, first: int, count: int) -> bytes:
        level = self._leaves(first, count)
        while len(level) > 1:
            level = _above(level)
        return level[0]


def _join(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_NODE + left + right).digest()


def _above(level: Sequence[bytes]) -> list[bytes]:
    """One level up the tree; an odd last node is carried up as it is."""
    sha256 = hashlib.sha256
    pairs = [sha256(_NODE + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)]
    return pairs + list(level[len(level) - len(level) % 2 :])


def _path(leaves: Sequence[bytes], offset: int) -> tuple[bytes, ...]:
    path = []
    level: Sequence[bytes] = leaves
    while len(level) > 1:
        sibling = offset ^ 1
        if sibling < len(level):
            path.append(level[sibling])
        level, offset = _above(level), offset // 2
    return tuple(path)


def _climb(leaf: bytes, offset: int, count: int, path: Sequence[bytes]) -> bytes:
    """The root over `count` leaves; SignatureError when the path has another length."""
    nodes = iter(path)
    node = leaf
    try:
        while count > 1:
            if offset ^ 1 < count:
                sibling = next(nodes)
                node = _join(sibling, node) if offset & 1 else _join(node, sibling)
            count, offset = -(-count // 2), offset // 2
    except StopIteration:
        raise SignatureError("a receipt with too short a path") from None
    if next(nodes, None) is not None:
        raise SignatureError("a receipt with too long a path")
    return node
