"""Property 2: whoever of two honest clients owns a slot, the adversary sees the very same bytes.

The adversary is the relay, every guard but one, and every client but A and B; it sees every frame
on every link. For a transcript in which A owns slot s and B slot t there is a choice of the pads
that A and B share with the honest guard, exactly as likely, under which B owns s and A owns t and
every frame is the same. The test computes that choice and runs the whole protocol again.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest

from headtail_prifi.core.events import EpochOver, MembershipChanged, VerdictReached
from headtail_prifi.core.geometry import LANE_BYTES, Geometry
from headtail_prifi.core.header import HEADER_BYTES, Header, Kind
from headtail_prifi.core.messages import NOBODY
from headtail_prifi.core.seat import RELAY, Role, Seat, client_seat
from headtail_prifi.crypto.cipher import BLOCK_BYTES, PadCipher, PadStream, default_cipher
from headtail_prifi.crypto.entropy import Entropy, SeededEntropy
from headtail_prifi.crypto.field import multiply
from headtail_prifi.misbehaviour import (
    LyingWitness,
    disrupt,
    recast,
    witness_as,
)
from headtail_prifi.round.composer import Bytes, Composer
from headtail_prifi.round.lock import Lock
from headtail_prifi.setup.memory import Finished
from headtail_prifi.setup.roster import Membership
from headtail_prifi.swarm import Links, Scene, Sighting, Swarm, set_scene

GEOMETRY = Geometry(clients=4, cell_bytes=128, sub_slots=2, window=2)
A, B, DISRUPTOR = 0, 2, 3
HONEST_GUARD = 1


class Recording(Composer):
    """Notes what a client added to its pads in each round, and the round's lock."""

    plains: dict[int, Bytes]
    locks: dict[int, Lock]

    def compose(
        self, header: Header, row: Bytes, lock: Lock, owners: tuple[int, ...], permit: int
    ) -> tuple[bytes, int]:
        payload = GEOMETRY.payload_bytes
        base = row[:payload].tobytes() + lock.mask(row[payload:].tobytes())
        frame, bit = super().compose(header, row, lock, owners, permit)
        self.plains[header.round] = np.frombuffer(frame[HEADER_BYTES:], np.uint8) ^ np.frombuffer(
            base, np.uint8
        )
        self.locks[header.round] = lock
        return frame, bit


class PatchedCipher:
    """The pads of some keys, with a difference from some byte of the stream on."""

    name = "patched"

    def __init__(self, inner: PadCipher, patches: dict[bytes, dict[int, bytes]]) -> None:
        self._inner = inner
        self._patches = patches
        self.seal = inner.seal
        self.open = inner.open

    def stream(self, key: bytes) -> PadStream:
        inner = self._inner.stream(key)
        return _Patched(inner, self._patches[key]) if key in self._patches else inner


