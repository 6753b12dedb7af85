"""Each core alone: what it takes in which state, and that what it refuses changes nothing."""

import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_prifi.core.seat import CLIENTS, GUARDS, RELAY, Role, Seat, guard_seat
from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.setup import client as client_module
from headtail_prifi.setup import guard as guard_module
from headtail_prifi.setup import relay as relay_module
from headtail_prifi.setup.client import ClientSetup, ClientState
from headtail_prifi.setup.core import Failed, SetupCore
from headtail_prifi.setup.errors import (
    AbandonedError,
    AnnouncementRefusedError,
    FrameRefusedError,
    MessageError,
    SilentPartyError,
    UnexpectedMessageError,
)
from headtail_prifi.setup.guard import GuardSetup, GuardState
from headtail_prifi.setup.memory import SetupSwarm, Tamper, enrol
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
from headtail_prifi.setup.relay import RelaySetup, RelayState

ENROLMENT = enrol(3, 2, SeededEntropy(b"states"), group="secp256k1", min_clients=3)
ROSTER = ENROLMENT.roster


def recorded(seed: bytes, number: int = 1) -> tuple[SetupSwarm, dict[Seat, list[bytes]]]:
    """An honest attempt, and what each party was sent, in order."""
    sent: dict[Seat, list[bytes]] = {}
    swarm = SetupSwarm(ENROLMENT, SeededEntropy(seed), number=number, tamper=keep(sent))
    swarm.run()
    return swarm, sent


def keep(sent: dict[Seat, list[bytes]]) -> Tamper:
    def record(source: Seat, target: Seat, frame: bytes) -> Sequence[bytes]:
        sent.setdefault(target, []).append(frame)
        return (frame,)

    return record


def client(last_number: int = 0, index: int = 0) -> ClientSetup:
    return ClientSetup(
        roster=ROSTER,
        signing_key=ENROLMENT.clients[index],
        last_number=last_number,
        entropy=SeededEntropy(b"client"),
    )


def guard(last_number: int = 0, index: int = 0) -> GuardSetup:
    return GuardSetup(
        roster=ROSTER,
        signing_key=ENROLMENT.guards[index],
        last_number=last_number,
        entropy=SeededEntropy(b"guard"),
    )


def relay(members: Sequence[int] = (0, 1, 2)) -> RelaySetup:
    return RelaySetup(
        roster=ROSTER,
        signing_key=ENROLMENT.relay,
        number=1,
        members=members,
        parameters=b"",
        entropy=SeededEntropy(b"relay"),
    )


def announcement(**changes: object) -> bytes:
    message = Announcement(
        number=5,
        roster_hash=ROSTER.hash,
        members=(0, 1, 2),
        parameters=b"",
        nonce=bytes(32),
    )
    return pack(msgspec.structs.replace(message, **changes), ENROLMENT.relay).frame


def refuses(core: Any, frame: bytes, error: type[FrameRefusedError], match: str) -> None:
    before = core.state
    with pytest.raises(error, match=match):
        core.receive(frame, 0.0)
    assert core.state == before
    assert list(core.to_send(0.0)) == []
    assert core.next_event() is None


# -- announcements ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"number": 4}, "epoch 4 after 4"),
        ({"number": 1}, "epoch 1 after 4"),
        ({"roster_hash": bytes(32)}, "another roster"),
        ({"members": (0, 1)}, "at least 3"),
        ({"members": (0, 1, 3)}, "not a part"),
        ({"members": (1, 0, 2)}, "not a part"),
        ({"members": (0, 1, 1, 2)}, "not a part"),
    ],
)
def test_an_announcement_that_must_not_be_followed(changes: dict[str, object], reason: str) -> None:
    for core in (client(last_number=4), guard(last_number=4)):
        refuses(core, announcement(**changes), AnnouncementRefusedError, reason)


def test_an_announcement_that_the_relay_did_not_sign() -> None:
    frame = pack(unpack(announcement()).message, ENROLMENT.guards[1]).frame
    for core in (client(), guard()):
        refuses(core, frame, MessageError, "not signed by relay")


