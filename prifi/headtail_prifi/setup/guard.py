"""A guard's part of the set-up: it shuffles, proves, verifies everybody, and only then endorses."""

from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from functools import partial
from typing import Final

from headtail_prifi.core.seat import RELAY, Role, Seat, guard_seat
from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.group import group_named
from headtail_prifi.crypto.shuffle import Shuffled
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.setup.chain import ShuffleChain
from headtail_prifi.setup.charter import assemble_epoch, check_announcement, pinned_key
from headtail_prifi.setup.core import Ready, SetupCore, Table, reason_for
from headtail_prifi.setup.epoch import GuardSecrets
from headtail_prifi.setup.errors import (
    AbandonedError,
    AttemptFailedError,
    OutcomeRefusedError,
    SilentPartyError,
    UnexpectedMessageError,
)
from headtail_prifi.setup.keys import KeyRing, SecretPair, make_guard_keys
from headtail_prifi.setup.messages import (
    Abort,
    Announcement,
    ClientKeys,
    Endorsement,
    GuardKeys,
    MessageOfEpoch,
    Outcome,
    Parcel,
    ShuffleProof,
    ShuffleStep,
    pack,
    unpack,
)
from headtail_prifi.setup.roster import Roster


class GuardState(Enum):
    """How far a guard's attempt is."""

    WAITING = auto()
    COLLECTING = auto()
    SHUFFLING = auto()
    ENDORSED = auto()
    READY = auto()
    FAILED = auto()


class _Milestone(Enum):
    KEYS_COMPLETE = auto()
    ALL_VERIFIED = auto()
    ALL_ENDORSED = auto()


TABLE: Final[Table[GuardState]] = {
    GuardState.WAITING: {Announcement: GuardState.COLLECTING},
    GuardState.COLLECTING: {
        GuardKeys: GuardState.COLLECTING,
        ClientKeys: GuardState.COLLECTING,
        _Milestone.KEYS_COMPLETE: GuardState.SHUFFLING,
        Abort: GuardState.FAILED,
    },
    GuardState.SHUFFLING: {
        ShuffleStep: GuardState.SHUFFLING,
        ShuffleProof: GuardState.SHUFFLING,
        _Milestone.ALL_VERIFIED: GuardState.ENDORSED,
        Abort: GuardState.FAILED,
    },
    GuardState.ENDORSED: {
        Outcome: GuardState.ENDORSED,
        Endorsement: GuardState.ENDORSED,
        _Milestone.ALL_ENDORSED: GuardState.READY,
        Abort: GuardState.FAILED,
    },
    GuardState.READY: {},
    GuardState.FAILED: {},
}


class _Urgency(IntEnum):
    """Others wait for the step, then for the proof; verifying fills the time between."""

    STEP = 0
    PROOF = 1
    VERIFY_SHUFFLE = 2
    VERIFY_KEYS = 3
    ENDORSE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stake:
    """What the guard put into an announced epoch, and whose keys it collects."""

    announcement: Parcel
    opening: Announcement
    epoch_id: bytes
    secrets: SecretPair
    guards: KeyRing
    clients: KeyRing


