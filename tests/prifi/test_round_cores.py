"""Client, guard, relay: what each state allows, and what the rest of the suite does not reach."""

import pytest
from msgspec.structs import replace

from headtail_prifi.blame.judge import Charge
from headtail_prifi.blame.messages import Call
from headtail_prifi.core.body import decode_body, encode_body, frame_of, split_signed
from headtail_prifi.core.errors import (
    BacklogFullError,
    FrameError,
    MembershipError,
    StateError,
    UnexpectedFrameError,
)
from headtail_prifi.core.events import CellArrived, ClientDropped, EpochOver, VerdictReached
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import (
    HEADER_BYTES,
    MAX_ROUND,
    Buffer,
    Header,
    Kind,
    read_header,
    short_id,
)
from headtail_prifi.core.membership import Certificate, pack_clients
from headtail_prifi.core.messages import Down, Endorse, Grant, Leave, Report, Retirement
from headtail_prifi.core.seat import CLIENTS, RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.misbehaviour import disrupt
from headtail_prifi.round.cell import CellKind
from headtail_prifi.round.history import HistoryStatement, first_link, next_link
from headtail_prifi.round.options import ClientOptions, RelayOptions
from headtail_prifi.setup.roster import Membership
from headtail_prifi.swarm import Links, Scene, Swarm, set_scene

GEOMETRY = Geometry(clients=3, cell_bytes=128, window=2, down_bytes=200)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return set_scene(3, 2, GEOMETRY)


def body_of(scene: Scene, kind: Kind, body: object, version: int = 0, round_: int = 0) -> bytes:
    header = Header(kind, 0, 0, round_, short_id(scene.finished.epoch.epoch_id), version)
    assert isinstance(body, (Grant, Leave, Call, Endorse))
    return frame_of(header, body)