def test_a_client_joins_only_epochs_that_it_is_in() -> None:
    roster = enrol(4, 1, SeededEntropy(b"four"), group="secp256k1", min_clients=3)
    core = ClientSetup(
        roster=roster.roster,
        signing_key=roster.clients[3],
        last_number=0,
        entropy=SeededEntropy(b""),
    )
    message = msgspec.structs.replace(
        unpack(announcement()).message, roster_hash=roster.roster.hash
    )
    refuses(core, pack(message, roster.relay).frame, AnnouncementRefusedError, "not in")


def test_a_second_announcement_is_not_taken() -> None:
    for core in (client(), guard()):
        core.receive(announcement(), 0.0)
        assert len(list(core.to_send(0.0))) == 1
        refuses(core, announcement(number=6), UnexpectedMessageError, "Announcement while")


def test_the_relay_announces_only_what_others_would_follow() -> None:
    with pytest.raises(AnnouncementRefusedError, match="at least 3"):
        relay(members=(0, 1))


def test_the_relay_starts_once() -> None:
    core = relay()
    core.start(0.0)
    first, second = core.to_send(0.0)
    assert (first.to, second.to) == (GUARDS, CLIENTS)
    assert first.frame == second.frame
    with pytest.raises(UnexpectedMessageError, match="STARTED while"):
        core.start(0.0)


# -- the wrong message -----------------------------------------------------------------------------


def test_nothing_is_taken_before_the_announcement() -> None:
    _, sent = recorded(b"record")
    for core, seat in ((client(), Seat(Role.CLIENT, 0)), (guard(), guard_seat(0))):
        for frame in sent[seat][1:]:
            refuses(core, frame, UnexpectedMessageError, "another epoch")
    idle = relay()
    for frame in sent[RELAY]:
        refuses(idle, frame, UnexpectedMessageError, "another epoch")


def test_nothing_is_taken_after_the_end() -> None:
    swarm, sent = recorded(b"record")
    for core, frames in (
        (swarm.clients[0], sent[Seat(Role.CLIENT, 0)]),
        (swarm.guards[0], sent[guard_seat(0)]),
        (swarm.relay, sent[RELAY]),
    ):
        for frame in frames:
            with pytest.raises(FrameRefusedError):
                core.receive(frame, 0.0)
        assert core.state.name == "READY"


def test_the_relay_takes_nothing_that_it_says_itself() -> None:
    _, sent = recorded(b"record")
    core = relay()
    core.start(0.0)
    list(core.to_send(0.0))
    for frame in sent[Seat(Role.CLIENT, 0)]:
        if isinstance(unpack(frame).message, Announcement | Outcome):
            refuses(core, frame, UnexpectedMessageError, "not for the relay")


@pytest.mark.parametrize("kind", [ClientKeys, ShuffleStep, ShuffleProof])
def test_a_client_takes_nothing_that_is_meant_for_guards(kind: type[Message]) -> None:
    _, sent = recorded(b"record")
    frame = next(frame for frame in sent[RELAY] if isinstance(unpack(frame).message, kind))
    core = client()
    core.receive(announcement(), 0.0)
    list(core.to_send(0.0))
    refuses(core, frame, UnexpectedMessageError, "not for clients")


@pytest.mark.parametrize("skip", range(6))
def test_frames_out_of_order_do_no_harm(skip: int) -> None:
    """Each frame comes `skip` places early, is refused, and comes again in its place."""
    sent: dict[Seat, list[bytes]] = {}
    seat = Seat(Role.CLIENT, 1)
    swarm = SetupSwarm(ENROLMENT, SeededEntropy(b"twin"), tamper=keep(sent))
    swarm.clients[1] = client(index=1)
    swarm.run()
    twin, frames = client(index=1), sent[seat]
    for position, frame in enumerate(frames):
        ahead = frames[(position + skip) % len(frames)]
        for candidate in (ahead, frame):
            with contextlib.suppress(FrameRefusedError):
                twin.receive(candidate, 0.0)
    assert twin.state is ClientState.READY
    assert twin.next_event() == swarm.events[seat]


