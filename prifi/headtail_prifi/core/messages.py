"""The bodies of the round loop and of membership; blame has its own (`blame/messages.py`).

Two kinds carry raw bytes instead, for they are the hot path: UP (one upstream cell, and a 64-byte
voucher when the flag VOUCHED is set) and PADS (the stream of a number of rounds, voucher). DOWN
ends in the relay's 64-byte signature of the history that it makes.
"""

from typing import Annotated, Final

from msgspec import Meta

from headtail_prifi.core.body import Body, Hash, Round, Signature
from headtail_prifi.core.geometry import MAX_CELL_BYTES, MAX_DOWN_BYTES, MAX_SUB_SLOTS, MAX_WINDOW
from headtail_prifi.core.header import MAX_VERSION
from headtail_prifi.core.membership import Bitmap, Certificate

MAX_DATA_ITEMS: Final = 256
MAX_GRANT_ROUNDS: Final = 4096
MAX_NACK_ROUNDS: Final = 64
NOBODY: Final = 0xFFFF
ECHO_BYTES: Final = 16


class Report(Body, frozen=True, kw_only=True):
    """What the relay got in round `round`: 16 bytes of hash per sub-slot (payload, then key), and
    the opened reservation lanes."""

    round: Round
    echoes: Annotated[bytes, Meta(max_length=ECHO_BYTES * MAX_SUB_SLOTS)]
    reservations: Annotated[bytes, Meta(max_length=512)]


class Disclosure(Body, frozen=True, kw_only=True):
    """A disrupted sub-slot in full, so that its owner can find a flipped bit."""

    round: Round
    sub_slot: Annotated[int, Meta(ge=0, lt=MAX_SUB_SLOTS)]
    payload: Annotated[bytes, Meta(max_length=MAX_CELL_BYTES)]
    key: Annotated[bytes, Meta(min_length=16, max_length=16)]


class Retirement(Body, frozen=True, kw_only=True):
    """The epoch ends with round `last_round`; the epoch `successor` goes on from its round 0."""

    last_round: Round
    successor: Hash


class Down(Body, frozen=True, kw_only=True):
    """Relay to all clients: opens a round. `owners` holds 2 bytes a sub-slot: a slot, or NOBODY.

    Every closed round is reported once. With a certificate, the round is the first one of a new
    membership, and the rounds before it that were not reported by now never will be.
    """

    owners: Annotated[bytes, Meta(max_length=2 * MAX_SUB_SLOTS)]
    reports: Annotated[tuple[Report, ...], Meta(max_length=MAX_WINDOW)] = ()
    disclosure: Disclosure | None = None
    certificate: Certificate | None = None
    retirement: Retirement | None = None
    data: Annotated[
        tuple[Annotated[bytes, Meta(max_length=MAX_DOWN_BYTES)], ...],
        Meta(max_length=MAX_DATA_ITEMS),
    ] = ()


class Nack(Body, frozen=True, kw_only=True):
    """Client to relay: `count` downstream frames are missing from the header's round on."""

    count: Annotated[int, Meta(ge=1, le=MAX_NACK_ROUNDS)]


class Grant(Body, frozen=True, kw_only=True):
    """Relay to guard: send the pads of `count` rounds from the header's round on."""

    count: Annotated[int, Meta(ge=1, le=MAX_GRANT_ROUNDS)]


class Propose(Body, frozen=True, kw_only=True):
    """Relay to guards: endorse this membership."""

    version: Annotated[int, Meta(ge=1, le=MAX_VERSION)]
    clients: Bitmap


class Endorse(Body, frozen=True, kw_only=True):
    """Guard to relay: its signature of the membership whose version the header holds."""

    signature: Signature


class Leave(Body, frozen=True, kw_only=True):
    """Client to relay: it wants to be in no further membership."""
