"""The accusation shuffle: what guards and the relay refuse, and who is blamed."""

import pytest
from msgspec.structs import replace

from headtail_fabric.errors import PeerError
from headtail_prifi.blame.messages import Call, Mix, Mixed, Shares, Submit, Unmask
from headtail_prifi.blame.mixing import NOTHING, MixClient, MixGuard, Shuffle, open_shuffle
from headtail_prifi.core.body import decode_body, split_signed
from headtail_prifi.core.errors import UnexpectedFrameError
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import HEADER_BYTES, Kind
from headtail_prifi.core.seat import client_seat, guard_seat
from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.swarm import Scene, set_scene


@pytest.fixture(scope="module")
def scene() -> Scene:
    return set_scene(3, 2, Geometry(clients=3, cell_bytes=128))


def mix_clients(scene: Scene) -> list[MixClient]:
    return [
        MixClient(
            epoch=scene.finished.epoch,
            client=index,
            signing_key=scene.enrolment.clients[index],
            entropy=SeededEntropy(b"c%d" % index),
        )
        for index in range(3)
    ]


def mix_guards(scene: Scene) -> list[MixGuard]:
    return [
        MixGuard(
            epoch=scene.finished.epoch,
            secrets=secrets,
            signing_key=scene.enrolment.guards[secrets.guard],
            entropy=SeededEntropy(b"g%d" % secrets.guard),
        )
        for secrets in scene.finished.guards
    ]


def shuffle_of(scene: Scene, number: int = 1) -> Shuffle:
    return Shuffle(scene.finished.epoch, scene.finished.epoch.membership, number)


def submissions(scene: Scene, number: int = 1) -> tuple[bytes, ...]:
    membership = scene.finished.epoch.membership
    return tuple(
        client.on_call(Call(number=number), membership, b"accusation" if index else NOTHING)
        for index, client in enumerate(mix_clients(scene))
    )


def test_what_is_submitted_comes_out_without_its_author(scene: Scene) -> None:
    membership, shuffle = scene.finished.epoch.membership, shuffle_of(scene)
    rows = submissions(scene)
    guards = mix_guards(scene)
    steps: tuple[bytes, ...] = ()
    for guard in guards:
        steps += (guard.on_mix(Mix(number=1, submissions=rows, steps=steps), membership),)
    unmask = Unmask(number=1, steps=steps)
    shares = [guard.on_unmask(unmask) for guard in guards]
    mixed = [shuffle.read_submission(frame, index) for index, frame in enumerate(rows)]
    for index, step in enumerate(steps):
        mixed = shuffle.read_step(step, index, mixed)
    opened = open_shuffle(
        shuffle, mixed, [shuffle.read_shares(s, i, mixed) for i, s in enumerate(shares)]
    )
    assert sorted(opened) == [b"accusation", b"accusation"]
    # the same again when asked again, and nothing else
    assert guards[0].on_mix(Mix(number=1, submissions=rows, steps=()), membership) == steps[0]
    assert guards[0].on_unmask(unmask) == shares[0]
    with pytest.raises(UnexpectedFrameError):
        guards[0].on_unmask(replace(unmask, steps=steps[::-1]))


def test_a_client_submits_once_per_number(scene: Scene) -> None:
    membership = scene.finished.epoch.membership
    client = mix_clients(scene)[0]
    first = client.on_call(Call(number=2), membership, b"x")
    assert client.on_call(Call(number=2), membership, b"y") == first
    assert client.on_call(Call(number=3), membership, b"y") != first
    with pytest.raises(UnexpectedFrameError):
        client.on_call(Call(number=1), membership, b"x")


def test_submissions_look_alike(scene: Scene) -> None:
    assert len({len(frame) for frame in submissions(scene)}) == 1


def body(frame: bytes, kind: type[Mixed] | type[Submit] | type[Shares]) -> Mixed | Submit | Shares:
    return decode_body(kind, split_signed(frame)[0][HEADER_BYTES:])


def submitted(frame: bytes) -> Submit:
    return decode_body(Submit, split_signed(frame)[0][HEADER_BYTES:])


