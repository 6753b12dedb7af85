"""The wire format of the set-up: round trips, limits, signatures, and fuzz."""

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_prifi.core.seat import RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.crypto.group import group_named
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.setup.errors import MessageError
from headtail_prifi.setup.memory import SetupSwarm, enrol
from headtail_prifi.setup.messages import (
    MAX_FRAME_BYTES,
    PREFIX,
    Abort,
    Announcement,
    ClientKeys,
    Endorsement,
    GuardKeys,
    Message,
    Outcome,
    Parcel,
    Reason,
    ShuffleProof,
    ShuffleStep,
    decode_point,
    join_points,
    pack,
    split_points,
    unpack,
)

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "prifi-setup-v1.json").read_text())
GROUP = group_named("secp256k1")
POINT = GROUP.base.encode()
EPOCH = b"e" * 32
KEY = SigningKey(b"k" * 32)
MESSAGES: list[tuple[Message, Seat]] = [
    (
        Announcement(number=1, roster_hash=EPOCH, members=(0, 2), parameters=b"p", nonce=bytes(32)),
        RELAY,
    ),
    (
        GuardKeys(epoch_id=EPOCH, guard=1, pad_key=POINT, accusation_key=POINT, proof=bytes(64)),
        guard_seat(1),
    ),
    (
        ClientKeys(epoch_id=EPOCH, client=3, pad_key=POINT, pseudonym=POINT, proof=bytes(64)),
        client_seat(3),
    ),
    (ShuffleStep(epoch_id=EPOCH, guard=0, base=POINT, keys=POINT * 2), guard_seat(0)),
    (ShuffleProof(epoch_id=EPOCH, guard=2, proof=b"proof"), guard_seat(2)),
    (Endorsement(epoch_id=EPOCH, guard=1, outcome_hash=EPOCH), guard_seat(1)),
    (Outcome(epoch_id=EPOCH, client_keys=POINT * 2, base=POINT, slots=POINT * 2), RELAY),
    (
        Abort(
            epoch_id=EPOCH,
            role=Role.CLIENT,
            index=4,
            reason=Reason.KEYS,
            accused_role=Role.GUARD,
            accused_index=1,
        ),
        client_seat(4),
    ),
]
NAMES = [type(message).__name__ for message, _ in MESSAGES]


def raw(message: Message, changes: dict[int, object]) -> bytes:
    """A well signed frame of the message with fields (by position) exchanged."""
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
    for position, value in changes.items():
        fields[position] = value
    return framed(msgspec.msgpack.encode(fields))


def framed(body: bytes) -> bytes:
    return PREFIX + KEY.sign(body, purpose="prifi/setup/guard") + body


@pytest.mark.parametrize(("message", "author"), MESSAGES, ids=NAMES)
def test_a_message_comes_back_and_names_its_author(message: Message, author: Seat) -> None:
    parcel = pack(message, KEY)
    again = unpack(memoryview(parcel.frame))
    assert again == parcel
    assert again.message == message
    assert message.author == author
    again.verify(KEY.verify_key)


@pytest.mark.parametrize(("message", "author"), MESSAGES, ids=NAMES)
def test_a_signature_is_checked(message: Message, author: Seat) -> None:
    parcel = pack(message, KEY)
    with pytest.raises(MessageError, match="not signed") as caught:
        parcel.verify(SigningKey(bytes(32)).verify_key)
    assert caught.value.facts == {"author": author}
    damaged = bytearray(parcel.frame)
    damaged[10] ^= 1
    with pytest.raises(MessageError, match="not signed"):
        unpack(damaged).verify(KEY.verify_key)


def test_a_signature_of_one_role_does_not_pass_for_another() -> None:
    """The relay's key signs an endorsement with the relay's purpose: no guard ever said it."""
    body = msgspec.msgpack.encode(MESSAGES[5][0])
    frame = PREFIX + KEY.sign(body, purpose="prifi/setup/relay") + body
    with pytest.raises(MessageError, match="not signed"):
        unpack(frame).verify(KEY.verify_key)


@pytest.mark.parametrize(("message", "author"), MESSAGES, ids=NAMES)
def test_every_truncation_is_refused(message: Message, author: Seat) -> None:
    frame = pack(message, KEY).frame
    for size in range(len(frame)):
        with pytest.raises(MessageError):
            unpack(frame[:size])
    with pytest.raises(MessageError):
        unpack(frame + b"\0")


@pytest.mark.parametrize(
    ("number", "position", "value"),
    [
        (0, 0, 99),
        (0, 1, 0),
        (0, 1, 2**63),
        (0, 2, bytes(31)),
        (0, 3, [1]),
        (0, 3, [0, 5000]),
        (0, 3, list(range(2049))),
        (0, 4, bytes(1025)),
        (1, 1, bytes(33)),
        (1, 2, 16),
        (1, 2, -1),
        (1, 3, bytes(32)),
        (1, 5, bytes(63)),
        (2, 2, 2048),
        (3, 4, bytes(33)),
        (3, 4, bytes(33 * 2049)),
        (4, 3, bytes(300_000)),
        (6, 2, b""),
        (7, 2, 3),
        (7, 4, 0),
        (7, 6, "guard"),
    ],
)
def test_fields_have_limits(number: int, position: int, value: object) -> None:
    with pytest.raises(MessageError):
        unpack(raw(MESSAGES[number][0], {position: value}))


