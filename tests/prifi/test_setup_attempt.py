"""Whole attempts in memory: honest ones end in one epoch, each attack ends without."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_prifi.core.seat import RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.crypto.group import group_named
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.setup.charter import read_epoch
from headtail_prifi.setup.core import Failed, Ready, SetupCore
from headtail_prifi.setup.epoch import open_pad_key
from headtail_prifi.setup.errors import (
    AbandonedError,
    KeyRefusedError,
    OutcomeRefusedError,
    SetupError,
    ShuffleRefusedError,
    SilentPartyError,
)
from headtail_prifi.setup.memory import Enrolment, Finished, SetupSwarm, Tamper, enrol, run_setup
from headtail_prifi.setup.messages import (
    Abort,
    Announcement,
    ClientKeys,
    Endorsement,
    GuardKeys,
    Message,
    Outcome,
    Reason,
    ShuffleProof,
    ShuffleStep,
    pack,
    unpack,
)

GROUPS = ["secp256k1", "p256"]
GROUP = group_named("secp256k1")
CLIENTS, GUARDS = 3, 2
ENROLMENT = enrol(CLIENTS, GUARDS, SeededEntropy(b"enrolment"), group="secp256k1")


def attempt(tamper: Tamper, seed: bytes = b"attempt", number: int = 1) -> SetupSwarm:
    swarm = SetupSwarm(ENROLMENT, SeededEntropy(seed), number=number, tamper=tamper)
    swarm.run()
    return swarm


def key_of(seat: Seat, enrolment: Enrolment = ENROLMENT) -> SigningKey:
    if seat.role is Role.RELAY:
        return enrolment.relay
    keys = enrolment.clients if seat.role is Role.CLIENT else enrolment.guards
    return keys[seat.index]


def lying(
    kind: type[Message], change: Callable[[Message], Message | None], by: Seat | None = None
) -> Tamper:
    """A party that says something else, under its own signature, than the protocol wants."""

    def tamper(source: Seat, target: Seat, frame: bytes) -> Sequence[bytes]:
        message = unpack(frame).message
        author = message.author
        if source != author or not isinstance(message, kind) or by not in (None, author):
            return (frame,)
        changed = change(message)
        return () if changed is None else (pack(changed, key_of(author)).frame,)

    return tamper


def failure(swarm: SetupSwarm, seat: Seat) -> Failed:
    event = swarm.events[seat]
    assert isinstance(event, Failed)
    return event


def nobody_is_ready(swarm: SetupSwarm, role: Role = Role.CLIENT) -> bool:
    return not any(
        isinstance(event, Ready) for seat, event in swarm.events.items() if seat.role is role
    )


# -- honest ----------------------------------------------------------------------------------------


def check(finished: Finished) -> None:
    """5.1-7: every client has a slot of its own, and every pair one secret of its own."""
    epoch, clients, guards = finished
    assert len({client.slot for client in clients}) == epoch.client_count == len(epoch.slots)
    membership = epoch.membership
    pads = set()
    for client in clients:
        assert epoch.slots[client.slot] == epoch.group.mul(epoch.base, client.pseudonym)
        assert epoch.client_keys[client.client] == epoch.group.mul_base(client.exponent)
        for guard in guards:
            assert epoch.guard_keys[guard.guard] == epoch.group.mul_base(guard.exponent)
            assert client.shared[guard.guard] == guard.shared[client.client]
            key = client.pad_keys(membership)[guard.guard]
            assert key == guard.pad_keys(membership)[client.client]
            opened = epoch.group.mul(epoch.client_keys[client.client], guard.exponent)
            assert key == open_pad_key(opened, membership, client.client, guard.guard)
            pads.add(key)
    assert len(pads) == len(clients) * len(guards)
    for guard in guards:
        assert epoch.accusation_keys[guard.guard] == epoch.group.mul_base(guard.accusation)


@pytest.mark.parametrize("group", GROUPS)
@settings(max_examples=6, deadline=None)
@given(st.integers(2, 6), st.integers(1, 4), st.binary(max_size=4))
def test_an_honest_attempt_ends_in_one_epoch(
    group: str, clients: int, guards: int, seed: bytes
) -> None:
    _, finished = run_setup(clients, guards, SeededEntropy(seed), group=group)
    check(finished)


def test_both_backends_give_the_same_slots() -> None:
    """Differential: the permutations come from the seed, not from the curve."""
    slots = []
    for group in GROUPS:
        _, finished = run_setup(5, 3, SeededEntropy(b"differential"), group=group)
        slots.append([client.slot for client in finished.clients])
    assert slots[0] == slots[1]
    assert sorted(slots[0]) == list(range(5))


def test_a_part_of_the_roster_may_form_an_epoch() -> None:
    entropy = SeededEntropy(b"part")
    enrolment = enrol(5, 2, entropy, group="secp256k1")
    swarm = SetupSwarm(enrolment, entropy, members=(0, 2, 4), parameters=b"cells")
    swarm.run()
    epoch = swarm.finished().epoch
    check(swarm.finished())
    assert (epoch.members, epoch.number, epoch.parameters) == ((0, 2, 4), 1, b"cells")
    assert (epoch.client_count, epoch.guard_count) == (3, 2)
    assert epoch.client_verify_key(1) == enrolment.clients[2].verify_key
    assert epoch.guard_verify_key(1) == enrolment.guards[1].verify_key


def test_pads_change_with_the_membership() -> None:
    _, (epoch, clients, guards) = run_setup(3, 2, SeededEntropy(b"pads"), group="secp256k1")
    first, second = epoch.membership, epoch.membership.without(1)
    before, after = clients[2].pad_keys(first), clients[2].pad_keys(second)
    assert not set(before) & set(after)
    assert guards[0].pad_keys(second) == (clients[0].pad_keys(second)[0], after[0])


def test_two_epochs_have_nothing_in_common() -> None:
    one, other = (
        attempt(lambda source, target, frame: (frame,), seed).finished()
        for seed in (b"one", b"other")
    )
    assert one.epoch.epoch_id != other.epoch.epoch_id
    assert not set(one.epoch.slots) & set(other.epoch.slots)
    assert not set(one.clients[0].shared) & set(other.clients[0].shared)


def test_secrets_are_not_shown() -> None:
    _, (_, clients, guards) = run_setup(2, 1, SeededEntropy(b"shown"), group="secp256k1")
    assert repr(clients[1]) == "ClientSecrets(client=1)"
    assert repr(guards[0]) == "GuardSecrets(guard=0)"


def test_links_take_their_time() -> None:
    """Announcement, keys, one round trip a guard, proof, endorsement, outcome."""
    delays = {Role.CLIENT: 0.01, Role.GUARD: 0.1}
    swarm = SetupSwarm(ENROLMENT, SeededEntropy(b"slow"), delay_s=lambda seat: delays[seat.role])
    swarm.run()
    check(swarm.finished())
    assert swarm.now == pytest.approx(0.2 + GUARDS * 0.2 + 0.2 + 0.1)


def test_the_charter_is_enough_for_a_third_party() -> None:
    swarm = attempt(lambda source, target, frame: (frame,))
    epoch = swarm.finished().epoch
    assert read_epoch(ENROLMENT.roster, epoch.charter) == epoch
    assert repr(swarm.relay) == "RelaySetup(READY, clients missing=0, guards missing=0)"
    assert repr(swarm.guards[1]) == "GuardSetup(guard 1, READY)"
    assert repr(swarm.clients[2]) == "ClientSetup(client 2, READY)"


# -- clients that lie ------------------------------------------------------------------------------


def client_keys(change: Callable[[ClientKeys, list[ClientKeys]], ClientKeys]) -> Tamper:
    """Client 2 answers last, having seen what the others sent."""
    seen: list[ClientKeys] = []

    def lie(message: Message) -> Message:
        assert isinstance(message, ClientKeys)
        if message.client != 2:
            seen.append(message)
            return message
        return change(message, seen)

    return lying(ClientKeys, lie)


def times_two(encoded: bytes) -> bytes:
    return GROUP.mul(GROUP.decode(encoded), 2).encode()


@pytest.mark.parametrize(
    "change",
    [
        lambda own, seen: msgspec.structs.replace(own, pseudonym=seen[0].pseudonym),
        lambda own, seen: msgspec.structs.replace(own, pad_key=seen[0].pad_key),
        lambda own, seen: msgspec.structs.replace(seen[0], client=2),
        lambda own, seen: msgspec.structs.replace(own, pseudonym=times_two(seen[0].pseudonym)),
        lambda own, seen: msgspec.structs.replace(own, pad_key=times_two(seen[0].pad_key)),
        lambda own, seen: msgspec.structs.replace(own, proof=seen[0].proof),
        lambda own, seen: msgspec.structs.replace(own, proof=bytes(64)),
        lambda own, seen: msgspec.structs.replace(own, pseudonym=bytes(33)),
        lambda own, seen: msgspec.structs.replace(own, pad_key=b"\x02" + b"\xff" * 32),
        lambda own, seen: msgspec.structs.replace(own, pseudonym=own.pad_key),
    ],
    ids=[
        "copied pseudonym",
        "copied pad key",
        "all copied",
        "related pseudonym",
        "related pad key",
        "replayed proof",
        "no proof",
        "identity",
        "off the curve",
        "one key twice",
    ],
)
def test_a_client_with_bad_keys_is_named_by_everybody(
    change: Callable[[ClientKeys, list[ClientKeys]], ClientKeys],
) -> None:
    swarm = attempt(client_keys(change))
    assert nobody_is_ready(swarm)
    assert failure(swarm, RELAY).culprits == (client_seat(2),)
    assert isinstance(failure(swarm, RELAY).error, KeyRefusedError)
    for seat in (client_seat(0), client_seat(1), guard_seat(0)):
        assert failure(swarm, seat).culprits == (client_seat(2),)
    assert swarm.relay.failed


def test_keys_of_another_epoch_are_not_taken() -> None:
    old: list[bytes] = []

    def record(source: Seat, target: Seat, frame: bytes) -> Sequence[bytes]:
        if source == client_seat(1) and not old:
            old.append(frame)
        return (frame,)

    attempt(record, b"first")

    def replay(source: Seat, target: Seat, frame: bytes) -> Sequence[bytes]:
        return old if source == client_seat(1) else (frame,)

    swarm = attempt(replay, b"second", number=2)
    assert [(seat, error.message) for seat, error in swarm.refused] == [
        (RELAY, "a message of another epoch")
    ]
    swarm.time_out(100.0)
    assert failure(swarm, RELAY).culprits == (client_seat(1),)


def test_a_client_signed_by_another_is_not_taken() -> None:
    def impersonate(source: Seat, target: Seat, frame: bytes) -> Sequence[bytes]:
        message = unpack(frame).message
        if source == client_seat(1) and isinstance(message, ClientKeys):
            return (pack(message, ENROLMENT.clients[2]).frame,)
        return (frame,)

    swarm = attempt(impersonate)
    assert [error.message for _, error in swarm.refused] == ["ClientKeys is not signed by client 1"]
    assert nobody_is_ready(swarm)


@pytest.mark.parametrize("reason", Reason)
def test_a_false_complaint_falls_back_on_its_author(reason: Reason) -> None:
    def complain(message: Message) -> Message:
        assert isinstance(message, ShuffleStep | ClientKeys)
        return Abort(
            epoch_id=message.epoch_id,
            role=message.author.role,
            index=message.author.index,
            reason=reason,
            accused_role=Role.GUARD,
            accused_index=0,
        )

    for kind, liar in ((ClientKeys, client_seat(1)), (ShuffleStep, guard_seat(1))):
        swarm = attempt(lying(kind, complain, liar))
        assert failure(swarm, RELAY).culprits == (liar,)
        assert isinstance(failure(swarm, RELAY).error, AbandonedError)
        assert nobody_is_ready(swarm)


# -- guards that lie -------------------------------------------------------------------------------


def step(change: Callable[[ShuffleStep], ShuffleStep], by: int) -> Tamper:
    def lie(message: Message) -> Message:
        assert isinstance(message, ShuffleStep)
        return change(message)

    return lying(ShuffleStep, lie, guard_seat(by))


def replaced(message: ShuffleStep) -> ShuffleStep:
    return msgspec.structs.replace(message, keys=GROUP.mul_base(99).encode() + message.keys[33:])


@pytest.mark.parametrize("by", range(GUARDS))
@pytest.mark.parametrize(
    "change",
    [
        replaced,
        lambda m: msgspec.structs.replace(m, keys=times_two(m.keys[:33]) + m.keys[33:]),
        lambda m: msgspec.structs.replace(m, keys=m.keys[33:66] + m.keys[:33] + m.keys[66:]),
        lambda m: msgspec.structs.replace(m, keys=m.keys[:33] * 2 + m.keys[66:]),
        lambda m: msgspec.structs.replace(m, keys=m.keys[:66]),
        lambda m: msgspec.structs.replace(m, keys=m.keys + GROUP.mul_base(9).encode()),
        lambda m: msgspec.structs.replace(m, base=times_two(m.base)),
        lambda m: msgspec.structs.replace(m, base=m.keys[:33]),
        lambda m: msgspec.structs.replace(m, base=bytes(33)),
        lambda m: msgspec.structs.replace(m, keys=bytes(33) + m.keys[33:]),
    ],
    ids=[
        "replaced",
        "marked",
        "exchanged",
        "duplicated",
        "dropped",
        "added",
        "wrong base",
        "base is a key",
        "identity base",
        "identity key",
    ],
)
def test_5_1_7_a_guard_that_shuffles_wrongly_is_named(
    change: Callable[[ShuffleStep], ShuffleStep], by: int
) -> None:
    swarm = attempt(step(change, by))
    assert nobody_is_ready(swarm)
    assert nobody_is_ready(swarm, Role.GUARD)
    assert failure(swarm, RELAY).culprits == (guard_seat(by),)
    assert isinstance(failure(swarm, RELAY).error, ShuffleRefusedError | AbandonedError)
    assert failure(swarm, client_seat(0)).culprits == (guard_seat(by),)


def test_5_1_7_a_proof_of_another_epoch_is_refused() -> None:
    old: list[ShuffleProof] = []

    def record(message: Message) -> Message:
        assert isinstance(message, ShuffleProof)
        old.append(message)
        return message

    attempt(lying(ShuffleProof, record, guard_seat(0)), b"first")

    def replay(message: Message) -> Message:
        assert isinstance(message, ShuffleProof)
        return msgspec.structs.replace(message, proof=old[0].proof)

    swarm = attempt(lying(ShuffleProof, replay, guard_seat(0)), b"second", number=2)
    assert failure(swarm, RELAY).culprits == (guard_seat(0),)
    assert nobody_is_ready(swarm)


def test_a_guard_that_endorses_something_else_is_named() -> None:
    def lie(message: Message) -> Message:
        return msgspec.structs.replace(message, outcome_hash=bytes(32))

    swarm = attempt(lying(Endorsement, lie, guard_seat(1)))
    assert failure(swarm, RELAY).culprits == (guard_seat(1),)
    assert isinstance(failure(swarm, RELAY).error, OutcomeRefusedError)
    assert nobody_is_ready(swarm)


def test_a_guards_bad_keys_are_found() -> None:
    def lie(message: Message) -> Message:
        assert isinstance(message, GuardKeys)
        return msgspec.structs.replace(message, accusation_key=times_two(message.accusation_key))

    swarm = attempt(lying(GuardKeys, lie, guard_seat(1)))
    assert failure(swarm, RELAY).culprits == (guard_seat(1),)
    assert failure(swarm, guard_seat(0)).culprits == (guard_seat(1),)
    assert nobody_is_ready(swarm)


# -- a relay that lies -----------------------------------------------------------------------------


def relay_tells(
    kind: type[Message], change: Callable[[Message], Message], to: Seat | None = None
) -> Tamper:
    """The relay changes what it passes on; it can sign in its own name only."""

    def tamper(source: Seat, target: Seat, frame: bytes) -> Sequence[bytes]:
        message = unpack(frame).message
        if source != RELAY or not isinstance(message, kind) or to not in (None, target):
            return (frame,)
        return (pack(change(message), ENROLMENT.relay).frame,)

    return tamper


@pytest.mark.parametrize(
    "change",
    [
        lambda m: msgspec.structs.replace(m, slots=m.slots[33:66] + m.slots[:33] + m.slots[66:]),
        lambda m: msgspec.structs.replace(m, slots=GROUP.mul_base(9).encode() + m.slots[33:]),
        lambda m: msgspec.structs.replace(m, slots=m.slots[:66]),
        lambda m: msgspec.structs.replace(m, slots=bytes(33) + m.slots[33:]),
        lambda m: msgspec.structs.replace(m, base=times_two(m.base)),
        lambda m: msgspec.structs.replace(m, client_keys=m.slots),
    ],
    ids=["order", "slot", "dropped", "identity", "base", "keys"],
)
def test_another_outcome_than_the_endorsed_one_is_refused(
    change: Callable[[Message], Message],
) -> None:
    swarm = attempt(relay_tells(Outcome, change))
    assert nobody_is_ready(swarm)
    assert nobody_is_ready(swarm, Role.GUARD)
    for seat in (client_seat(0), guard_seat(0)):
        assert isinstance(failure(swarm, seat).error, OutcomeRefusedError)


def test_an_endorsement_that_the_relay_made_up_is_refused() -> None:
    swarm = attempt(relay_tells(Endorsement, lambda message: message))
    for client in range(CLIENTS):
        event = failure(swarm, client_seat(client))
        assert isinstance(event.error, OutcomeRefusedError)
        assert "not signed by guard 0" in event.error.message
    assert nobody_is_ready(swarm, Role.GUARD)


def test_a_guards_keys_that_the_relay_made_up_are_refused() -> None:
    """The relay in the middle would share a pad with the client."""

    def change(message: Message) -> Message:
        return msgspec.structs.replace(message, pad_key=GROUP.mul_base(4).encode())

    swarm = attempt(relay_tells(GuardKeys, change, client_seat(1)))
    assert isinstance(failure(swarm, client_seat(1)).error, OutcomeRefusedError)
    assert isinstance(swarm.events[client_seat(0)], Ready)


def test_a_clients_keys_that_the_relay_made_up_are_refused() -> None:
    swarm = attempt(relay_tells(ClientKeys, lambda message: message))
    assert {error.message for _, error in swarm.refused} == {
        f"ClientKeys is not signed by client {client}" for client in range(CLIENTS)
    }
    swarm.time_out(100.0)
    assert failure(swarm, RELAY).culprits == (guard_seat(0),)
    assert nobody_is_ready(swarm)


def test_guards_that_were_told_different_keys_endorse_different_outcomes() -> None:
    """A client in league with the relay signs two sets of keys, one for each guard."""
    entropy = SeededEntropy(b"two sets")

    def split(source: Seat, target: Seat, frame: bytes) -> Sequence[bytes]:
        message = unpack(frame).message
        if source == RELAY and target == guard_seat(1) and isinstance(message, ClientKeys):
            if message.client != 2:
                return (frame,)
            from headtail_prifi.setup.keys import make_client_keys

            other = make_client_keys(GROUP, message.epoch_id, 2, entropy)[1]
            changed = msgspec.structs.replace(other, client=2)
            return (pack(changed, ENROLMENT.clients[2]).frame,)
        return (frame,)

    swarm = attempt(split)
    assert nobody_is_ready(swarm)
    assert nobody_is_ready(swarm, Role.GUARD)


def test_a_client_left_out_of_the_shuffle_notices() -> None:
    """All guards in league could leave a key out; the client finds no slot and says nothing."""
    swarm = attempt(lambda source, target, frame: (frame,))
    epoch = swarm.finished().epoch
    client = swarm.clients[1]
    with pytest.raises(OutcomeRefusedError, match="no slot"):
        client._find_slot(epoch, 12345)


@pytest.mark.parametrize("kind", [GuardKeys, ShuffleStep, ShuffleProof])
def test_what_the_relay_keeps_back_ends_the_attempt_in_time(kind: type[Message]) -> None:
    def tamper(source: Seat, target: Seat, frame: bytes) -> Sequence[bytes]:
        held = source == RELAY and target.role is Role.GUARD
        return () if held and isinstance(unpack(frame).message, kind | Abort) else (frame,)

    swarm = attempt(tamper)
    assert swarm.events == {}
    swarm.time_out(100.0)
    assert nobody_is_ready(swarm)
    for guard in range(GUARDS):
        assert isinstance(failure(swarm, guard_seat(guard)).error, SilentPartyError)


# -- silence ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "silent"),
    [
        (ClientKeys, client_seat(1)),
        (GuardKeys, guard_seat(1)),
        (ShuffleStep, guard_seat(0)),
        (ShuffleStep, guard_seat(1)),
        (ShuffleProof, guard_seat(0)),
        (Endorsement, guard_seat(1)),
    ],
)
def test_whoever_falls_silent_is_named_after_the_deadline(
    kind: type[Message], silent: Seat
) -> None:
    swarm = attempt(lying(kind, lambda message: None, silent))
    assert swarm.events == {}
    swarm.time_out(45.0)
    event = failure(swarm, RELAY)
    assert event.culprits == (silent,)
    assert isinstance(event.error, SilentPartyError)
    assert event.error.facts == {"parties": (silent,)}
    assert failure(swarm, client_seat(0)).culprits == (silent,)
    assert isinstance(failure(swarm, client_seat(0)).error, AbandonedError)


def test_the_deadline_counts_from_each_stage() -> None:
    swarm = attempt(lying(ShuffleProof, lambda message: None, guard_seat(0)))
    assert swarm.relay.next_timer() == 30.0
    swarm.time_out(29.0)
    assert swarm.events == {}
    swarm = attempt(lying(ClientKeys, lambda message: None, client_seat(0)))
    assert swarm.relay.next_timer() == 10.0
    assert swarm.clients[0].next_timer() == 60.0


def test_a_finished_party_has_no_timer() -> None:
    swarm = attempt(lambda source, target, frame: (frame,))
    cores: list[SetupCore[Any]] = [swarm.relay, *swarm.guards, *swarm.clients]
    for core in cores:
        assert core.next_timer() is None
        assert core.next_event() is None
        core.on_timer(1000.0)
        assert not core.failed


# -- charters --------------------------------------------------------------------------------------


def test_a_charter_with_anything_exchanged_is_refused() -> None:
    epochs = [
        attempt(lambda source, target, frame: (frame,), seed, number).finished().epoch
        for seed, number in ((b"one", 1), (b"two", 2))
    ]
    charter, other = (list(epoch.charter) for epoch in epochs)
    assert read_epoch(ENROLMENT.roster, charter) == epochs[0]
    for position in range(len(charter)):
        mixed = [*charter[:position], other[position], *charter[position + 1 :]]
        with pytest.raises(SetupError):
            read_epoch(ENROLMENT.roster, mixed)
        shorter = charter[:position] + charter[position + 1 :]
        with pytest.raises(OutcomeRefusedError, match="not the charter"):
            read_epoch(ENROLMENT.roster, shorter)
    exchanged = [charter[0], charter[2], charter[1], *charter[3:]]
    with pytest.raises(OutcomeRefusedError, match="belongs elsewhere"):
        read_epoch(ENROLMENT.roster, exchanged)


def test_a_charter_of_another_roster_is_refused() -> None:
    epoch = attempt(lambda source, target, frame: (frame,)).finished().epoch
    stranger = enrol(CLIENTS, GUARDS, SeededEntropy(b"stranger"), group="secp256k1").roster
    with pytest.raises(OutcomeRefusedError):
        read_epoch(stranger, epoch.charter)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=100), max_size=7))
def test_any_frames_give_a_setup_error(frames: list[bytes]) -> None:
    with pytest.raises(SetupError):
        read_epoch(ENROLMENT.roster, frames)


def test_a_charter_with_two_equal_slots_is_refused() -> None:
    """Even if all guards signed it."""
    epoch = attempt(lambda source, target, frame: (frame,)).finished().epoch
    opening, *keys, told, _, _ = (unpack(frame) for frame in epoch.charter)
    outcome = told.message
    assert isinstance(outcome, Outcome)
    twice = msgspec.structs.replace(outcome, slots=outcome.slots[:33] * CLIENTS)
    pairs = list(zip(epoch.guard_keys, epoch.accusation_keys, strict=True))
    endorsements = [
        pack(
            Endorsement(epoch_id=epoch.epoch_id, guard=guard, outcome_hash=twice.hash(pairs)),
            ENROLMENT.guards[guard],
        )
        for guard in range(GUARDS)
    ]
    parcels = [opening, *keys, pack(twice, ENROLMENT.relay), *endorsements]
    with pytest.raises(OutcomeRefusedError, match="two slots have one key"):
        read_epoch(ENROLMENT.roster, [parcel.frame for parcel in parcels])


def test_an_announcement_names_the_epoch() -> None:
    epoch = attempt(lambda source, target, frame: (frame,)).finished().epoch
    announcement = unpack(epoch.charter[0]).message
    assert isinstance(announcement, Announcement)
    assert announcement.epoch_id == epoch.epoch_id
