"""The certificate of a membership: what makes a client or the relay change pads.

A membership (`setup/roster.py`) is the only thing that changes within an epoch: a client left or
was expelled. Its hash goes into every pad key, so nothing decodes in a round in which two honest
parties hold different ones; and as an honest guard endorses one per version, there are no two.
"""

from typing import Annotated

from msgspec import Meta

from headtail_prifi.core.body import Body, Signature
from headtail_prifi.core.errors import MembershipError
from headtail_prifi.core.header import MAX_VERSION
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.setup.epoch import Epoch
from headtail_prifi.setup.roster import Membership

Bitmap = Annotated[bytes, Meta(max_length=512)]


class Certificate(Body, frozen=True, kw_only=True):
    """A membership's version, its clients (bit i, most significant first, for client i of the
    epoch) and every guard's signature of it, in order."""

    version: Annotated[int, Meta(ge=1, le=MAX_VERSION)]
    clients: Bitmap
    signatures: Annotated[tuple[Signature, ...], Meta(max_length=64)]


def pack_clients(clients: tuple[int, ...], count: int) -> bytes:
    """A bitmap over the `count` clients of an epoch."""
    bits = bytearray(-(-count // 8))
    for client in clients:
        bits[client >> 3] |= 0x80 >> (client & 7)
    return bytes(bits)


def unpack_clients(bitmap: bytes, count: int) -> tuple[int, ...]:
    """The clients of a bitmap; MembershipError unless it has one bit for each of `count`."""
    if len(bitmap) != -(-count // 8):
        raise MembershipError(f"a bitmap of {len(bitmap)} bytes for {count} clients")
    return tuple(client for client in range(count) if bitmap[client >> 3] & (0x80 >> (client & 7)))


def check_certificate(certificate: Certificate, epoch: Epoch, current: Membership) -> Membership:
    """The membership that follows `current`, its signatures checked.

    Raises MembershipError unless it is newer, a part of the current one, not below the roster's
    least number of clients, and endorsed by every guard.
    """
    membership = Membership(
        epoch_id=epoch.epoch_id,
        version=certificate.version,
        clients=unpack_clients(certificate.clients, epoch.client_count),
    )
    if membership.version <= current.version:
        raise MembershipError(f"version {membership.version} after {current.version}")
    if not set(membership.clients) <= set(current.clients):
        raise MembershipError("a client that left came back within the epoch")
    if len(membership.clients) < epoch.roster.min_clients:
        raise MembershipError(f"only {len(membership.clients)} clients are left")
    if len(certificate.signatures) != epoch.guard_count:
        raise MembershipError("a membership without a signature of each guard")
    for guard, signature in enumerate(certificate.signatures):
        try:
            membership.verify_endorsement(epoch.guard_verify_key(guard), signature)
        except SignatureError as error:
            raise MembershipError(f"guard {guard} did not endorse: {error.message}") from None
    return membership