def test_a_frame_has_a_largest_size() -> None:
    with pytest.raises(MessageError, match="bytes"):
        unpack(bytes(MAX_FRAME_BYTES + 1))


@pytest.mark.parametrize("prefix", [b"HT\x01\x00", b"HS\x02\x00", b"HS\x01\x01"])
def test_another_format_is_refused(prefix: bytes) -> None:
    with pytest.raises(MessageError, match="version"):
        unpack(prefix + pack(MESSAGES[0][0], KEY).frame[4:])


def test_another_encoding_of_the_same_fields_is_refused() -> None:
    body = msgspec.msgpack.encode(MESSAGES[5][0])
    assert body[1] == 6, "the tag, one byte"
    with pytest.raises(MessageError, match="one encoding"):
        unpack(framed(body[:1] + b"\xcc\x06" + body[2:]))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_give_a_message_error(data: bytes) -> None:
    for frame in (data, PREFIX + data, framed(data)):
        with contextlib.suppress(MessageError):
            assert isinstance(unpack(frame), Parcel)


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.binary(max_size=70)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(MESSAGES), st.dictionaries(st.integers(0, 4), junk, max_size=3))
def test_any_field_values_give_a_message_error(
    chosen: tuple[Message, Seat], changes: dict[int, object]
) -> None:
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(chosen[0]))
    kept = {position: value for position, value in changes.items() if position < len(fields)}
    with contextlib.suppress(MessageError):
        assert isinstance(unpack(raw(chosen[0], kept)), Parcel)


def test_points_are_split_and_joined() -> None:
    points = [GROUP.mul_base(scalar) for scalar in (1, 2, 3)]
    joined = join_points(points)
    assert list(split_points(GROUP, joined, 3)) == points
    for data, count in ((joined, 2), (joined[:-1], 3), (b"", 1), (bytes(99), 3)):
        with pytest.raises(MessageError):
            split_points(GROUP, data, count)
    with pytest.raises(MessageError, match="bad key"):
        decode_point(GROUP, bytes(33))


def test_the_name_of_an_epoch_binds_everything() -> None:
    base = MESSAGES[0][0]
    assert isinstance(base, Announcement)
    changes: list[dict[str, object]] = [
        {},
        {"number": 2},
        {"roster_hash": bytes(32)},
        {"members": (0, 1)},
        {"parameters": b"q"},
        {"nonce": b"n" * 32},
    ]
    names = {msgspec.structs.replace(base, **change).epoch_id for change in changes}
    assert len(names) == len(changes)


def test_what_guards_endorse_binds_everything() -> None:
    outcome = MESSAGES[6][0]
    assert isinstance(outcome, Outcome)
    one, two = (GROUP.mul_base(scalar) for scalar in (1, 2))
    other = two.encode()
    hashes = {
        outcome.hash([(one, two)]),
        outcome.hash([(two, one)]),
        outcome.hash([(one, two), (one, two)]),
        msgspec.structs.replace(outcome, epoch_id=bytes(32)).hash([(one, two)]),
        msgspec.structs.replace(outcome, client_keys=POINT + other).hash([(one, two)]),
        msgspec.structs.replace(outcome, base=other).hash([(one, two)]),
        msgspec.structs.replace(outcome, slots=other + POINT).hash([(one, two)]),
    }
    assert len(hashes) == 7


@pytest.mark.parametrize("vector", VECTORS["attempts"], ids=lambda vector: vector["group"])
def test_a_whole_attempt_is_frozen(vector: dict[str, Any]) -> None:
    """Every frame of a small set-up, in the order in which it was sent."""
    entropy = SeededEntropy(vector["seed"].encode())
    digest = hashlib.sha256()
    kinds: list[str] = []

    def watch(source: Seat, target: Seat, frame: bytes) -> list[bytes]:
        digest.update(frame)
        kinds.append(type(unpack(frame).message).__name__)
        return [frame]

    enrolment = enrol(2, 2, entropy, group=vector["group"])
    swarm = SetupSwarm(enrolment, entropy, parameters=b"vector", tamper=watch)
    swarm.run()
    epoch = swarm.finished().epoch
    assert digest.hexdigest() == vector["frames"]
    assert " ".join(kinds) == vector["kinds"]
    assert epoch.epoch_id.hex() == vector["epoch"]
    assert join_points(epoch.slots).hex() == vector["slots"]
    assert [frame.hex() for frame in epoch.charter] == vector["charter"]
