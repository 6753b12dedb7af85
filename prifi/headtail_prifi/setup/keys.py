"""The keys that clients and guards bring to an epoch: made, read, checked, and kept apart."""

from typing import NamedTuple

from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.errors import ProofError
from headtail_prifi.crypto.group import Group, Point
from headtail_prifi.crypto.sigma import prove_knowledge, verify_knowledge
from headtail_prifi.setup.errors import KeyRefusedError, MessageError, UnexpectedMessageError
from headtail_prifi.setup.messages import ClientKeys, GuardKeys, Parcel, decode_point


class KeyPair(NamedTuple):
    """A client's pad key and pseudonym, or a guard's pad key and accusation key."""

    first: Point
    second: Point


class SecretPair(NamedTuple):
    """The secrets of a `KeyPair`."""

    first: int
    second: int


def make_client_keys(
    group: Group, epoch_id: bytes, client: int, entropy: Entropy
) -> tuple[SecretPair, ClientKeys]:
    """Fresh keys of a client, with their proof."""
    secrets = SecretPair(group.random_scalar(entropy), group.random_scalar(entropy))
    keys = ClientKeys(
        epoch_id=epoch_id,
        client=client,
        pad_key=group.mul_base(secrets.first).encode(),
        pseudonym=group.mul_base(secrets.second).encode(),
        proof=_prove(group, secrets, _context(epoch_id, b"client", client), entropy),
    )
    return secrets, keys


def make_guard_keys(
    group: Group, epoch_id: bytes, guard: int, entropy: Entropy
) -> tuple[SecretPair, GuardKeys]:
    """Fresh keys of a guard, with their proof."""
    secrets = SecretPair(group.random_scalar(entropy), group.random_scalar(entropy))
    keys = GuardKeys(
        epoch_id=epoch_id,
        guard=guard,
        pad_key=group.mul_base(secrets.first).encode(),
        accusation_key=group.mul_base(secrets.second).encode(),
        proof=_prove(group, secrets, _context(epoch_id, b"guard", guard), entropy),
    )
    return secrets, keys


def read_keys(group: Group, keys: ClientKeys | GuardKeys) -> KeyPair:
    """The two points; KeyRefusedError for the identity and whatever else is no point."""
    second = keys.pseudonym if isinstance(keys, ClientKeys) else keys.accusation_key
    try:
        return KeyPair(decode_point(group, keys.pad_key), decode_point(group, second))
    except MessageError as error:
        raise KeyRefusedError(f"{keys.author!r}: {error.message}", author=keys.author) from None


def check_keys(group: Group, keys: ClientKeys | GuardKeys, pair: KeyPair) -> None:
    """KeyRefusedError unless the author proved both secrets, for this epoch and its own seat."""
    if isinstance(keys, ClientKeys):
        context = _context(keys.epoch_id, b"client", keys.client)
    else:
        context = _context(keys.epoch_id, b"guard", keys.guard)
    try:
        verify_knowledge(group, group.base, pair, keys.proof, context=context)
    except ProofError as error:
        raise KeyRefusedError(f"{keys.author!r}: {error.message}", author=keys.author) from None


class KeyRing:
    """The keys of all parties of one role, as they come in; no key may occur twice in it."""

    def __init__(self, group: Group, count: int) -> None:
        self._group = group
        self._count = count
        self._parcels: dict[int, Parcel] = {}
        self._pairs: dict[int, KeyPair] = {}
        self._owners: dict[Point, int] = {}

    def add(self, index: int, parcel: Parcel) -> bool:
        """Takes the keys of party `index`; False when this very parcel is known already.

        Raises UnexpectedMessageError for a second, different one of the same party or an index
        out of range, and KeyRefusedError for a bad key or a copy; then nothing is kept. A copy is
        the fault of whoever cannot prove that it holds the secret, not of whoever came second.
        """
        keys = _keys(parcel)
        if index >= self._count:
            raise UnexpectedMessageError(f"there is no {keys.author!r} in this epoch")
        known = self._parcels.get(index)
        if known is not None:
            if known.frame == parcel.frame:
                return False
            raise UnexpectedMessageError(f"{keys.author!r} brings other keys than before")
        pair = read_keys(self._group, keys)
        owners = {self._owners[point] for point in pair if point in self._owners}
        if owners or pair.first == pair.second:
            check_keys(self._group, keys, pair)
            for owner in owners:
                self.verify(owner)
            raise KeyRefusedError(f"{keys.author!r} brings a key twice", author=keys.author)
        self._owners.update(dict.fromkeys(pair, index))
        self._parcels[index] = parcel
        self._pairs[index] = pair
        return True

    def verify(self, index: int) -> None:
        """Raises KeyRefusedError unless this party, if its keys are here, proved its secrets."""
        if index in self._pairs:
            check_keys(self._group, _keys(self._parcels[index]), self._pairs[index])

    @property
    def complete(self) -> bool:
        """Everybody's keys are here."""
        return len(self._pairs) == self._count

    @property
    def missing(self) -> tuple[int, ...]:
        """Whose keys are not."""
        return tuple(index for index in range(self._count) if index not in self._pairs)

    @property
    def parcels(self) -> tuple[Parcel, ...]:
        """All parcels in order, once complete."""
        return tuple(self._parcels[index] for index in range(self._count))

    @property
    def pairs(self) -> tuple[KeyPair, ...]:
        """All keys in order, once complete."""
        return tuple(self._pairs[index] for index in range(self._count))

    @property
    def firsts(self) -> tuple[Point, ...]:
        """The pad keys in order, once complete."""
        return tuple(pair.first for pair in self.pairs)

    @property
    def seconds(self) -> tuple[Point, ...]:
        """The pseudonyms or accusation keys in order, once complete."""
        return tuple(pair.second for pair in self.pairs)


def _keys(parcel: Parcel) -> ClientKeys | GuardKeys:
    keys = parcel.message
    assert isinstance(keys, ClientKeys | GuardKeys)
    return keys


def _prove(group: Group, secrets: SecretPair, context: bytes, entropy: Entropy) -> bytes:
    return prove_knowledge(group, group.base, secrets, context=context, entropy=entropy)


def _context(epoch_id: bytes, role: bytes, index: int) -> bytes:
    return b"prifi/setup keys\0" + epoch_id + role + index.to_bytes(2)