def test_a_guard_refuses_steps_and_proofs_out_of_turn() -> None:
    _, sent = recorded(b"record")
    frames = sent[guard_seat(1)]
    kinds = [type(unpack(frame).message) for frame in frames]
    step, proof = frames[kinds.index(ShuffleStep)], frames[kinds.index(ShuffleProof)]
    core = guard(index=1)
    for frame in frames[: kinds.index(ShuffleStep)]:
        message = unpack(frame).message
        if isinstance(message, GuardKeys) and message.guard == 1:
            refuses(core, frame, UnexpectedMessageError, "other keys")  # it made new ones
        else:
            core.receive(frame, 0.0)
            list(core.to_send(0.0))
    assert repr(core) == "GuardSetup(guard 1, SHUFFLING)"
    refuses(core, proof, UnexpectedMessageError, "proof of guard 0 out of turn")
    core.receive(step, 0.0)
    refuses(core, step, UnexpectedMessageError, "out of turn")
    core.receive(proof, 0.0)
    refuses(core, proof, UnexpectedMessageError, "out of turn")


def test_a_guard_takes_one_outcome() -> None:
    def hold(source: Seat, target: Seat, frame: bytes) -> Sequence[bytes]:
        late = source == RELAY and isinstance(unpack(frame).message, Outcome | Endorsement)
        if late and target == guard_seat(0):
            held.append(frame)
        return () if late else (frame,)

    held: list[bytes] = []
    swarm = SetupSwarm(ENROLMENT, SeededEntropy(b"outcome"), tamper=hold)
    swarm.run()
    core, (outcome, first, second) = swarm.guards[0], held
    assert core.state is GuardState.ENDORSED
    refuses(core, first, UnexpectedMessageError, "endorsement of guard 0 out of turn")
    core.receive(outcome, 0.0)
    refuses(core, outcome, UnexpectedMessageError, "a second outcome")
    refuses(core, second, UnexpectedMessageError, "endorsement of guard 1 out of turn")
    core.receive(first, 0.0)
    core.receive(second, 0.0)
    assert repr(core) == "GuardSetup(guard 0, READY)"


def test_the_relay_refuses_steps_proofs_and_endorsements_out_of_turn() -> None:
    held: dict[type[Message], bytes] = {}

    def hold(source: Seat, target: Seat, frame: bytes) -> Sequence[bytes]:
        message = unpack(frame).message
        late = isinstance(message, ShuffleProof) and source == guard_seat(0) and target == RELAY
        held.setdefault(type(message), frame)
        return () if late else (frame,)

    swarm = SetupSwarm(ENROLMENT, SeededEntropy(b"turns"), tamper=hold)
    swarm.run()
    core = swarm.relay
    assert core.state is RelayState.SHUFFLING
    refuses(core, held[ShuffleStep], UnexpectedMessageError, "shuffles out of turn")
    early = Endorsement(epoch_id=core._epoch_id, guard=1, outcome_hash=bytes(32))
    refuses(core, pack(early, ENROLMENT.guards[1]).frame, UnexpectedMessageError, "out of turn")
    core.receive(held[ShuffleProof], 0.0)
    assert len(list(core.to_send(0.0))) == 1
    refuses(core, held[ShuffleProof], UnexpectedMessageError, "proof of guard 0 out of turn")
    stranger = msgspec.structs.replace(early, guard=9)
    refuses(core, pack(stranger, ENROLMENT.guards[1]).frame, UnexpectedMessageError, "no guard 9")


def test_a_client_wants_the_guards_messages_in_order() -> None:
    _, sent = recorded(b"record")
    frames = sent[Seat(Role.CLIENT, 0)]
    core = client()
    core.receive(frames[0], 0.0)
    list(core.to_send(0.0))
    refuses(core, frames[2], UnexpectedMessageError, "GuardKeys of guard 1")
    refuses(core, frames[3], UnexpectedMessageError, "before the keys of all guards")
    core.receive(frames[1], 0.0)
    refuses(core, frames[1], UnexpectedMessageError, "GuardKeys of guard 0")
    core.receive(frames[2], 0.0)
    refuses(core, frames[4], UnexpectedMessageError, "Endorsement while")
    core.receive(frames[3], 0.0)
    refuses(core, frames[3], UnexpectedMessageError, "Outcome while")
    assert core.state is ClientState.CHECKING
    assert repr(core) == "ClientSetup(client 0, CHECKING)"


