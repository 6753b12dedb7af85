"""The relay's part of the set-up: it announces, passes frames on, and finds out who spoilt it.

For privacy nobody trusts it: every frame that it passes on is signed by its author, and guards
verify each other. It verifies what it needs to name a culprit, so that the next attempt succeeds.
"""

from collections.abc import Sequence
from enum import Enum, IntEnum, auto
from functools import partial
from typing import Final

from headtail_prifi.core.seat import CLIENTS, GUARDS, RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.group import group_named
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.setup.chain import ShuffleChain
from headtail_prifi.setup.charter import assemble_epoch, check_announcement, pinned_key
from headtail_prifi.setup.core import Ready, SetupCore, Table, reason_for
from headtail_prifi.setup.errors import (
    AbandonedError,
    AttemptFailedError,
    OutcomeRefusedError,
    SilentPartyError,
    UnexpectedMessageError,
)
from headtail_prifi.setup.keys import KeyRing
from headtail_prifi.setup.messages import (
    Abort,
    Announcement,
    ClientKeys,
    Endorsement,
    GuardKeys,
    MessageOfEpoch,
    Outcome,
    Parcel,
    Reason,
    ShuffleProof,
    ShuffleStep,
    pack,
    unpack,
)
from headtail_prifi.setup.roster import Roster


class RelayState(Enum):
    """How far the relay's attempt is."""

    IDLE = auto()
    COLLECTING = auto()
    SHUFFLING = auto()
    READY = auto()
    FAILED = auto()


class _Milestone(Enum):
    STARTED = auto()
    KEYS_COMPLETE = auto()
    ALL_ENDORSED = auto()


TABLE: Final[Table[RelayState]] = {
    RelayState.IDLE: {_Milestone.STARTED: RelayState.COLLECTING},
    RelayState.COLLECTING: {
        GuardKeys: RelayState.COLLECTING,
        ClientKeys: RelayState.COLLECTING,
        Abort: RelayState.COLLECTING,
        _Milestone.KEYS_COMPLETE: RelayState.SHUFFLING,
    },
    RelayState.SHUFFLING: {
        ShuffleStep: RelayState.SHUFFLING,
        ShuffleProof: RelayState.SHUFFLING,
        Endorsement: RelayState.SHUFFLING,
        Abort: RelayState.SHUFFLING,
        _Milestone.ALL_ENDORSED: RelayState.READY,
    },
    RelayState.READY: {},
    RelayState.FAILED: {},
}


class _Urgency(IntEnum):
    READ_STEP = 0
    VERIFY_KEYS = 1
    JUDGE = 2
    FINISH = 3


