"""Who sends which bundle, and how far it has come: the core of taking bundles from devices.

Sessions offer bundles that are lacking here. One of them at a time sends a bundle, in parts that
each begin where the last one ended. An `Ask` tells it from where on bytes are wanted; as the
answer to a part it is the acknowledgement. Parts that come twice are acknowledged again, parts
beyond a gap are left to be sent again. What came is kept when the sender goes silent or away, and
the next one that offers the bundle goes on from there.
"""

from dataclasses import dataclass
from typing import Final

STALLED_S: Final = 15.0
"""A sender that is silent for this long makes way for the next."""

REFUSED_S: Final = 60.0
"""For this long a user is not asked again for a bundle that was refused."""

_OFFERS_A_SESSION: Final = 8
_REFUSALS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleOffered:
    """A session, of that user, has a bundle that is lacking here and would send it."""

    session: bytes
    user: str
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What there is of a bundle from before: the first `offset` of `total` bytes."""

    offset: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Tell the session that the bytes from `offset` on are wanted."""

    session: bytes
    digest: bytes
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Write the part behind what there is. Then `Ask` for the rest, or the bundle is complete."""

    offset: int
    then: Ask | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOver:
    """Throw away what there is: it is of another packing of the bundle. Then `Ask`."""

    then: Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Throw away what there is and take no more of it from this sender."""

    reason: str


Decision = Ask | Append | StartOver | Refuse | None


class _Transfer:
    """One bundle on its way; `total` is known from the first part on."""

    __slots__ = ("heard_at", "offset", "session", "total")

    def __init__(self, *, session: bytes, held: Held | None, now: float) -> None:
        self.session = session
        self.offset = held.offset if held is not None else 0
        self.total = held.total if held is not None else None
        self.heard_at = now


class PushCore:
    """All offers and transfers of one edge; at most `max_transfers` at a time, of `max_bytes`
    each."""

    def __init__(self, *, max_bytes: int, max_transfers: int = 4) -> None:
        self._max_bytes = max_bytes
        self._max_transfers = max_transfers
        self._offers: dict[bytes, dict[bytes, BundleOffered]] = {}
        self._transfers: dict[bytes, _Transfer] = {}
        self._refusals: dict[tuple[str, bytes], tuple[float, str]] = {}

    def __repr__(self) -> str:
        transfers = ", ".join(
            f"{digest.hex()[:12]}: {transfer.offset}/{transfer.total}"
            for digest, transfer in self._transfers.items()
        )
        return f"<PushCore {len(self._offers)} bundles offered, {{{transfers}}} on their way>"

    def offered(self, offer: BundleOffered) -> None:
        """Remember an offer; a session has a few at most."""
        kept = sum(offer.session in sessions for sessions in self._offers.values())
        if kept < _OFFERS_A_SESSION:
            self._offers.setdefault(offer.digest, {}).setdefault(offer.session, offer)

    def next_offer(self, now: float) -> BundleOffered | None:
        """An offer to take up now, by `begin` or by `refused`; the first made goes first."""
        for digest, transfer in list(self._transfers.items()):
            if now >= transfer.heard_at + STALLED_S:
                del self._transfers[digest]
                sessions = self._offers[digest]
                sessions[transfer.session] = sessions.pop(transfer.session)
        for sender, (until, _) in list(self._refusals.items()):
            if now >= until:
                del self._refusals[sender]
        if len(self._transfers) >= self._max_transfers:
            return None
        for digest, sessions in self._offers.items():
            if digest in self._transfers:
                continue
            for offer in sessions.values():
                if (offer.user, digest) not in self._refusals:
                    return offer
        return None

    def begin(self, offer: BundleOffered, held: Held | None, now: float) -> Ask:
        """Take up an offer, with what there is of the bundle already."""
        transfer = _Transfer(session=offer.session, held=held, now=now)
        self._transfers[offer.digest] = transfer
        return Ask(session=offer.session, digest=offer.digest, offset=transfer.offset)

    def next_timer(self) -> float | None:
        """When `next_offer` may have something new to say though nothing happens."""
        times = [transfer.heard_at + STALLED_S for transfer in self._transfers.values()]
        for (user, digest), (until, _) in self._refusals.items():
            offers = self._offers.get(digest, {}).values()
            if digest not in self._transfers and any(offer.user == user for offer in offers):
                times.append(until)
        return min(times, default=None)

    def part(
        self, session: bytes, digest: bytes, *, offset: int, total: int, size: int, now: float
    ) -> Decision:
        """`size` bytes came that lie at `offset` of `total`; None when they are of no use."""
        transfer = self._transfers.get(digest)
        if transfer is None or transfer.session != session:
            return None
        if total > self._max_bytes:
            return Refuse(reason=f"it has {total} bytes, the limit is {self._max_bytes}")
        if size == 0 or offset + size > total:
            return Refuse(reason="a part is empty or runs beyond the end")
        transfer.heard_at = now
        if transfer.total is None:
            transfer.total = total
        elif transfer.total != total:
            transfer.offset, transfer.total = 0, total
            return StartOver(then=Ask(session=session, digest=digest, offset=0))
        if offset > transfer.offset:
            return None
        again = offset < transfer.offset
        if not again:
            transfer.offset += size
        ask = Ask(session=session, digest=digest, offset=transfer.offset)
        if again:
            return ask
        return Append(offset=offset, then=ask if transfer.offset < total else None)

    def served(self, digest: bytes) -> None:
        """The bundle is here: nobody need send it."""
        self._transfers.pop(digest, None)
        self._offers.pop(digest, None)

    def refused(self, user: str, digest: bytes, reason: str, now: float) -> None:
        """What this user sent, or would send, is not taken; others who offer it may try."""
        self._transfers.pop(digest, None)
        while len(self._refusals) >= _REFUSALS:
            del self._refusals[next(iter(self._refusals))]
        self._refusals[user, digest] = (now + REFUSED_S, reason)

    def refusal(self, user: str, digest: bytes, now: float) -> str | None:
        """Why this user is not asked for the bundle at present, if so."""
        until, reason = self._refusals.get((user, digest), (now, ""))
        return reason if now < until else None

    def session_closed(self, session: bytes) -> None:
        """Its offers are void; what it was sending may come from another session."""
        for digest, transfer in list(self._transfers.items()):
            if transfer.session == session:
                del self._transfers[digest]
        for digest, sessions in list(self._offers.items()):
            sessions.pop(session, None)
            if not sessions:
                del self._offers[digest]