class Relaying:
    """Signs downstream frames as the relay would, with a body of the test's choice."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._link = first_link(scene.finished.epoch.epoch_id)
        self._round = 0

    def frame(self, down: Down, version: int = 0, advance: bool = True) -> bytes:
        epoch_id = self._scene.finished.epoch.epoch_id
        header = Header(Kind.DOWN, 0, 0, self._round, short_id(epoch_id), version)
        signed = header.encode() + encode_body(down)
        link = next_link(self._link, signed)
        statement = HistoryStatement.signed(
            epoch_id=epoch_id, round=self._round, link=link, key=self._scene.enrolment.relay
        )
        if advance:
            self._link, self._round = link, self._round + 1
        return signed + statement.signature


IDLE = Down(owners=b"\xff\xff")


# -- client -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "down",
    [
        Down(owners=b""),
        Down(owners=b"\xff\xff", data=(bytes(150), bytes(51))),
        Down(owners=b"\xff\xff", reports=(Report(round=0, echoes=b"", reservations=bytes(16)),)),
        Down(owners=b"\xff\xff", reports=(Report(round=0, echoes=bytes(16), reservations=b""),)),
    ],
)
def test_a_client_answers_no_frame_of_a_wrong_shape(scene: Scene, down: Down) -> None:
    client, relaying = Swarm(scene).clients[0], Relaying(scene)
    with pytest.raises(FrameError):
        client.receive(relaying.frame(down, advance=False), 0.0)
    assert client.to_send(0.0) == []
    client.receive(relaying.frame(IDLE), 0.0)
    assert len(client.to_send(0.0)) == 1


def test_a_client_answers_no_frame_of_another_membership(scene: Scene) -> None:
    client, relaying = Swarm(scene).clients[0], Relaying(scene)
    with pytest.raises(FrameError):
        client.receive(relaying.frame(IDLE, version=1), 0.0)
    assert client.to_send(0.0) == []


@pytest.mark.parametrize(
    ("version", "clients", "signers"),
    [
        (1, (0, 1), 1),
        (1, (0, 1), 0),
        (1, (0,), 2),
        (1, (0, 1, 2), 2),
        (2, (0, 1), 2),
    ],
)
def test_a_client_checks_certificates(
    scene: Scene, version: int, clients: tuple[int, ...], signers: int
) -> None:
    """Only a part of the clients, enough of them, signed by every guard; versions may be skipped
    (a client may have missed one)."""
    epoch = scene.finished.epoch
    membership = replace_membership(scene, version, clients)
    signatures = tuple(membership.endorse(key) for key in scene.enrolment.guards[:signers])
    certificate = Certificate(
        version=version, clients=pack_clients(clients, 3), signatures=signatures
    )
    client, relaying = Swarm(scene).clients[0], Relaying(scene)
    frame = relaying.frame(Down(owners=b"\xff\xff", certificate=certificate), version=version)
    if signers == 2 and len(clients) >= epoch.roster.min_clients:
        client.receive(frame, 0.0)
        assert client.membership.clients == clients
        again = Down(owners=b"\xff\xff", certificate=certificate)
        with pytest.raises(MembershipError):
            client.receive(relaying.frame(again, version=version), 0.0)
    else:
        with pytest.raises(MembershipError):
            client.receive(frame, 0.0)
        assert client.membership.version == 0


def replace_membership(scene: Scene, version: int, clients: tuple[int, ...]) -> Membership:
    return Membership(epoch_id=scene.finished.epoch.epoch_id, version=version, clients=clients)


def test_a_certificate_with_signatures_swapped_is_refused(scene: Scene) -> None:
    membership = replace_membership(scene, 1, (0, 1))
    signatures = tuple(membership.endorse(key) for key in scene.enrolment.guards[::-1])
    certificate = Certificate(version=1, clients=pack_clients((0, 1), 3), signatures=signatures)
    client = Swarm(scene).clients[0]
    down = Down(owners=b"\xff\xff", certificate=certificate)
    with pytest.raises(MembershipError):
        client.receive(Relaying(scene).frame(down, version=1), 0.0)
    bad = replace(down, certificate=replace(certificate, clients=b""))
    with pytest.raises(MembershipError):
        client.receive(Relaying(scene).frame(bad, version=1), 0.0)


def test_a_client_speaks_only_in_a_living_epoch(scene: Scene) -> None:
    client, relaying = Swarm(scene).clients[0], Relaying(scene)
    with pytest.raises(ValueError, match="holds"):
        client.send(bytes(client.body_bytes + 1))
    retirement = Retirement(last_round=1, successor=bytes(32))
    last = [Down(owners=b"\xff\xff", retirement=retirement)] * 2
    frames = [relaying.frame(down) for down in last]
    for frame in frames:
        client.receive(frame, 0.0)
    assert len(client.to_send(0.0)) == 2
    over = client.next_event()
    assert over == EpochOver(reason="succeeded", successor=bytes(32))
    with pytest.raises(StateError):
        client.send(b"too late")
    with pytest.raises(UnexpectedFrameError):
        client.receive(relaying.frame(IDLE), 0.0)
    client.receive(frames[1], 0.0)
    assert len(client.to_send(0.0)) == 1
    assert repr(client).startswith("ClientCore(client 0, retired")


def test_a_client_hears_nothing_after_the_end(scene: Scene) -> None:
    client = Swarm(scene).clients[0]
    client._stop("a test")
    client.receive(Relaying(scene).frame(IDLE), 0.0)
    assert client.to_send(0.0) == []
    assert client.next_timer() is None
    other = bytearray(Relaying(scene).frame(IDLE))
    other[0] = Kind.UP
    with pytest.raises(UnexpectedFrameError):
        client.receive(bytes(other), 0.0)


def test_a_client_asks_again_for_what_is_missing(scene: Scene) -> None:
    client, relaying = Swarm(scene).clients[0], Relaying(scene)
    frames = [relaying.frame(IDLE) for _ in range(4)]
    client.receive(frames[0], 0.0)
    client.to_send(0.0)
    client.receive(frames[3], 1.0)
    (nack,) = client.to_send(1.0)
    header = read_header(nack.frame)
    assert (header.kind, header.flags, header.sender, header.round) == (Kind.NACK, 0, 0, 1)
    client.receive(frames[2], 1.0)
    assert client.to_send(1.0) == []
    due = client.next_timer()
    assert due == 1.0 + ClientOptions().nack_s
    client.on_timer(0.5)
    assert client.to_send(1.0) == []
    client.on_timer(due)
    assert len(client.to_send(due)) == 1
    client.receive(frames[1], 2.0)
    assert len(client.to_send(2.0)) == 3
    assert client.next_timer() is None
    client.on_timer(3.0)
    assert client.next_timer() is None
    with pytest.raises(FrameError):
        client.receive(frame_with_round(frames[3], 5000), 4.0)


def frame_with_round(frame: bytes, round_: int) -> bytes:
    return frame[:4] + round_.to_bytes(4) + frame[8:]


def test_a_client_vouches_only_for_what_it_sent(scene: Scene) -> None:
    client = Swarm(scene).clients[0]
    header = Header(Kind.VOUCH, 0, 0, 9, short_id(scene.finished.epoch.epoch_id), 0)
    with pytest.raises(UnexpectedFrameError):
        client.receive(header.encode() + b"\x90", 0.0)


def test_a_client_queue_has_a_limit(scene: Scene) -> None:
    swarm = Swarm(scene, client_options=ClientOptions(max_waiting=3))
    for _ in range(4):
        swarm.send(0, b"")
    with pytest.raises(BacklogFullError):
        swarm.send(0, b"")


# -- guard ------------------------------------------------------------------------------------


def test_a_guard_pads_for_memberships_it_endorsed(scene: Scene) -> None:
    guard = Swarm(scene).guards[0]
    guard.receive(body_of(scene, Kind.GRANT, Grant(count=100)), 0.0)
    frames = guard.to_send(0.0)
    assert [read_header(each.frame).round for each in frames] == [0, 64]
    with pytest.raises(UnexpectedFrameError):
        guard.receive(body_of(scene, Kind.GRANT, Grant(count=1), version=1), 0.0)
    with pytest.raises(UnexpectedFrameError):
        guard.receive(body_of(scene, Kind.LEAVE, Leave()), 0.0)
    guard.on_timer(0.0)
    assert repr(guard) == "GuardCore(guard 0, serving, membership 0, witness quiet)"


def test_a_guard_has_no_pads_beyond_the_last_round(scene: Scene) -> None:
    guard = Swarm(scene).guards[0]
    guard.receive(body_of(scene, Kind.GRANT, Grant(count=2), round_=MAX_ROUND - 1), 0.0)
    assert len(guard.to_send(0.0)) == 1
    with pytest.raises(UnexpectedFrameError, match="3 rounds from"):
        guard.receive(body_of(scene, Kind.GRANT, Grant(count=3), round_=MAX_ROUND - 1), 0.0)
    assert guard.to_send(0.0) == []


def test_a_guard_mixes_only_under_a_known_membership(scene: Scene) -> None:
    guard = Swarm(scene).guards[0]
    header = Header(Kind.MIX, 0, 0, 0, short_id(scene.finished.epoch.epoch_id), 7)
    with pytest.raises(UnexpectedFrameError):
        guard.receive(header.encode() + b"\x93\x01\x90\x90", 0.0)


def test_the_same_pads_whenever_they_are_asked_for(scene: Scene) -> None:
    guard = Swarm(scene).guards[1]
    guard.receive(body_of(scene, Kind.GRANT, Grant(count=10), round_=500), 0.0)
    first = guard.to_send(0.0)
    guard.receive(body_of(scene, Kind.GRANT, Grant(count=3), round_=2), 0.0)
    guard.to_send(0.0)
    guard.receive(body_of(scene, Kind.GRANT, Grant(count=10), round_=500), 0.0)
    assert guard.to_send(0.0) == first


# -- relay ------------------------------------------------------------------------------------


def test_a_relay_that_was_not_started_only_gathers_pads(scene: Scene) -> None:
    relay = Swarm(scene).relay
    assert relay.next_timer() is None
    relay.on_timer(5.0)
    relay.broadcast(b"early", 0.0)
    assert [to.role for to, _ in relay.to_send(0.0)] == [Role.GUARD, Role.GUARD]
    with pytest.raises(UnexpectedFrameError):
        relay.receive(body_of(scene, Kind.LEAVE, Leave()), 0.0, client_seat(0))
    relay.start(0.0)
    with pytest.raises(StateError):
        relay.start(0.0)
    assert [to for to, _ in relay.to_send(0.0)] == [CLIENTS, CLIENTS]


def test_a_relay_that_is_over_ignores_and_refuses(scene: Scene) -> None:
    swarm = Swarm(scene)
    swarm.start()
    swarm.run_rounds(3)
    swarm.relay._stop("a test")
    swarm.relay._stop("another")
    assert [event.reason for event in drained(swarm)] == ["a test"]
    swarm.relay.receive(body_of(scene, Kind.LEAVE, Leave()), 0.0, client_seat(0))
    swarm.relay.on_timer(9.0)
    assert swarm.relay.next_timer() is None
    with pytest.raises(StateError):
        swarm.relay.broadcast(b"late", 0.0)
    swarm.relay.drop(0, "late", 0.0)
    assert swarm.relay.membership.version == 0


def drained(swarm: Swarm) -> list[EpochOver]:
    events = []
    while (event := swarm.relay.next_event()) is not None:
        if isinstance(event, EpochOver):
            events.append(event)
    return events


def test_a_guard_that_does_not_vouch_ends_the_epoch(scene: Scene) -> None:
    def tamper(source: Seat, target: Seat, frame: bytes) -> tuple[bytes, ...]:
        if source == guard_seat(1) and frame[0] == Kind.PADS:
            return (frame[:-1] + bytes([frame[-1] ^ 1]),)
        return (frame,)

    swarm = Swarm(scene, tamper=tamper)
    swarm.start()
    swarm.run_until(1.0)
    (over,) = swarm.events(EpochOver, RELAY)
    assert over.reason == "guard 1 does not vouch for its pads"


def test_a_client_that_vouches_for_something_else_is_left_out(scene: Scene) -> None:
    """At the end of a window, without any case."""
    swarm = Swarm(scene, links=Links(delay_s=lambda seat: 0.001))
    swarm.clients[1]._signing_key = SigningKey(b"w" * 32)
    swarm.start()
    swarm.run_rounds(75)
    (dropped,) = swarm.events(ClientDropped)
    assert dropped == ClientDropped(client=1, reason="it does not vouch for what it sent")
    assert swarm.relay.membership.clients == (0, 2)


def test_a_pseudonym_that_only_makes_noise_loses_its_turns(scene: Scene) -> None:
    """It spoils its own cells and accuses nobody: after some shuffles it is banned."""
    swarm = Swarm(scene, links=Links(delay_s=lambda seat: 0.001))
    slot = swarm.slot(2)

    def flips(round_: int, owners: tuple[int, ...]) -> range:
        return range(40) if slot in owners else range(0)

    disrupt(swarm.clients[2], flips)
    swarm.clients[2]._accuse = lambda accusation: None  # type: ignore[method-assign]
    for number in range(60):
        swarm.send(2, b"%d" % number)
    swarm.start()
    assert swarm.run(lambda: bool(swarm.events(VerdictReached)), 60.0)
    (verdict,) = swarm.events(VerdictReached, RELAY)
    assert (verdict.slot, verdict.charge, verdict.evidence) == (slot, Charge.NOISE, b"")
    swarm.send(0, b"still here")
    swarm.run_rounds(12)
    assert b"still here" in swarm.bodies(swarm.slot(0))


def test_nonsense_in_a_cell_is_silence(scene: Scene) -> None:
    """A cell that opens and is none: its owner used its turn for nothing."""
    swarm = Swarm(scene)
    core = swarm.clients[0]
    sealed = core._outbound._cipher

    class Nonsense:
        name = sealed.name
        stream = staticmethod(sealed.stream)
        open = staticmethod(sealed.open)

        @staticmethod
        def seal(*, key: bytes, nonce: bytes, plaintext: Buffer, associated: bytes = b"") -> bytes:
            return sealed.seal(
                key=key, nonce=nonce, plaintext=b"\x77" * len(plaintext), associated=associated
            )

    core._outbound._cipher = Nonsense()
    swarm.send(0, b"never heard")
    swarm.start()
    swarm.run_rounds(10)
    assert not swarm.events(CellArrived)
    assert not swarm.events(VerdictReached)


def test_an_accusation_that_is_none_costs_the_turns(scene: Scene) -> None:
    for body in (b"not an accusation", bytes(107)):
        swarm = Swarm(scene)
        swarm.clients[0]._outbound.add(CellKind.ACCUSATION, body)
        swarm.start()
        swarm.run_rounds(8)
        (verdict,) = swarm.events(VerdictReached)
        assert (verdict.slot, verdict.charge) == (swarm.slot(0), Charge.FALSE_ACCUSATION)


def test_old_endorsements_are_ignored(scene: Scene) -> None:
    swarm = Swarm(scene, relay_options=RelayOptions(resend_s=0.05, patience_s=5.0))
    swarm.start()
    swarm.run_rounds(3)
    endorse = Endorse(signature=bytes(64))
    swarm.relay.receive(body_of(scene, Kind.ENDORSE, endorse, version=1), 0.0, guard_seat(0))
    swarm.relay.drop(2, "a test", swarm.now)
    swarm.relay.receive(body_of(scene, Kind.ENDORSE, endorse, version=3), 0.0, guard_seat(0))
    assert swarm.relay.state == "rekeying"
    signed, _ = split_signed(Relaying(scene).frame(IDLE))
    assert decode_body(Down, signed[HEADER_BYTES:]) == IDLE
