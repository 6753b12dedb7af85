"""Who may take part: the roster, signed by the enrolment key, and its versions within an epoch.

The roster is the trust anchor of everything else: it pins the signature keys of clients, guards
and relay, the seal keys of exits, the group, and the least number of clients that is an anonymity
set. An epoch is made of some of its clients and all of its guards. A *membership* is the list of
clients that are in an epoch now; its version grows with each leave, and all guards sign one
membership per version.
"""

import hashlib
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from headtail_prifi.core.errors import MembershipError
from headtail_prifi.crypto.errors import EncodingError, SignatureError
from headtail_prifi.crypto.group import group_named
from headtail_prifi.crypto.signature import (
    SIGNATURE_BYTES,
    SigningKey,
    check_verify_key,
    verify_signature,
)
from headtail_prifi.setup.errors import RosterError

MAX_CLIENTS: Final = 2048
MAX_GUARDS: Final = 16
MAX_EXITS: Final = 64
MAX_ROSTER_BYTES: Final = 512 * 1024
MIN_CLIENTS: Final = 2

ROSTER_PURPOSE: Final = "prifi/roster"
MEMBERSHIP_PURPOSE: Final = "prifi/membership"

VerifyKey = Annotated[bytes, Meta(min_length=32, max_length=32)]
EncodedPoint = Annotated[bytes, Meta(min_length=33, max_length=33)]
Name = Annotated[str, Meta(min_length=1, max_length=64)]


class _Struct(
    msgspec.Struct, frozen=True, array_like=True, kw_only=True, forbid_unknown_fields=True
):
    pass


class Party(_Struct, frozen=True, kw_only=True):
    """A client, guard or relay: its name for people, and its pinned Ed25519 key."""

    name: Name
    verify_key: VerifyKey


class Exit(_Struct, frozen=True, kw_only=True):
    """Where traffic leaves the DC-net; `seal_key` is a point of the roster's group."""

    name: Name
    seal_key: EncodedPoint


class Roster(_Struct, frozen=True, kw_only=True):
    """Everybody who is enrolled. `serial` grows with each roster that the enrolment key signs."""

    serial: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    group: Annotated[str, Meta(max_length=32)]
    min_clients: Annotated[int, Meta(ge=MIN_CLIENTS, le=MAX_CLIENTS)]
    clients: Annotated[tuple[Party, ...], Meta(min_length=MIN_CLIENTS, max_length=MAX_CLIENTS)]
    guards: Annotated[tuple[Party, ...], Meta(min_length=1, max_length=MAX_GUARDS)]
    relay: Party
    exits: Annotated[tuple[Exit, ...], Meta(max_length=MAX_EXITS)] = ()

    def encode(self) -> bytes:
        """The one encoding that is signed and hashed."""
        return _encoder.encode(self)

    @property
    def hash(self) -> bytes:
        """SHA-256 of the encoding, with its purpose: 32 bytes."""
        return _hash(ROSTER_PURPOSE, self.encode())


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Roster)


def sign_roster(roster: Roster, enrolment_key: SigningKey) -> bytes:
    """The roster as a file: signature, then encoding. Raises RosterError if it contradicts
    itself."""
    _check(roster)
    body = roster.encode()
    return enrolment_key.sign(body, purpose=ROSTER_PURPOSE) + body


def open_roster(signed: bytes, enrolment_verify_key: bytes) -> Roster:
    """The roster of such a file.

    Raises RosterError, whatever comes, and ConfigError when the library for the group that a good
    roster names is not installed here.
    """
    if not SIGNATURE_BYTES < len(signed) <= MAX_ROSTER_BYTES:
        raise RosterError(f"a roster of {len(signed)} bytes")
    signature, body = signed[:SIGNATURE_BYTES], signed[SIGNATURE_BYTES:]
    try:
        verify_signature(enrolment_verify_key, signature, body, purpose=ROSTER_PURPOSE)
        roster = _decoder.decode(body)
    except SignatureError:
        raise RosterError("the roster is not signed by the enrolment key") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RosterError(f"a malformed roster: {error}") from None
    if roster.encode() != body:
        raise RosterError("the roster is not in its one encoding")
    _check(roster)
    return roster


def _check(roster: Roster) -> None:
    if len(roster.clients) < roster.min_clients:
        raise RosterError(f"{len(roster.clients)} clients, at least {roster.min_clients} wanted")
    parties = (*roster.clients, *roster.guards, roster.relay)
    names = [party.name for party in parties] + [door.name for door in roster.exits]
    if len(set(names)) != len(names):
        raise RosterError("two parties of the roster have one name")
    keys = [party.verify_key for party in parties]
    if len(set(keys)) != len(keys):
        raise RosterError("two parties of the roster have one key")
    for party in parties:
        try:
            check_verify_key(party.verify_key)
        except EncodingError as error:
            raise RosterError(f"the key of {party.name}: {error.message}") from None
    group = group_named(roster.group)
    for door in roster.exits:
        try:
            group.decode(door.seal_key)
        except EncodingError as error:
            raise RosterError(f"the key of {door.name}: {error.message}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The clients that are in an epoch, by their index in it; version 0 is all of them."""

    epoch_id: bytes
    version: int
    clients: tuple[int, ...]

    @property
    def hash(self) -> bytes:
        """SHA-256 of epoch, version and clients: 32 bytes. Pad keys and endorsements bind it."""
        body = self.epoch_id + self.version.to_bytes(8)
        body += b"".join(client.to_bytes(4) for client in self.clients)
        return _hash(MEMBERSHIP_PURPOSE, body)

    def without(self, *leaving: int) -> "Membership":
        """The next version, in which these clients are gone."""
        if not leaving or not set(leaving) <= set(self.clients):
            raise MembershipError(f"clients {leaving} can't leave, as they are not members")
        return Membership(
            epoch_id=self.epoch_id,
            version=self.version + 1,
            clients=tuple(client for client in self.clients if client not in leaving),
        )

    def endorse(self, key: SigningKey) -> bytes:
        """A guard's signature; only `MembershipLedger` may ask for it."""
        return key.sign(self.hash, purpose=MEMBERSHIP_PURPOSE)

    def verify_endorsement(self, guard_key: bytes, signature: bytes) -> None:
        """Raises SignatureError unless the guard endorsed exactly this membership."""
        verify_signature(guard_key, signature, self.hash, purpose=MEMBERSHIP_PURPOSE)


class MembershipLedger:
    """A guard's memory of what it endorsed in an epoch: one membership per version, each smaller
    than the one before, none below `min_clients`."""

    def __init__(self, first: Membership, *, min_clients: int) -> None:
        self._current = first
        self._min_clients = min_clients

    @property
    def current(self) -> Membership:
        """The newest membership."""
        return self._current

    def endorse(self, proposed: Membership, key: SigningKey) -> bytes:
        """The guard's signature; the same again when the newest membership is asked for again.

        Raises MembershipError and changes nothing when a rule is broken.
        """
        current = self._current
        if proposed == current:
            return proposed.endorse(key)
        leaving = set(current.clients) - set(proposed.clients)
        if not leaving or proposed != current.without(*leaving):
            raise MembershipError(
                f"membership version {proposed.version} does not follow {current.version}"
            )
        if len(proposed.clients) < self._min_clients:
            raise MembershipError(
                f"{len(proposed.clients)} clients, at least {self._min_clients} wanted"
            )
        self._current = proposed
        return proposed.endorse(key)


def _hash(purpose: str, body: bytes) -> bytes:
    label = purpose.encode()
    return hashlib.sha256(len(label).to_bytes(2) + label + body).digest()
