"""A client's part of the set-up."""

import hmac
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from headtail_prifi.core.seat import RELAY, Role, Seat, client_seat
from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.group import group_named
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.setup.charter import build_epoch, check_announcement
from headtail_prifi.setup.core import Ready, SetupCore, Table, reason_for
from headtail_prifi.setup.epoch import ClientSecrets, Epoch
from headtail_prifi.setup.errors import (
    AbandonedError,
    AnnouncementRefusedError,
    AttemptFailedError,
    OutcomeRefusedError,
    SilentPartyError,
    UnexpectedMessageError,
)
from headtail_prifi.setup.keys import SecretPair, make_client_keys
from headtail_prifi.setup.messages import (
    Abort,
    Announcement,
    ClientKeys,
    Endorsement,
    GuardKeys,
    Outcome,
    Parcel,
    pack,
    unpack,
)
from headtail_prifi.setup.roster import Roster


class ClientState(Enum):
    """How far a client's attempt is."""

    WAITING = auto()
    KEYED = auto()
    CHECKING = auto()
    READY = auto()
    FAILED = auto()


class _Milestone(Enum):
    ENDORSED = auto()


TABLE: Final[Table[ClientState]] = {
    ClientState.WAITING: {Announcement: ClientState.KEYED},
    ClientState.KEYED: {
        GuardKeys: ClientState.KEYED,
        Outcome: ClientState.CHECKING,
        Abort: ClientState.FAILED,
    },
    ClientState.CHECKING: {
        Endorsement: ClientState.CHECKING,
        _Milestone.ENDORSED: ClientState.READY,
        Abort: ClientState.FAILED,
    },
    ClientState.READY: {},
    ClientState.FAILED: {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stake:
    """What the client put into an announced epoch."""

    announcement: Parcel
    epoch_id: bytes
    secrets: SecretPair
    keys: ClientKeys


class ClientSetup(SetupCore[ClientState]):
    """Brings fresh keys, then believes only an outcome that every guard endorsed and that holds
    its own keys; ends with `Ready`, which tells its slot, or with `Failed`.

    `last_number` is the number of the last epoch that this client saw, over restarts too. The
    relay must pass on what comes from guards in the order of guards.
    """

    def __init__(
        self,
        *,
        roster: Roster,
        signing_key: SigningKey,
        last_number: int,
        entropy: Entropy,
        timeout_s: float = 60.0,
    ) -> None:
        super().__init__(table=TABLE, start=ClientState.WAITING, failed=ClientState.FAILED)
        self._roster = roster
        self._key = signing_key
        self._last_number = last_number
        self._entropy = entropy
        self._timeout_s = timeout_s
        self._group = group_named(roster.group)
        self._stake: _Stake | None = None
        self._guard_keys: list[Parcel] = []
        self._outcome: Parcel | None = None
        self._endorsements: list[Parcel] = []

    def receive(self, frame: bytes | bytearray | memoryview, now: float) -> None:
        """A frame from the relay. Raises FrameRefusedError, changing nothing, for one that is
        malformed or out of place; a lie inside a good one ends the attempt instead."""
        parcel = unpack(frame)
        match parcel.message:
            case Announcement():
                self._on_announcement(parcel, now)
            case GuardKeys() as message:
                self._collect(parcel, message, self._guard_keys)
            case Outcome() as message:
                self._on_outcome(parcel, message)
            case Endorsement() as message:
                self._collect(parcel, message, self._endorsements)
                if len(self._endorsements) == len(self._roster.guards):
                    self._guarded(self._finish)
            case Abort() as message:
                self._on_abort(parcel, message)
            case message:
                raise UnexpectedMessageError(f"{type(message).__name__} is not for clients")

    def _on_announcement(self, parcel: Parcel, now: float) -> None:
        announcement = check_announcement(parcel, self._roster, last_number=self._last_number)
        members = [self._roster.clients[member].verify_key for member in announcement.members]
        if self._key.verify_key not in members:
            raise AnnouncementRefusedError("an epoch that this client is not in")
        self._enter(Announcement)
        secrets, keys = make_client_keys(
            self._group,
            announcement.epoch_id,
            members.index(self._key.verify_key),
            self._entropy,
        )
        self._stake = _Stake(
            announcement=parcel, epoch_id=announcement.epoch_id, secrets=secrets, keys=keys
        )
        self._deadline_at = now + self._timeout_s
        self._send(RELAY, pack(keys, self._key).frame)

    def _collect(
        self, parcel: Parcel, message: GuardKeys | Endorsement, into: list[Parcel]
    ) -> None:
        self._staked(message.epoch_id)
        if message.guard != len(into) or message.guard >= len(self._roster.guards):
            raise UnexpectedMessageError(f"{type(message).__name__} of guard {message.guard}")
        self._enter(type(message))
        into.append(parcel)

    def _on_outcome(self, parcel: Parcel, message: Outcome) -> None:
        self._staked(message.epoch_id)
        if len(self._guard_keys) != len(self._roster.guards):
            raise UnexpectedMessageError("an outcome before the keys of all guards")
        self._enter(Outcome)
        self._outcome = parcel

    def _finish(self) -> None:
        stake, outcome = self._stake, self._outcome
        assert stake is not None
        assert outcome is not None
        epoch = build_epoch(
            self._roster, stake.announcement, self._guard_keys, outcome, self._endorsements
        )
        client = stake.keys.client
        if epoch.client_keys[client].encode() != stake.keys.pad_key:
            raise OutcomeRefusedError("the outcome has another pad key for this client")
        secrets = ClientSecrets(
            client=client,
            slot=self._find_slot(epoch, stake.secrets.second),
            exponent=stake.secrets.first,
            pseudonym=stake.secrets.second,
            shared=self._group.diffie_hellman(stake.secrets.first, epoch.guard_keys),
        )
        self._enter(_Milestone.ENDORSED)
        self._deadline_at = None
        self._events.append(Ready(epoch=epoch, secrets=secrets))

    def _find_slot(self, epoch: Epoch, pseudonym: int) -> int:
        (own,) = self._group.diffie_hellman(pseudonym, (epoch.base,))
        found = [
            slot
            for slot, key in enumerate(epoch.slots)
            if hmac.compare_digest(self._group.digest(key), own)
        ]
        if not found:
            raise OutcomeRefusedError("the outcome has no slot for this client")
        return found[0]

    def _on_abort(self, parcel: Parcel, message: Abort) -> None:
        self._staked(message.epoch_id)
        if message.author != RELAY:
            raise UnexpectedMessageError(f"an abort of {message.author!r}")
        parcel.verify(self._roster.relay.verify_key)
        self._enter(Abort)
        self._end(AbandonedError(f"the relay gave up: {message.reason.name}"), (message.accused,))

    def _on_deadline(self) -> None:
        self._give_up(SilentPartyError("the set-up was not finished in time"), ())

    def _give_up(self, error: AttemptFailedError, culprits: tuple[Seat, ...]) -> None:
        super()._give_up(error, culprits)
        stake = self._stake
        assert stake is not None
        abort = Abort(
            epoch_id=stake.epoch_id,
            role=Role.CLIENT,
            index=stake.keys.client,
            reason=reason_for(error),
            accused_role=Role.RELAY,
            accused_index=0,
        )
        self._send(RELAY, pack(abort, self._key).frame)

    def _staked(self, epoch_id: bytes) -> None:
        if self._stake is None or epoch_id != self._stake.epoch_id:
            raise UnexpectedMessageError("a message of another epoch")

    def __repr__(self) -> str:
        name = client_seat(self._stake.keys.client) if self._stake else "unseated"
        return f"ClientSetup({name}, {self.state.name})"
