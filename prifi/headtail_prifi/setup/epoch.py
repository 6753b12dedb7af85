"""What a finished set-up leaves behind: the public epoch, and what each role keeps to itself."""

from dataclasses import dataclass, field

from headtail_prifi.crypto.derive import pad_key
from headtail_prifi.crypto.group import Group, Point
from headtail_prifi.setup.roster import Membership, Roster


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """The public side, the same for everybody, endorsed by every guard.

    Clients and guards are named by their index in the epoch. A client's index says nothing of its
    slot. `charter` is what a third party needs, with the roster, to get the same epoch
    (`charter.read_epoch`).
    """

    epoch_id: bytes
    number: int
    roster: Roster
    group: Group
    parameters: bytes
    members: tuple[int, ...]
    """Index in the roster of each client of the epoch."""
    client_keys: tuple[Point, ...]
    """X_i, for pads."""
    guard_keys: tuple[Point, ...]
    """Y_j, for pads."""
    accusation_keys: tuple[Point, ...]
    """Z_j, for the accusation shuffle (`crypto/mix.py`); never used in a Diffie-Hellman."""
    base: Point
    """B^m, the base of the pseudonym keys."""
    slots: tuple[Point, ...]
    """K^m_s: the pseudonym key of each slot, to the base `base`."""
    charter: tuple[bytes, ...] = field(repr=False, compare=False)
    """The signed frames: announcement, keys of each guard, outcome, endorsement of each guard."""

    @property
    def client_count(self) -> int:
        """n, which is also the number of slots."""
        return len(self.client_keys)

    @property
    def guard_count(self) -> int:
        """m."""
        return len(self.guard_keys)

    @property
    def membership(self) -> Membership:
        """Version 0: every client of the epoch."""
        return Membership(
            epoch_id=self.epoch_id, version=0, clients=tuple(range(self.client_count))
        )

    def client_verify_key(self, client: int) -> bytes:
        """The pinned signature key of a client."""
        return self.roster.clients[self.members[client]].verify_key

    def guard_verify_key(self, guard: int) -> bytes:
        """The pinned signature key of a guard."""
        return self.roster.guards[guard].verify_key


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecrets:
    """What client `client` keeps: its slot, and the secrets behind its keys."""

    client: int
    slot: int = field(repr=False)
    exponent: int = field(repr=False)
    """x_i; needed only to open a pair's secret in blame."""
    pseudonym: int = field(repr=False)
    """e_i, with slots[slot] = e_i base."""
    shared: tuple[bytes, ...] = field(repr=False)
    """The pair secret with each guard, 32 bytes."""

    def pad_keys(self, membership: Membership) -> tuple[bytes, ...]:
        """The pad key with each guard under this membership."""
        keys = _PadKeys(membership)
        return tuple(
            keys.of(secret, self.client, guard) for guard, secret in enumerate(self.shared)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSecrets:
    """What guard `guard` keeps."""

    guard: int
    exponent: int = field(repr=False)
    """y_j; needed only to open a pair's secret in blame."""
    accusation: int = field(repr=False)
    """z_j, to unmask the rows of an accusation shuffle."""
    shared: tuple[bytes, ...] = field(repr=False)
    """The pair secret with each client of the epoch, 32 bytes."""

    def pad_keys(self, membership: Membership) -> tuple[bytes, ...]:
        """The pad key with each client of this membership, in its order."""
        keys = _PadKeys(membership)
        return tuple(
            keys.of(self.shared[client], client, self.guard) for client in membership.clients
        )


def open_pad_key(shared: Point, membership: Membership, client: int, guard: int) -> bytes:
    """The pad key of a pair whose shared point was opened in blame: what anyone recomputes."""
    return _PadKeys(membership).of(shared.group.digest(shared), client, guard)


class _PadKeys:
    """The pad keys of one membership, whose hash is computed once for all pairs."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._hash = membership.hash

    def of(self, secret: bytes, client: int, guard: int) -> bytes:
        return pad_key(
            secret=secret,
            epoch_id=self._membership.epoch_id,
            roster_hash=self._hash,
            version=self._membership.version,
            client=client,
            guard=guard,
        )