class _Patched:
    def __init__(self, inner: PadStream, patches: dict[int, bytes]) -> None:
        self._inner = inner
        self._patches = patches

    def xor_into(self, buffer: bytearray | memoryview, block: int) -> None:
        self._inner.xor_into(buffer, block)
        view = np.frombuffer(buffer, np.uint8)
        for start, patch in self._patches.items():
            at = start - block * BLOCK_BYTES
            if 0 <= at < len(view):
                view[at : at + len(patch)] ^= np.frombuffer(patch, np.uint8)

    def keystream(self, block: int, size: int) -> bytes:
        buffer = bytearray(-(-size // BLOCK_BYTES) * BLOCK_BYTES)
        self.xor_into(buffer, block)
        return bytes(buffer[:size])


def inverse(element: bytes) -> bytes:
    """element ** (2**128 - 2) in GF(2^128)."""
    power, result = element, None
    for _ in range(127):
        power = multiply(power, power)
        result = power if result is None else multiply(result, power)
    assert result is not None
    return result


def stream_difference(difference: Bytes, lock: Lock) -> bytes:
    """What to add to a pair's stream of a round so that its cipher changes by `difference`."""
    payload = GEOMETRY.payload_bytes
    stream = np.zeros(GEOMETRY.stream_bytes, np.uint8)
    stream[:payload] = difference[:payload]
    undo = inverse(lock._product.elements[0])
    for lane in range(GEOMETRY.lanes):
        start = payload + lane * LANE_BYTES
        wanted = difference[start : start + LANE_BYTES].tobytes()
        stream[start : start + LANE_BYTES] = np.frombuffer(multiply(undo, wanted), np.uint8)
    return stream.tobytes()


def swapped(finished: Finished) -> Finished:
    """The same epoch, A and B having changed slots."""
    one, other = finished.clients[A], finished.clients[B]
    clients = list(finished.clients)
    clients[A] = replace(one, slot=other.slot, pseudonym=other.pseudonym)
    clients[B] = replace(other, slot=one.slot, pseudonym=one.pseudonym)
    return Finished(finished.epoch, tuple(clients), finished.guards)


Script = Callable[[Swarm, int, int], None]
"""(swarm, client with A's slot, client with B's slot): what happens."""


def play(scene: Scene, script: Script, cipher: PadCipher, swap: bool, loss: float) -> Swarm:
    def entropy(seat: Seat) -> Entropy:
        if swap and seat in (client_seat(A), client_seat(B)):
            seat = client_seat(A + B - seat.index)
        return SeededEntropy(b"swap" + seat.encode())

    swarm = Swarm(
        scene,
        cipher=cipher,
        entropy=entropy,
        links=Links(
            delay_s=lambda seat: 0.01 if seat.role is Role.CLIENT else 0.03,
            loss=lambda seat: loss,
        ),
    )
    swarm.sightings = []
    for client in (A, B):
        recording = recast(swarm.clients[client]._composer, Recording)
        recording.plains, recording.locks = {}, {}
        swarm.clients[client]._composer = recording
    script(swarm, *((B, A) if swap else (A, B)))
    return swarm


def patches_for(scene: Scene, swarm: Swarm) -> dict[bytes, dict[int, bytes]]:
    """The other choice of the honest guard's pads that explains the same frames."""
    memberships: dict[int, Membership] = {0: scene.finished.epoch.membership}
    changes = swarm.events(MembershipChanged, RELAY)
    for change in changes:
        memberships[change.first_round] = change.membership
    composers = [
        composer
        for client in (A, B)
        if isinstance(composer := swarm.clients[client]._composer, Recording)
    ]
    patches: dict[bytes, dict[int, bytes]] = {}
    for round_, plain in composers[0].plains.items():
        first = max(first for first in memberships if first <= round_)
        difference = plain ^ composers[1].plains[round_]
        patch = stream_difference(difference, composers[0].locks[round_])
        for client in (A, B):
            key = scene.finished.clients[client].pad_keys(memberships[first])[HONEST_GUARD]
            start = round_ * GEOMETRY.stride_blocks * BLOCK_BYTES
            patches.setdefault(key, {})[start] = patch
    return patches


def views(script: Script, loss: float = 0.0) -> tuple[list[Sighting], list[Sighting], Swarm]:
    """All frames of a run, and of the run with A and B swapped."""
    scene = set_scene(4, 2, GEOMETRY)
    first = play(scene, script, default_cipher(), False, loss)
    patched = PatchedCipher(default_cipher(), patches_for(scene, first))
    other = Scene(scene.enrolment, swapped(scene.finished))
    second = play(other, script, patched, True, loss)
    assert first.sightings is not None
    assert second.sightings is not None
    return first.sightings, second.sightings, second


def kinds(sightings: list[Sighting]) -> set[Kind]:
    return {Kind(sighting.frame[0]) for sighting in sightings}


def talk(swarm: Swarm, first: int, second: int) -> None:
    swarm.start()
    for number in range(5):
        swarm.send(first, b"of the first slot %d" % number)
        if number % 2:
            swarm.send(second, b"of the second slot %d" % number)
        swarm.run_rounds(3)
    swarm.run_rounds(70)


def disrupted(place: str) -> Script:
    """A script with one flip, tried at 16 places of the cell so that some 0 becomes a 1."""

    def script(swarm: Swarm, first: int, second: int) -> None:
        slot = swarm.slot(first)

        def flips(round_: int, owners: tuple[int, ...]) -> Iterable[int]:
            if place == "reservation":
                return [GEOMETRY.reservation_bit(slot)] if round_ == 3 else []
            if slot not in owners or done:
                return []
            done.append(round_)
            sub_slot = owners.index(slot)
            if place == "payload":
                return range(8 * 128 * sub_slot, 8 * 128 * sub_slot + 16)
            return range(
                8 * GEOMETRY.key_lane_start(sub_slot), 8 * GEOMETRY.key_lane_start(sub_slot) + 16
            )

        done: list[int] = []
        disrupt(swarm.clients[DISRUPTOR], flips)
        swarm.start()
        if place != "reservation":
            swarm.send(first, b"to be disrupted")
            swarm.send(second, b"another voice")
        swarm.run_rounds(40)

    return script


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_p2_owner_swap_of_cells_and_reservations(loss: float) -> None:
    first, second, swarm = views(talk, loss)
    assert first == second
    wanted = {Kind.UP, Kind.DOWN, Kind.PADS, Kind.GRANT}
    assert kinds(first) == wanted | ({Kind.NACK} if loss else set())
    assert len(swarm.bodies(swarm.slot(B))) == 5
    assert len(swarm.bodies(swarm.slot(A))) == 2


@pytest.mark.parametrize("place", ["payload", "key", "reservation"])
def test_p2_owner_swap_of_accusation_blame_and_expulsion(place: str) -> None:
    first, second, swarm = views(disrupted(place))
    assert first == second
    assert kinds(first) >= {
        Kind.UP,
        Kind.DOWN,
        Kind.VOUCH,
        Kind.VOUCHED,
        Kind.CASE,
        Kind.REVEAL,
        Kind.VERDICT,
        Kind.PROPOSE,
        Kind.ENDORSE,
    }
    (verdict,) = swarm.events(VerdictReached, RELAY)
    assert verdict.culprit == client_seat(DISRUPTOR)
    assert swarm.relay.membership.version == 1


def test_p2_owner_swap_when_the_disruptor_lies_and_secrets_are_opened() -> None:
    def script(swarm: Swarm, first: int, second: int) -> None:
        witness_as(swarm.clients[DISRUPTOR], LyingWitness)
        disrupted("payload")(swarm, first, second)

    first, second, swarm = views(script)
    assert first == second
    assert kinds(first) >= {Kind.CONFLICT, Kind.OPENING}
    (verdict,) = swarm.events(VerdictReached, RELAY)
    assert verdict.culprit == client_seat(DISRUPTOR)


def test_p2_owner_swap_of_leaving() -> None:
    def script(swarm: Swarm, first: int, second: int) -> None:
        swarm.start()
        swarm.send(first, b"before")
        swarm.run_rounds(6)
        swarm.leave(DISRUPTOR)
        swarm.send(first, b"after")
        swarm.run_rounds(20)

    first, second, swarm = views(script)
    assert first == second
    assert Kind.LEAVE in kinds(first)
    assert swarm.relay.membership.clients == (0, 1, 2)


def test_p2_owner_swap_is_not_blind() -> None:
    """Positive control: without the other pads the two runs differ from the first cell on."""
    scene = set_scene(4, 2, GEOMETRY)
    first = play(scene, talk, default_cipher(), False, 0.0)
    other = Scene(scene.enrolment, swapped(scene.finished))
    second = play(other, talk, default_cipher(), True, 0.0)
    assert first.sightings != second.sightings


def test_p2_owner_swap_of_the_accusation_shuffle_in_shape() -> None:
    """Rows of the shuffle are encrypted afresh, so they are compared in size and order only."""

    def script(swarm: Swarm, first: int, second: int) -> None:
        slot = swarm.slot(first)
        noise = SeededEntropy(b"noise")

        def flips(round_: int, owners: tuple[int, ...]) -> Iterable[int]:
            for sub_slot, owner in enumerate(owners):
                if owner == slot:
                    mask = noise.bytes(128)
                    start = sub_slot * 128 * 8
                    yield from (start + i for i in range(1024) if mask[i >> 3] >> (i & 7) & 1)

        disrupt(swarm.clients[DISRUPTOR], flips)
        swarm.start()
        swarm.send(first, b"jammed")
        swarm.run(lambda: bool(swarm.events(VerdictReached, RELAY)), 60.0)

    scene = set_scene(4, 2, GEOMETRY)
    first = play(scene, script, default_cipher(), False, 0.0)
    other = Scene(scene.enrolment, swapped(scene.finished))
    second = play(other, script, default_cipher(), True, 0.0)
    shapes = []
    for swarm in (first, second):
        assert swarm.sightings is not None
        shapes.append(
            [
                (each.at, each.source, each.target, each.frame[0], len(each.frame))
                for each in swarm.sightings
            ]
        )
        (verdict,) = swarm.events(VerdictReached, RELAY)
        assert verdict.culprit == client_seat(DISRUPTOR)
        assert not swarm.events(EpochOver)
    assert shapes[0] == shapes[1]
    wanted = {Kind.CALL, Kind.SUBMIT, Kind.MIX, Kind.MIXED, Kind.UNMASK, Kind.SHARES}
    assert kinds(first.sightings or []) >= wanted
    assert NOBODY not in (first.slot(A), first.slot(B))
