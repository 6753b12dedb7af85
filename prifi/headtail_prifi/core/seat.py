"""Who takes part: clients and guards by their index in the epoch, and the relay."""

from enum import IntEnum
from functools import lru_cache
from typing import Final

import msgspec


class Role(IntEnum):
    """The three roles of the DC-net (PriFi, section 2)."""

    RELAY = 0
    CLIENT = 1
    GUARD = 2


class Seat(msgspec.Struct, frozen=True, order=True, gc=False):
    """One party's place in an epoch; as a destination, index `ALL` stands for the whole role."""

    role: Role
    index: int

    def encode(self) -> bytes:
        """3 bytes that name the party in what is signed or proved."""
        return self.role.to_bytes(1) + self.index.to_bytes(2)

    def __repr__(self) -> str:
        name = self.role.name.lower()
        if self.role is Role.RELAY:
            return name
        return f"{name}s" if self.index == ALL else f"{name} {self.index}"


ALL: Final = -1
RELAY: Final = Seat(Role.RELAY, 0)
CLIENTS: Final = Seat(Role.CLIENT, ALL)
GUARDS: Final = Seat(Role.GUARD, ALL)


@lru_cache(maxsize=4096)  # the relay asks for it with every frame
def client_seat(index: int) -> Seat:
    """Client number `index` of the epoch."""
    return Seat(Role.CLIENT, index)


def guard_seat(index: int) -> Seat:
    """Guard number `index` of the epoch."""
    return Seat(Role.GUARD, index)