class GuardSetup(SetupCore[GuardState]):
    """Ends with `Ready` once all guards endorsed one outcome, or with `Failed`.

    It endorses when it has verified the signature and proof of every client's and guard's keys,
    made its own shuffle, and verified the proof of every other. It shuffles keys that it has not
    verified yet: an attempt in which one turns out bad is given up, and its pseudonyms are never
    used. `last_number` is the number of the last epoch that it saw, over restarts too.
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
        super().__init__(table=TABLE, start=GuardState.WAITING, failed=GuardState.FAILED)
        self._roster = roster
        self._key = signing_key
        self._guard = [guard.verify_key for guard in roster.guards].index(signing_key.verify_key)
        self._last_number = last_number
        self._entropy = entropy
        self._timeout_s = timeout_s
        self._group = group_named(roster.group)
        self._stake: _Stake | None = None
        self._chain: ShuffleChain | None = None
        self._proofs: set[int] = set()
        self._to_verify = 0
        self._outcome: Outcome | None = None
        self._result: list[Parcel] = []

    def receive(self, frame: bytes | bytearray | memoryview, now: float) -> None:
        """A frame from the relay. Raises FrameRefusedError, changing nothing, for one that is
        malformed, unsigned or out of place; a lie inside a good one ends the attempt instead."""
        self._now = now
        parcel = unpack(frame)
        match parcel.message:
            case Announcement():
                self._on_announcement(parcel, now)
            case GuardKeys() | ClientKeys() as message:
                self._on_keys(parcel, message)
            case ShuffleStep() as message:
                self._on_step(parcel, message)
            case ShuffleProof() as message:
                self._on_proof(parcel, message)
            case Outcome() as message:
                self._on_outcome(parcel, message)
            case Endorsement() as message:
                self._on_endorsement(parcel, message)
            case Abort() as message:
                self._on_abort(parcel, message)

    # -- keys ---------------------------------------------------------------------------------

    def _on_announcement(self, parcel: Parcel, now: float) -> None:
        announcement = check_announcement(parcel, self._roster, last_number=self._last_number)
        self._enter(Announcement)
        epoch_id = announcement.epoch_id
        secrets, keys = make_guard_keys(self._group, epoch_id, self._guard, self._entropy)
        own = pack(keys, self._key)
        guards = KeyRing(self._group, len(self._roster.guards))
        guards.add(self._guard, own)
        self._stake = _Stake(
            announcement=parcel,
            opening=announcement,
            epoch_id=epoch_id,
            secrets=secrets,
            guards=guards,
            clients=KeyRing(self._group, len(announcement.members)),
        )
        self._deadline_at = now + self._timeout_s
        self._send(RELAY, own.frame)

    def _on_keys(self, parcel: Parcel, message: GuardKeys | ClientKeys) -> None:
        stake = self._authenticated(parcel, message)
        self._enter(type(message))
        ring = stake.clients if isinstance(message, ClientKeys) else stake.guards
        self._guarded(lambda: self._take(ring, message.author.index, parcel))
        if not self.failed and stake.clients.complete and stake.guards.complete:
            self._enter(_Milestone.KEYS_COMPLETE)
            self._chain = ShuffleChain(self._group, stake.epoch_id, stake.clients.seconds)
            self._take_turn()

    def _take(self, ring: KeyRing, index: int, parcel: Parcel) -> None:
        if ring.add(index, parcel):
            self._to_verify += 1
            self._later(_Urgency.VERIFY_KEYS, partial(self._verify_keys, ring, index))

    def _verify_keys(self, ring: KeyRing, index: int) -> None:
        ring.verify(index)
        self._verified()

    # -- shuffle ------------------------------------------------------------------------------

    def _on_step(self, parcel: Parcel, message: ShuffleStep) -> None:
        self._authenticated(parcel, message)
        self._enter(ShuffleStep)
        assert self._chain is not None
        chain = self._chain
        if message.guard == self._guard or message.guard != chain.next_guard:
            raise UnexpectedMessageError(f"{message.author!r} shuffles out of turn")
        self._guarded(lambda: chain.add(message))
        self._take_turn()

    def _take_turn(self) -> None:
        if not self.failed and self._chain and self._chain.next_guard == self._guard:
            self._to_verify += 1
            self._later(_Urgency.STEP, self._shuffle)

    def _shuffle(self) -> None:
        assert self._chain is not None
        shuffled = self._chain.shuffle(self._entropy)
        self._send(RELAY, pack(self._chain.step(self._guard), self._key).frame)
        self._later(_Urgency.PROOF, partial(self._prove, shuffled))

    def _prove(self, shuffled: Shuffled) -> None:
        assert self._chain is not None
        proof = self._chain.prove(self._guard, shuffled, self._entropy)
        self._send(RELAY, pack(proof, self._key).frame)
        self._proofs.add(self._guard)
        self._verified()

    def _on_proof(self, parcel: Parcel, message: ShuffleProof) -> None:
        self._authenticated(parcel, message)
        self._enter(ShuffleProof)
        assert self._chain is not None
        if message.guard >= self._chain.next_guard or message.guard in (
            self._guard,
            *self._proofs,
        ):
            raise UnexpectedMessageError(f"a proof of {message.author!r} out of turn")
        self._proofs.add(message.guard)
        self._to_verify += 1
        self._later(_Urgency.VERIFY_SHUFFLE, partial(self._verify_shuffle, message))

    def _verify_shuffle(self, message: ShuffleProof) -> None:
        assert self._chain is not None
        self._chain.verify(message)
        self._verified()

    # -- outcome ------------------------------------------------------------------------------

    def _verified(self) -> None:
        """One more thing is verified; endorses after the last."""
        self._to_verify -= 1
        if self._to_verify or len(self._proofs) != len(self._roster.guards):
            return
        stake, chain = self._stake, self._chain
        assert stake is not None
        assert chain is not None
        self._enter(_Milestone.ALL_VERIFIED)
        self._outcome = chain.outcome(stake.clients.firsts)
        endorsement = Endorsement(
            epoch_id=stake.epoch_id,
            guard=self._guard,
            outcome_hash=self._outcome.hash(stake.guards.pairs),
        )
        self._send(RELAY, pack(endorsement, self._key).frame)

    def _on_outcome(self, parcel: Parcel, message: Outcome) -> None:
        self._authenticated(parcel, message)
        if self._result:
            raise UnexpectedMessageError("a second outcome")
        self._enter(Outcome)
        self._result.append(parcel)
        self._guarded(lambda: self._compare(message))

    def _compare(self, told: Outcome) -> None:
        if told != self._outcome:
            raise OutcomeRefusedError("the relay tells another outcome than this guard's")

    def _on_endorsement(self, parcel: Parcel, message: Endorsement) -> None:
        self._authenticated(parcel, message)
        if message.guard != len(self._result) - 1:
            raise UnexpectedMessageError(f"an endorsement of {message.author!r} out of turn")
        self._enter(Endorsement)
        self._result.append(parcel)
        self._guarded(lambda: self._accept(message))

    def _accept(self, endorsement: Endorsement) -> None:
        stake, chain, outcome = self._stake, self._chain, self._outcome
        assert stake is not None
        assert chain is not None
        assert outcome is not None
        author = endorsement.author
        if endorsement.outcome_hash != outcome.hash(stake.guards.pairs):
            raise OutcomeRefusedError(f"{author!r} endorsed another outcome", author=author)
        if len(self._result) <= len(self._roster.guards):
            return
        epoch = assemble_epoch(
            self._roster,
            stake.opening,
            guard_keys=stake.guards.pairs,
            client_keys=stake.clients.firsts,
            base=chain.last.base,
            slots=chain.last.keys,
            charter=(stake.announcement, *stake.guards.parcels, *self._result),
        )
        secrets = GuardSecrets(
            guard=self._guard,
            exponent=stake.secrets.first,
            accusation=stake.secrets.second,
            shared=self._group.diffie_hellman(stake.secrets.first, epoch.client_keys),
        )
        self._enter(_Milestone.ALL_ENDORSED)
        self._deadline_at = None
        self._events.append(Ready(epoch=epoch, secrets=secrets))

    # -- the end of an attempt ----------------------------------------------------------------

    def _on_abort(self, parcel: Parcel, message: Abort) -> None:
        self._authenticated(parcel, message)
        if message.author != RELAY:
            raise UnexpectedMessageError(f"an abort of {message.author!r}")
        self._enter(Abort)
        self._end(AbandonedError(f"the relay gave up: {message.reason.name}"), (message.accused,))

    def _on_deadline(self) -> None:
        self._give_up(SilentPartyError("the set-up was not finished in time"), ())

    def _give_up(self, error: AttemptFailedError, culprits: tuple[Seat, ...]) -> None:
        super()._give_up(error, culprits)
        assert self._stake is not None
        accused = culprits[0] if culprits else RELAY
        abort = Abort(
            epoch_id=self._stake.epoch_id,
            role=Role.GUARD,
            index=self._guard,
            reason=reason_for(error),
            accused_role=accused.role,
            accused_index=accused.index,
        )
        self._send(RELAY, pack(abort, self._key).frame)

    def _authenticated(self, parcel: Parcel, message: MessageOfEpoch) -> _Stake:
        """The stake, if the message belongs to its epoch and is signed by its author."""
        if self._stake is None or message.epoch_id != self._stake.epoch_id:
            raise UnexpectedMessageError("a message of another epoch")
        parcel.verify(pinned_key(self._roster, self._stake.opening.members, message.author))
        return self._stake

    def __repr__(self) -> str:
        return f"GuardSetup({guard_seat(self._guard)!r}, {self.state.name})"