def test_a_guard_mixes_only_what_every_client_signed(scene: Scene) -> None:
    membership = scene.finished.epoch.membership
    rows = submissions(scene)
    other = submissions(scene, number=2)
    guard = mix_guards(scene)[0]
    for bad in (
        rows[:2],
        (rows[0], rows[0], rows[2]),
        (rows[1], rows[0], rows[2]),
        (*rows[:2], rows[2][:-1] + bytes([rows[2][-1] ^ 1])),
        (*rows[:2], other[2]),
    ):
        with pytest.raises(PeerError):
            guard.on_mix(Mix(number=1, submissions=bad, steps=()), membership)
    with pytest.raises(UnexpectedFrameError):
        guard.on_mix(Mix(number=1, submissions=rows, steps=(rows[0],)), membership)
    guard.on_mix(Mix(number=1, submissions=rows, steps=()), membership)
    again = Mix(number=1, submissions=(*rows[:2], other[2]), steps=())
    with pytest.raises(UnexpectedFrameError):
        guard.on_mix(again, membership)


def test_a_copied_row_is_refused(scene: Scene) -> None:
    """A client signs another's row as its own: the proof binds the author."""
    shuffle, rows = shuffle_of(scene), submissions(scene)
    stolen = body(rows[1], Submit)
    assert isinstance(stolen, Submit)
    frame = shuffle.sign(Kind.SUBMIT, stolen, client_seat(2), scene.enrolment.clients[2])
    with pytest.raises(PeerError):
        shuffle.read_submission(frame, 2)


def test_a_guard_opens_nothing_that_does_not_follow_from_its_own_mix(scene: Scene) -> None:
    membership, shuffle = scene.finished.epoch.membership, shuffle_of(scene)
    rows = submissions(scene)
    guards = mix_guards(scene)
    with pytest.raises(UnexpectedFrameError):
        guards[0].on_unmask(Unmask(number=1, steps=(b"", b"")))
    first = guards[0].on_mix(Mix(number=1, submissions=rows, steps=()), membership)
    second = guards[1].on_mix(Mix(number=1, submissions=rows, steps=(first,)), membership)
    mixed = body(second, Mixed)
    assert isinstance(mixed, Mixed)
    unmixed = replace(mixed, rows=b"".join(submitted(row).row for row in rows))
    forged = shuffle.sign(Kind.MIXED, unmixed, guard_seat(1), scene.enrolment.guards[1])
    misnumbered = shuffle.sign(
        Kind.MIXED, replace(mixed, number=9), guard_seat(1), scene.enrolment.guards[1]
    )
    for steps in (
        (first,),
        (second, first),
        (first, first),
        (first, forged),
        (first, misnumbered),
        (rows[0], second),
    ):
        with pytest.raises(PeerError):
            guards[0].on_unmask(Unmask(number=1, steps=steps))
    with pytest.raises(UnexpectedFrameError):
        guards[0].on_unmask(Unmask(number=2, steps=(first, second)))
    assert guards[0].on_unmask(Unmask(number=1, steps=(first, second)))


def test_shares_that_are_not_the_guards_are_refused(scene: Scene) -> None:
    membership, shuffle = scene.finished.epoch.membership, shuffle_of(scene)
    rows = submissions(scene)
    guards = mix_guards(scene)
    first = guards[0].on_mix(Mix(number=1, submissions=rows, steps=()), membership)
    second = guards[1].on_mix(Mix(number=1, submissions=rows, steps=(first,)), membership)
    frame = guards[0].on_unmask(Unmask(number=1, steps=(first, second)))
    mixed = [shuffle.read_submission(row, index) for index, row in enumerate(rows)]
    for index, step in enumerate((first, second)):
        mixed = shuffle.read_step(step, index, mixed)
    shuffle.read_shares(frame, 0, mixed)
    shares = body(frame, Shares)
    assert isinstance(shares, Shares)
    swapped = shares.shares[33:66] + shares.shares[:33] + shares.shares[66:]
    forged = shuffle.sign(
        Kind.SHARES, replace(shares, shares=swapped), guard_seat(0), scene.enrolment.guards[0]
    )
    with pytest.raises(PeerError):
        shuffle.read_shares(forged, 0, mixed)
    with pytest.raises(PeerError):
        shuffle.read_shares(frame, 1, mixed)
