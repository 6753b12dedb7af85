"""Keys of an epoch: what is refused, and whose fault a copy is."""

import msgspec
import pytest

from headtail_prifi.core.seat import client_seat, guard_seat
from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.crypto.group import Group, group_named
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.setup.errors import KeyRefusedError, UnexpectedMessageError
from headtail_prifi.setup.keys import (
    KeyRing,
    SecretPair,
    check_keys,
    make_client_keys,
    make_guard_keys,
    read_keys,
)
from headtail_prifi.setup.messages import ClientKeys, Parcel, pack

EPOCH = b"e" * 32
KEY = SigningKey(b"k" * 32)


@pytest.fixture(params=["secp256k1", "p256"])
def group(request: pytest.FixtureRequest) -> Group:
    return group_named(request.param)


def client(
    group: Group, index: int, seed: bytes = b"", epoch_id: bytes = EPOCH
) -> tuple[SecretPair, ClientKeys]:
    entropy = SeededEntropy(seed or bytes([index]))
    return make_client_keys(group, epoch_id, index, entropy)


def parcel(keys: ClientKeys, **changes: object) -> Parcel:
    return pack(msgspec.structs.replace(keys, **changes), KEY)


def test_fresh_keys_are_proven(group: Group) -> None:
    secrets, keys = client(group, 1)
    pair = read_keys(group, keys)
    assert pair == (group.mul_base(secrets.first), group.mul_base(secrets.second))
    check_keys(group, keys, pair)
    guard_secrets, guard_keys = make_guard_keys(group, EPOCH, 1, SeededEntropy(b"g"))
    guard_pair = read_keys(group, guard_keys)
    assert guard_pair == (
        group.mul_base(guard_secrets.first),
        group.mul_base(guard_secrets.second),
    )
    check_keys(group, guard_keys, guard_pair)


@pytest.mark.parametrize("change", [{"epoch_id": bytes(32)}, {"client": 2}])
def test_a_proof_holds_for_its_epoch_and_seat_only(group: Group, change: dict[str, object]) -> None:
    _, keys = client(group, 1)
    moved = msgspec.structs.replace(keys, **change)
    with pytest.raises(KeyRefusedError, match="does not hold") as caught:
        check_keys(group, moved, read_keys(group, moved))
    assert caught.value.facts == {"author": moved.author}


def test_a_clients_proof_does_not_pass_for_a_guards(group: Group) -> None:
    _, keys = client(group, 1)
    _, other = make_guard_keys(group, EPOCH, 1, SeededEntropy(b"g"))
    moved = msgspec.structs.replace(
        other, pad_key=keys.pad_key, accusation_key=keys.pseudonym, proof=keys.proof
    )
    with pytest.raises(KeyRefusedError) as caught:
        check_keys(group, moved, read_keys(group, moved))
    assert caught.value.facts == {"author": guard_seat(1)}


@pytest.mark.parametrize("name", ["pad_key", "pseudonym"])
def test_related_keys_have_no_proof(group: Group, name: str) -> None:
    """E = 2 E_victim would tell the victim's slot, X = X_victim + dB the victim's pads in blame."""
    _, victim = client(group, 0)
    _, keys = client(group, 1)
    stolen = group.decode(getattr(victim, name))
    for related in (group.mul(stolen, 2), group.add(stolen, group.base), group.negate(stolen)):
        rogue = msgspec.structs.replace(keys, **{name: related.encode()})
        with pytest.raises(KeyRefusedError):
            check_keys(group, rogue, read_keys(group, rogue))


@pytest.mark.parametrize("name", ["pad_key", "pseudonym"])
def test_bad_points_are_refused(group: Group, name: str) -> None:
    """Identity in any spelling, off-curve and non-canonical; there are no other points of low
    order on curves of prime order."""
    ring = KeyRing(group, 2)
    _, keys = client(group, 1)
    for bad in (bytes(33), b"\x02" + b"\xff" * 32, b"\x04" + bytes(32), b"\x01" + bytes(32)):
        with pytest.raises(KeyRefusedError, match="bad key") as caught:
            ring.add(1, parcel(keys, **{name: bad}))
        assert caught.value.facts == {"author": client_seat(1)}
    assert ring.missing == (0, 1)


def test_a_ring_collects_each_partys_keys(group: Group) -> None:
    ring = KeyRing(group, 2)
    (_, first), (_, second) = client(group, 0), client(group, 1)
    assert ring.add(1, parcel(second))
    assert (ring.complete, ring.missing) == (False, (0,))
    assert ring.add(0, parcel(first))
    assert ring.complete
    assert ring.parcels == (parcel(first), parcel(second))
    assert [point.encode() for point in ring.firsts] == [first.pad_key, second.pad_key]
    assert [point.encode() for point in ring.seconds] == [first.pseudonym, second.pseudonym]
    ring.verify(0)
    ring.verify(1)
    ring.verify(7)


def test_the_same_parcel_again_changes_nothing_and_another_is_refused(group: Group) -> None:
    ring = KeyRing(group, 1)
    _, keys = client(group, 0)
    assert ring.add(0, parcel(keys))
    assert not ring.add(0, parcel(keys))
    with pytest.raises(UnexpectedMessageError, match="other keys"):
        ring.add(0, parcel(client(group, 0, b"other")[1]))
    with pytest.raises(UnexpectedMessageError, match="no client 0"):
        KeyRing(group, 0).add(0, parcel(keys))


@pytest.mark.parametrize("name", ["pad_key", "pseudonym"])
def test_a_copy_is_its_authors_fault(group: Group, name: str) -> None:
    ring = KeyRing(group, 2)
    (_, victim), (_, keys) = client(group, 0), client(group, 1)
    ring.add(0, parcel(victim))
    with pytest.raises(KeyRefusedError) as caught:
        ring.add(1, parcel(keys, **{name: getattr(victim, name)}))
    assert caught.value.facts == {"author": client_seat(1)}
    assert ring.missing == (1,)


def test_a_copy_that_came_first_is_still_its_authors_fault(group: Group) -> None:
    ring = KeyRing(group, 2)
    (_, victim), (_, keys) = client(group, 0), client(group, 1)
    ring.add(1, parcel(keys, pseudonym=victim.pseudonym))
    with pytest.raises(KeyRefusedError) as caught:
        ring.add(0, parcel(victim))
    assert caught.value.facts == {"author": client_seat(1)}


def test_a_whole_replay_of_anothers_keys_is_refused(group: Group) -> None:
    ring = KeyRing(group, 2)
    _, victim = client(group, 0)
    ring.add(0, parcel(victim))
    with pytest.raises(KeyRefusedError) as caught:
        ring.add(1, parcel(victim, client=1))
    assert caught.value.facts == {"author": client_seat(1)}


def test_two_who_share_a_secret_are_refused_too(group: Group) -> None:
    ring = KeyRing(group, 2)
    shared = b"shared"
    ring.add(0, parcel(client(group, 0, shared)[1]))
    with pytest.raises(KeyRefusedError, match="twice") as caught:
        ring.add(1, parcel(client(group, 1, shared)[1]))
    assert caught.value.facts == {"author": client_seat(1)}


def test_one_key_for_both_uses_is_refused(group: Group) -> None:
    ring = KeyRing(group, 1)

    class Constant:
        def bytes(self, size: int) -> bytes:
            return b"\x07" * size

    _, keys = make_client_keys(group, EPOCH, 0, Constant())
    assert keys.pad_key == keys.pseudonym
    with pytest.raises(KeyRefusedError, match="twice"):
        ring.add(0, parcel(keys))
