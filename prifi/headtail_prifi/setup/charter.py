"""What a client, or a third party with a file, checks before it believes in an epoch.

It verifies no shuffle proof: every guard verified all of them before it endorsed the outcome, and
one honest guard is assumed. It checks that all guards endorsed this very outcome.
"""

from collections.abc import Sequence

from headtail_prifi.core.seat import Role, Seat
from headtail_prifi.crypto.group import Point, group_named
from headtail_prifi.crypto.permutation import MIN_ITEMS
from headtail_prifi.setup.epoch import Epoch
from headtail_prifi.setup.errors import (
    AnnouncementRefusedError,
    FrameRefusedError,
    OutcomeRefusedError,
    UnexpectedMessageError,
)
from headtail_prifi.setup.keys import KeyPair, check_keys, read_keys
from headtail_prifi.setup.messages import (
    Announcement,
    Endorsement,
    GuardKeys,
    Outcome,
    Parcel,
    decode_point,
    split_points,
    unpack,
)
from headtail_prifi.setup.roster import Roster


def check_announcement(parcel: Parcel, roster: Roster, *, last_number: int) -> Announcement:
    """The announcement, if the relay signed it and it may be followed.

    Raises AnnouncementRefusedError for another roster, a number that is not above `last_number`,
    or members that are no anonymity set of the roster; MessageError for a bad signature.
    """
    announcement = parcel.message
    assert isinstance(announcement, Announcement)
    parcel.verify(roster.relay.verify_key)
    members = announcement.members
    if announcement.roster_hash != roster.hash:
        raise AnnouncementRefusedError("an epoch of another roster")
    if announcement.number <= last_number:
        raise AnnouncementRefusedError(f"epoch {announcement.number} after {last_number}")
    if list(members) != sorted(set(members)) or members[-1] >= len(roster.clients):
        raise AnnouncementRefusedError("members that are not a part of the roster")
    if len(members) < max(roster.min_clients, MIN_ITEMS):
        raise AnnouncementRefusedError(
            f"{len(members)} clients, at least {roster.min_clients} wanted"
        )
    return announcement


def pinned_key(roster: Roster, members: Sequence[int], seat: Seat) -> bytes:
    """The pinned key of a party of an epoch; UnexpectedMessageError if there is none."""
    try:
        if seat.role is Role.CLIENT:
            return roster.clients[members[seat.index]].verify_key
        if seat.role is Role.GUARD:
            return roster.guards[seat.index].verify_key
    except IndexError:
        raise UnexpectedMessageError(f"there is no {seat!r} in this epoch") from None
    return roster.relay.verify_key


def build_epoch(
    roster: Roster,
    announcement: Parcel,
    guard_keys: Sequence[Parcel],
    outcome: Parcel,
    endorsements: Sequence[Parcel],
) -> Epoch:
    """The epoch, everything checked that a client must check; parcels in the order of guards.

    Raises OutcomeRefusedError or KeyRefusedError. Whether the announcement's number is new is the
    caller's to judge.
    """
    try:
        return _build(roster, announcement, guard_keys, outcome, endorsements)
    except FrameRefusedError as error:
        raise OutcomeRefusedError(error.message) from None


def read_epoch(roster: Roster, charter: Sequence[bytes]) -> Epoch:
    """The epoch of a charter (`Epoch.charter`): what a third party computes from a file.

    Raises SetupError, whatever comes.
    """
    guards = len(roster.guards)
    parcels = [unpack(frame) for frame in charter]
    wanted = [Announcement, *[GuardKeys] * guards, Outcome, *[Endorsement] * guards]
    if [type(parcel.message) for parcel in parcels] != wanted:
        raise OutcomeRefusedError("not the charter of an epoch of this roster")
    return build_epoch(
        roster,
        parcels[0],
        parcels[1 : guards + 1],
        parcels[guards + 1],
        parcels[guards + 2 :],
    )


def _build(
    roster: Roster,
    announcement: Parcel,
    guard_keys: Sequence[Parcel],
    outcome: Parcel,
    endorsements: Sequence[Parcel],
) -> Epoch:
    opening = check_announcement(announcement, roster, last_number=0)
    group = group_named(roster.group)
    epoch_id, count = opening.epoch_id, len(opening.members)
    if not len(guard_keys) == len(endorsements) == len(roster.guards):
        raise OutcomeRefusedError("keys or endorsement of a guard are missing")
    pairs = []
    for guard, parcel in enumerate(guard_keys):
        keys = parcel.message
        assert isinstance(keys, GuardKeys)
        _check_guard(parcel, keys, guard, epoch_id, roster)
        pairs.append(read_keys(group, keys))
        check_keys(group, keys, pairs[-1])
    result = outcome.message
    assert isinstance(result, Outcome)
    outcome.verify(roster.relay.verify_key)
    if result.epoch_id != epoch_id:
        raise OutcomeRefusedError("an outcome of another epoch")
    for guard, parcel in enumerate(endorsements):
        endorsement = parcel.message
        assert isinstance(endorsement, Endorsement)
        _check_guard(parcel, endorsement, guard, epoch_id, roster)
        if endorsement.outcome_hash != result.hash(pairs):
            raise OutcomeRefusedError(f"guard {guard} endorsed another outcome")
    slots = split_points(group, result.slots, count)
    if len(set(slots)) != count:
        raise OutcomeRefusedError("two slots have one key")
    return assemble_epoch(
        roster,
        opening,
        guard_keys=pairs,
        client_keys=split_points(group, result.client_keys, count),
        base=decode_point(group, result.base),
        slots=slots,
        charter=(announcement, *guard_keys, outcome, *endorsements),
    )


def assemble_epoch(
    roster: Roster,
    announcement: Announcement,
    *,
    guard_keys: Sequence[KeyPair],
    client_keys: tuple[Point, ...],
    base: Point,
    slots: tuple[Point, ...],
    charter: Sequence[Parcel],
) -> Epoch:
    """The epoch of what the caller has checked piece by piece, as guards and the relay do."""
    return Epoch(
        epoch_id=announcement.epoch_id,
        number=announcement.number,
        roster=roster,
        group=group_named(roster.group),
        parameters=announcement.parameters,
        members=announcement.members,
        client_keys=client_keys,
        guard_keys=tuple(pair.first for pair in guard_keys),
        accusation_keys=tuple(pair.second for pair in guard_keys),
        base=base,
        slots=slots,
        charter=tuple(parcel.frame for parcel in charter),
    )


def _check_guard(
    parcel: Parcel, message: GuardKeys | Endorsement, guard: int, epoch_id: bytes, roster: Roster
) -> None:
    if message.guard != guard or message.epoch_id != epoch_id:
        raise OutcomeRefusedError(f"a message of guard {guard} belongs elsewhere")
    parcel.verify(roster.guards[guard].verify_key)