def test_an_unseated_client_says_so() -> None:
    assert repr(client()) == "ClientSetup(unseated, WAITING)"


# -- giving up -------------------------------------------------------------------------------------


def abort_of(core: ClientSetup | GuardSetup, key: SigningKey, role: Role = Role.RELAY) -> bytes:
    stake = core._stake
    assert stake is not None
    return pack(
        Abort(
            epoch_id=stake.epoch_id,
            role=role,
            index=0,
            reason=Reason.SILENCE,
            accused_role=Role.GUARD,
            accused_index=1,
        ),
        key,
    ).frame


def test_the_relay_may_end_an_attempt_and_nobody_else() -> None:
    for core in (client(), guard()):
        core.receive(announcement(), 0.0)
        list(core.to_send(0.0))
        by_guard = abort_of(core, ENROLMENT.guards[0], Role.GUARD)
        refuses(core, by_guard, UnexpectedMessageError, "an abort of guard 0")
        refuses(core, abort_of(core, ENROLMENT.guards[0]), MessageError, "not signed by relay")
        core.receive(abort_of(core, ENROLMENT.relay), 0.0)
        event = core.next_event()
        assert isinstance(event, Failed)
        assert isinstance(event.error, AbandonedError)
        assert event.culprits == (guard_seat(1),)
        assert core.failed
        assert core.next_timer() is None
        assert list(core.to_send(0.0)) == []


def test_each_party_has_a_deadline_of_its_own() -> None:
    for core in (client(), guard()):
        core.receive(announcement(), 5.0)
        list(core.to_send(5.0))
        assert core.next_timer() == 65.0
        core.on_timer(64.9)
        assert core.next_event() is None
        core.on_timer(65.0)
        event = core.next_event()
        assert isinstance(event, Failed)
        assert isinstance(event.error, SilentPartyError)
        (outgoing,) = core.to_send(65.0)
        told = unpack(outgoing.frame).message
        assert isinstance(told, Abort)
        assert (told.reason, told.accused) == (Reason.SILENCE, RELAY)


# -- tables and fuzz -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "states"),
    [
        (client_module.TABLE, ClientState),
        (guard_module.TABLE, GuardState),
        (relay_module.TABLE, RelayState),
    ],
)
def test_a_table_knows_every_state_and_reaches_it(table: Any, states: Any) -> None:
    assert set(table) == set(states)
    reached = {state for row in table.values() for state in row.values()}
    assert reached | {next(iter(states)), states.FAILED} == set(states)
    assert table[states.READY] == table[states.FAILED] == {}


CORES = ["client", "guard", "relay"]
FRAMES = [
    frame
    for seed, number in ((b"fuzz one", 1), (b"fuzz two", 2))
    for frames in recorded(seed, number)[1].values()
    for frame in frames
]


@pytest.mark.parametrize("role", CORES)
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(FRAMES) | st.binary(max_size=120), max_size=12),
    st.integers(0, 2**16),
)
def test_any_frames_in_any_order_give_typed_refusals(
    role: str, frames: list[bytes], flip: int
) -> None:
    """5.1-9: replayed, foreign, damaged and made-up frames; nobody gets ready by them."""
    core: ClientSetup | GuardSetup | RelaySetup
    if role == "relay":
        core = relay()
        core.start(0.0)
    else:
        core = client() if role == "client" else guard()
    for frame in frames:
        damaged = bytearray(frame)
        if flip % 3 == 0 and damaged:
            damaged[flip % len(damaged)] ^= 1 << flip % 8
        with contextlib.suppress(FrameRefusedError):
            core.receive(bytes(damaged), 0.0)
        while (timer := core.next_timer()) is not None and timer <= 0.0:
            core.on_timer(0.0)
    assert core.state.name != "READY"


def test_a_core_without_a_deadline_of_its_own_must_be_given_one() -> None:
    core: SetupCore[str] = SetupCore(table={"a": {}}, start="a", failed="b")
    core._deadline_at = 1.0
    with pytest.raises(NotImplementedError):
        core.on_timer(2.0)
