"""What a core tells the program around it; named in the past."""

from dataclasses import dataclass

from headtail_prifi.core.seat import Seat
from headtail_prifi.setup.roster import Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class DataReceived:
    """Client: the relay broadcast `data` in `round`. For whom it is, only its key tells."""

    round: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CellDelivered:
    """Client: the cell with this id reached the relay undisturbed, once."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CellReturned:
    """Client: the cell with this id does not fit into the cells of the next epoch. Nobody has it;
    say it in smaller pieces."""

    id: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CellArrived:
    """Relay: pseudonym `slot` said `body` in `round`."""

    round: int
    slot: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipChanged:
    """Anyone: from `first_round` on only the clients of this membership take part."""

    membership: Membership
    first_round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientDropped:
    """Relay: the client is to leave. `reason` is for the operator; a verdict, if there is one,
    comes as an event of its own."""

    client: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnding:
    """Relay: the last round of the epoch is open; the successor may begin."""

    successor: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochOver:
    """Anyone: nothing more happens in this epoch. `successor` is the epoch that goes on, if one
    was announced; else `reason` tells what is wrong."""

    reason: str
    successor: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOpened:
    """Client or guard: a disruption of `round` is being investigated, and this side answered."""

    round: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictReached:
    """Anyone: who is to blame. `evidence` convinces whoever knows the epoch
    (`blame/evidence.py`); keep it in a file."""

    culprit: Seat | None
    slot: int | None
    charge: str
    evidence: bytes


Event = (
    DataReceived
    | CellDelivered
    | CellReturned
    | CellArrived
    | MembershipChanged
    | ClientDropped
    | EpochEnding
    | EpochOver
    | CaseOpened
    | VerdictReached
)