class RelaySetup(SetupCore[RelayState]):
    """One attempt with the clients `members` (indices in the roster), under a new `number`.

    Ends with `Ready` when every guard endorsed the outcome, or with `Failed`, whose culprits are
    to be left out of the next attempt, which is a new object with a higher number. A frame must
    come from the link of a known party, but who that is does not matter here: frames are signed.
    """

    def __init__(
        self,
        *,
        roster: Roster,
        signing_key: SigningKey,
        number: int,
        members: Sequence[int],
        parameters: bytes,
        entropy: Entropy,
        keys_timeout_s: float = 10.0,
        shuffle_timeout_s: float = 30.0,
    ) -> None:
        super().__init__(table=TABLE, start=RelayState.IDLE, failed=RelayState.FAILED)
        self._roster = roster
        self._key = signing_key
        self._keys_timeout_s = keys_timeout_s
        self._shuffle_timeout_s = shuffle_timeout_s
        self._group = group_named(roster.group)
        announcement = Announcement(
            number=number,
            roster_hash=roster.hash,
            members=tuple(members),
            parameters=parameters,
            nonce=entropy.bytes(32),
        )
        self._announcement = pack(announcement, signing_key)
        self._opening = check_announcement(self._announcement, roster, last_number=0)
        self._epoch_id = announcement.epoch_id
        self._guards = KeyRing(self._group, len(roster.guards))
        self._clients = KeyRing(self._group, len(members))
        self._chain: ShuffleChain | None = None
        self._steps = 0
        self._proofs: dict[int, ShuffleProof] = {}
        self._endorsements: dict[int, Parcel] = {}

    def start(self, now: float) -> None:
        """Announces the epoch to everybody."""
        self._enter(_Milestone.STARTED)
        self._deadline_at = now + self._keys_timeout_s
        self._send(GUARDS, self._announcement.frame)
        self._send(CLIENTS, self._announcement.frame)

    def receive(self, frame: bytes | bytearray | memoryview, now: float) -> None:
        """A frame from a client or guard. Raises FrameRefusedError, changing nothing, for one
        that is malformed, unsigned or out of place: whoever sent it loses the connection."""
        self._now = now
        parcel = unpack(frame)
        message = parcel.message
        if isinstance(message, Announcement | Outcome):
            raise UnexpectedMessageError(f"{type(message).__name__} is not for the relay")
        self._authenticate(parcel, message)
        match message:
            case GuardKeys() | ClientKeys():
                self._on_keys(parcel, message, now)
            case ShuffleStep():
                self._on_step(parcel, message)
            case ShuffleProof():
                self._on_proof(parcel, message)
            case Endorsement():
                self._on_endorsement(parcel, message)
            case Abort():
                self._on_abort(message)

    # -- keys ---------------------------------------------------------------------------------

    def _on_keys(self, parcel: Parcel, message: GuardKeys | ClientKeys, now: float) -> None:
        self._enter(type(message))
        ring = self._clients if isinstance(message, ClientKeys) else self._guards
        self._guarded(lambda: self._take(ring, parcel, message))
        if not self.failed and self._clients.complete and self._guards.complete:
            self._enter(_Milestone.KEYS_COMPLETE)
            self._deadline_at = now + self._shuffle_timeout_s
            self._chain = ShuffleChain(self._group, self._epoch_id, self._clients.seconds)

    def _take(self, ring: KeyRing, parcel: Parcel, message: GuardKeys | ClientKeys) -> None:
        index = message.author.index
        if not ring.add(index, parcel):
            return
        self._later(_Urgency.VERIFY_KEYS, partial(ring.verify, index))
        if isinstance(message, ClientKeys):
            self._send(GUARDS, parcel.frame)
        elif ring.complete:
            for keys in ring.parcels:
                self._send(GUARDS, keys.frame)
                self._send(CLIENTS, keys.frame)

    # -- shuffle ------------------------------------------------------------------------------

    def _on_step(self, parcel: Parcel, message: ShuffleStep) -> None:
        self._enter(ShuffleStep)
        assert self._chain is not None
        if message.guard != self._steps:
            raise UnexpectedMessageError(f"{message.author!r} shuffles out of turn")
        self._steps += 1
        self._send_to_others(message.author, parcel.frame)
        self._later(_Urgency.READ_STEP, partial(self._chain.add, message))

    def _on_proof(self, parcel: Parcel, message: ShuffleProof) -> None:
        self._enter(ShuffleProof)
        assert self._chain is not None
        if message.guard >= self._steps or message.guard in self._proofs:
            raise UnexpectedMessageError(f"a proof of {message.author!r} out of turn")
        self._proofs[message.guard] = message
        self._send_to_others(message.author, parcel.frame)

    def _on_endorsement(self, parcel: Parcel, message: Endorsement) -> None:
        self._enter(Endorsement)
        if len(self._proofs) != len(self._roster.guards) or message.guard in self._endorsements:
            raise UnexpectedMessageError(f"an endorsement of {message.author!r} out of turn")
        self._endorsements[message.guard] = parcel
        if len(self._endorsements) == len(self._roster.guards):
            self._later(_Urgency.FINISH, self._finish)

    def _finish(self) -> None:
        assert self._chain is not None
        last = self._chain.last
        outcome = self._chain.outcome(self._clients.firsts)
        endorsed = outcome.hash(self._guards.pairs)
        endorsements = [self._endorsements[guard] for guard in range(len(self._roster.guards))]
        for parcel in endorsements:
            endorsement = parcel.message
            assert isinstance(endorsement, Endorsement)
            if endorsement.outcome_hash != endorsed:
                author = endorsement.author
                raise OutcomeRefusedError(f"{author!r} endorsed another outcome", author=author)
        signed = pack(outcome, self._key)
        for parcel in (signed, *endorsements):
            self._send(CLIENTS, parcel.frame)
            self._send(GUARDS, parcel.frame)
        self._enter(_Milestone.ALL_ENDORSED)
        self._deadline_at = None
        epoch = assemble_epoch(
            self._roster,
            self._opening,
            guard_keys=self._guards.pairs,
            client_keys=self._clients.firsts,
            base=last.base,
            slots=last.keys,
            charter=(self._announcement, *self._guards.parcels, signed, *endorsements),
        )
        self._events.append(Ready(epoch=epoch, secrets=None))

    # -- the end of an attempt ----------------------------------------------------------------

    def _on_abort(self, message: Abort) -> None:
        self._enter(Abort)
        self._later(_Urgency.JUDGE, partial(self._judge, message))

    def _judge(self, abort: Abort) -> None:
        """Always raises: what the relay itself finds wrong, else that the complaint is false."""
        accused = abort.accused
        if abort.reason is Reason.KEYS:
            ring = self._clients if accused.role is Role.CLIENT else self._guards
            ring.verify(accused.index)
        elif abort.reason is Reason.SHUFFLE and self._chain is not None:
            proof = self._proofs.get(accused.index)
            if proof is not None:
                self._chain.verify(proof)
        raise AbandonedError(
            f"{abort.author!r} gave up ({abort.reason.name}) without cause in {accused!r}",
            author=abort.author,
        )

    def _on_deadline(self) -> None:
        silent = self._silent()
        names = ", ".join(map(repr, silent))
        self._give_up(SilentPartyError(f"no answer in time: {names}", parties=silent), silent)

    def _silent(self) -> tuple[Seat, ...]:
        """Whom the attempt waits for."""
        guards = range(len(self._roster.guards))
        if self._chain is None:
            return (
                *map(guard_seat, self._guards.missing),
                *map(client_seat, self._clients.missing),
            )
        if self._steps in guards:
            return (guard_seat(self._steps),)
        waiting: list[int] = [guard for guard in guards if guard not in self._proofs]
        waiting = waiting or [guard for guard in guards if guard not in self._endorsements]
        return tuple(map(guard_seat, waiting))

    def _give_up(self, error: AttemptFailedError, culprits: tuple[Seat, ...]) -> None:
        super()._give_up(error, culprits)
        accused = culprits[0] if culprits else RELAY
        abort = Abort(
            epoch_id=self._epoch_id,
            role=Role.RELAY,
            index=0,
            reason=reason_for(error),
            accused_role=accused.role,
            accused_index=accused.index,
        )
        frame = pack(abort, self._key).frame
        self._send(GUARDS, frame)
        self._send(CLIENTS, frame)

    def _authenticate(self, parcel: Parcel, message: MessageOfEpoch) -> None:
        if message.epoch_id != self._epoch_id:
            raise UnexpectedMessageError("a message of another epoch")
        parcel.verify(pinned_key(self._roster, self._opening.members, message.author))

    def _send_to_others(self, author: Seat, frame: bytes) -> None:
        for guard in range(len(self._roster.guards)):
            if guard != author.index:
                self._send(guard_seat(guard), frame)

    def __repr__(self) -> str:
        return (
            f"RelaySetup({self.state.name}, clients missing={len(self._clients.missing)}, "
            f"guards missing={len(self._guards.missing)})"
        )
