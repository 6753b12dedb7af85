"""The roster and its memberships: who may sign, and what contradicts itself."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_fabric.errors import ConfigError
from headtail_prifi.core.errors import MembershipError
from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.crypto.group import group_named
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.setup.errors import RosterError
from headtail_prifi.setup.memory import enrol
from headtail_prifi.setup.roster import (
    MAX_ROSTER_BYTES,
    ROSTER_PURPOSE,
    Exit,
    Membership,
    MembershipLedger,
    Party,
    Roster,
    open_roster,
    sign_roster,
)

ENROLMENT = SigningKey(b"e" * 32)
ROSTER = enrol(3, 2, SeededEntropy(b"roster"), group="secp256k1").roster
DOOR = Exit(name="door", seal_key=group_named("secp256k1").mul_base(5).encode())


def changed(**changes: object) -> Roster:
    return msgspec.structs.replace(ROSTER, **changes)


def signed(body: bytes) -> bytes:
    return ENROLMENT.sign(body, purpose=ROSTER_PURPOSE) + body


def test_a_signed_roster_opens() -> None:
    roster = changed(exits=(DOOR,))
    again = open_roster(sign_roster(roster, ENROLMENT), ENROLMENT.verify_key)
    assert again == roster
    assert again.hash == roster.hash != ROSTER.hash
    assert len(roster.hash) == 32


def test_every_field_counts_in_the_hash() -> None:
    variants = [
        ROSTER,
        changed(serial=2),
        changed(group="p256"),
        changed(min_clients=3),
        changed(clients=ROSTER.clients[::-1]),
        changed(guards=ROSTER.guards[::-1]),
        changed(relay=Party(name="other", verify_key=ROSTER.relay.verify_key)),
        changed(exits=(DOOR,)),
    ]
    assert len({roster.hash for roster in variants}) == len(variants)


def test_another_key_or_a_change_is_refused() -> None:
    data = sign_roster(ROSTER, ENROLMENT)
    with pytest.raises(RosterError, match="not signed"):
        open_roster(data, SigningKey(b"x" * 32).verify_key)
    for position in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(RosterError):
            open_roster(bytes(damaged), ENROLMENT.verify_key)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_give_a_roster_error(data: bytes) -> None:
    for candidate in (data, signed(data)):
        with pytest.raises(RosterError):
            open_roster(candidate, ENROLMENT.verify_key)


def test_another_encoding_of_the_same_roster_is_refused() -> None:
    body = ROSTER.encode()
    assert body[1] == 1, "the serial, one byte"
    longer = body[:1] + b"\xcc\x01" + body[2:]
    with pytest.raises(RosterError, match="one encoding"):
        open_roster(signed(longer), ENROLMENT.verify_key)


def test_a_roster_has_a_largest_size() -> None:
    with pytest.raises(RosterError, match="bytes"):
        open_roster(bytes(MAX_ROSTER_BYTES + 1), ENROLMENT.verify_key)


@pytest.mark.parametrize(
    ("roster", "reason"),
    [
        (changed(min_clients=4), "at least 4"),
        (changed(clients=(ROSTER.clients[0],) * 2), "one name"),
        (
            changed(guards=(*ROSTER.guards, Party(name="g", verify_key=ROSTER.relay.verify_key))),
            "one key",
        ),
        (changed(clients=(*ROSTER.clients, Party(name="c", verify_key=bytes(32)))), "low order"),
        (changed(exits=(Exit(name="door", seal_key=bytes(33)),)), "the key of door"),
        (changed(exits=(Exit(name="relay", seal_key=DOOR.seal_key),)), "one name"),
    ],
)
def test_a_roster_must_not_contradict_itself(roster: Roster, reason: str) -> None:
    with pytest.raises(RosterError, match=reason):
        sign_roster(roster, ENROLMENT)
    with pytest.raises(RosterError, match=reason):
        open_roster(signed(roster.encode()), ENROLMENT.verify_key)


def test_an_unknown_group_is_a_matter_of_configuration() -> None:
    with pytest.raises(ConfigError, match="no group"):
        sign_roster(changed(group="ed25519"), ENROLMENT)


# -- membership ------------------------------------------------------------------------------------

FIRST = Membership(epoch_id=b"e" * 32, version=0, clients=(0, 1, 2, 3))
GUARD = SigningKey(b"g" * 32)


def ledger(min_clients: int = 2) -> MembershipLedger:
    return MembershipLedger(FIRST, min_clients=min_clients)


def test_every_field_of_a_membership_counts() -> None:
    variants = {
        FIRST.hash,
        replace(FIRST, epoch_id=b"f" * 32).hash,
        replace(FIRST, version=1).hash,
        replace(FIRST, clients=(0, 1, 2)).hash,
    }
    assert len(variants) == 4


def test_leaving_makes_the_next_version() -> None:
    second = FIRST.without(1, 3)
    assert (second.version, second.clients) == (1, (0, 2))
    for gone in ((), (1,), (0, 7)):
        with pytest.raises(MembershipError, match="can't leave"):
            second.without(*gone)


def test_a_guard_endorses_a_leave_and_says_the_same_again() -> None:
    book, second = ledger(), FIRST.without(2)
    signature = book.endorse(second, GUARD)
    second.verify_endorsement(GUARD.verify_key, signature)
    assert book.endorse(second, GUARD) == signature
    assert book.current == second
    with pytest.raises(SignatureError):
        FIRST.without(1).verify_endorsement(GUARD.verify_key, signature)


def test_5_1_8_a_guard_refuses_a_second_membership_of_one_version() -> None:
    book = ledger()
    book.endorse(FIRST.without(2), GUARD)
    with pytest.raises(MembershipError, match="does not follow"):
        book.endorse(FIRST.without(1), GUARD)
    assert book.current == FIRST.without(2)


@pytest.mark.parametrize(
    "proposed",
    [
        replace(FIRST.without(1), epoch_id=b"f" * 32),
        replace(FIRST.without(1), version=2),
        replace(FIRST, version=1),
        replace(FIRST, version=1, clients=(0, 1, 2, 3, 4)),
        replace(FIRST, version=1, clients=(0, 2, 1)),
        replace(FIRST, version=1, clients=(0, 0, 1)),
        replace(FIRST, version=1, clients=(0, 1, 9)),
    ],
    ids=["epoch", "skips", "same", "grows", "disorder", "repeats", "stranger"],
)
def test_5_1_8_a_guard_refuses_what_does_not_follow(proposed: Membership) -> None:
    book = ledger()
    with pytest.raises(MembershipError, match="does not follow"):
        book.endorse(proposed, GUARD)
    assert book.current == FIRST


def test_5_1_8_a_guard_refuses_too_few_clients() -> None:
    book = ledger(min_clients=3)
    book.endorse(FIRST.without(0), GUARD)
    with pytest.raises(MembershipError, match="2 clients, at least 3"):
        book.endorse(FIRST.without(0).without(1), GUARD)
