"""A client of the running DC-net.

The life of a round here: a downstream frame arrives in order, is hashed into the history, and is
answered at once with the XOR of the pads, the locked lanes and, in its own sub-slots, its own
sealed cell. Everything that depends on whether a sub-slot was its own (confirming, accusing,
sealing what comes next) waits until the answer has left: call `to_send` after `receive`, then
`next_event`.
"""

from collections import deque
from enum import StrEnum
from typing import Final

from headtail_prifi.blame.accusation import Accusation
from headtail_prifi.blame.evidence import TwoHistories, encode_evidence
from headtail_prifi.blame.judge import Charge
from headtail_prifi.blame.messages import Vouched
from headtail_prifi.blame.mixing import MixClient
from headtail_prifi.blame.watch import Watch
from headtail_prifi.blame.witness import Witness
from headtail_prifi.core.body import Body, decode_body, frame_of, split_signed
from headtail_prifi.core.errors import FrameError, StateError, UnexpectedFrameError
from headtail_prifi.core.events import (
    CellDelivered,
    DataReceived,
    EpochOver,
    Event,
    MembershipChanged,
    VerdictReached,
)
from headtail_prifi.core.geometry import LANE_BYTES, Geometry
from headtail_prifi.core.header import (
    HEADER_BYTES,
    VOUCHED,
    Buffer,
    Header,
    Kind,
    read_header,
    short_id,
)
from headtail_prifi.core.membership import Certificate, check_certificate
from headtail_prifi.core.messages import ECHO_BYTES, Down, Leave, Nack
from headtail_prifi.core.seat import RELAY, client_seat
from headtail_prifi.crypto.cipher import PadCipher, PadStream
from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.round.cell import CellKind
from headtail_prifi.round.chain import Chain, Offer
from headtail_prifi.round.composer import Composer
from headtail_prifi.round.history import HistoryStatement
from headtail_prifi.round.lock import Lock
from headtail_prifi.round.options import ClientOptions, retained_rounds
from headtail_prifi.round.outbound import Item, Outbound
from headtail_prifi.round.pads import PadBank
from headtail_prifi.round.schedule import decode_owners
from headtail_prifi.round.segment import Segments
from headtail_prifi.round.voucher import closes_window, window_start
from headtail_prifi.setup.core import Outgoing
from headtail_prifi.setup.epoch import ClientSecrets, Epoch
from headtail_prifi.setup.roster import Membership


class ClientState(StrEnum):
    """Whether a client speaks."""

    SPEAKING = "speaking"
    RETIRED = "retired"
    ENDED = "ended"


class _Milestone(StrEnum):
    LAST_ROUND = "last round answered"
    STOPPED = "stopped"


_ROUND_KINDS: Final = (Kind.DOWN, Kind.VOUCH, Kind.CALL, Kind.CASE, Kind.CONFLICT, Kind.VERDICT)
_TABLE: Final[dict[ClientState, dict[Kind | _Milestone, ClientState]]] = {
    ClientState.SPEAKING: {
        **dict.fromkeys(_ROUND_KINDS, ClientState.SPEAKING),
        _Milestone.LAST_ROUND: ClientState.RETIRED,
        _Milestone.STOPPED: ClientState.ENDED,
    },
    ClientState.RETIRED: {
        **dict.fromkeys(_ROUND_KINDS, ClientState.RETIRED),
        _Milestone.STOPPED: ClientState.ENDED,
    },
    ClientState.ENDED: {},
}


class ClientCore:
    """Sans-IO; frames come from the relay and go to it. Raises PeerError for what the relay must
    not send, and changes nothing then; StateError when told to speak in an epoch that is over."""

    def __init__(
        self,
        *,
        epoch: Epoch,
        secrets: ClientSecrets,
        signing_key: SigningKey,
        cipher: PadCipher,
        entropy: Entropy,
        options: ClientOptions | None = None,
    ) -> None:
        self._epoch = epoch
        self._secrets = secrets
        self._signing_key = signing_key
        self._entropy = entropy
        self._options = options or ClientOptions()
        self._short_id = short_id(epoch.epoch_id)
        self._geometry = Geometry.decode(epoch.parameters, clients=epoch.client_count)
        self._seat = client_seat(secrets.client)
        self._retain = retained_rounds(epoch.client_count)
        self._segments = Segments(epoch=epoch, seat=self._seat, secrets=secrets, cipher=cipher)
        self._bank = PadBank(self._segments.current.streams, self._geometry, 0)
        self._chain = Chain(
            epoch_id=epoch.epoch_id,
            relay_key=epoch.roster.relay.verify_key,
            retain=self._retain,
            verify_every=self._options.verify_every,
        )
        self._outbound = Outbound(
            geometry=self._geometry,
            cipher=cipher,
            entropy=entropy,
            max_waiting=self._options.max_waiting,
        )
        self._composer = Composer(
            geometry=self._geometry, slot=secrets.slot, outbound=self._outbound
        )
        self._watch = Watch(
            epoch=epoch,
            geometry=self._geometry,
            slot=secrets.slot,
            secret=secrets.pseudonym,
            chain=self._chain,
            entropy=entropy,
        )
        self._witness = Witness(
            seat=self._seat,
            epoch=epoch,
            geometry=self._geometry,
            signing_key=signing_key,
            exponent=secrets.exponent,
            cipher=cipher,
            entropy=entropy,
            testimony=self,
        )
        self._mix = MixClient(
            epoch=epoch, client=secrets.client, signing_key=signing_key, entropy=entropy
        )
        self._sent: dict[int, bytes] = {}
        self._outbox: deque[Outgoing] = deque()
        self._events: deque[Event] = deque()
        self._unsettled: tuple[int, int, Down] | None = None
        self._permit = 1
        self._nack_at: float | None = None
        self.state = ClientState.SPEAKING

    # -- for the program around it ------------------------------------------------------------

    def send(self, body: bytes) -> int:
        """Queue the body of one cell (at most `body_bytes`); returns the id of its `CellDelivered`.

        Raises BacklogFullError when too many wait, StateError when the epoch is over.
        """
        if self.state is not ClientState.SPEAKING:
            raise StateError(f"nothing can be said in an epoch that is {self.state}")
        if len(body) > self.body_bytes:
            raise ValueError(f"a body of {len(body)} bytes, a cell holds {self.body_bytes}")
        self._settle()
        return self._outbound.add(CellKind.DATA, body)

    @property
    def body_bytes(self) -> int:
        """What one cell can carry."""
        return self._geometry.body_bytes

    @property
    def waiting(self) -> int:
        """How many cells are queued and not yet sent."""
        return self._outbound.stock

    def drain(self) -> list[Item]:
        """Everything that is not known to have arrived, oldest first, for the next epoch."""
        self._settle()
        return self._outbound.drain()

    def leave(self) -> None:
        """Ask to be left out of the next membership; `EpochOver` follows."""
        self._send(Kind.LEAVE, self._chain.next_round, Leave())

    @property
    def membership(self) -> Membership:
        """The clients that take part now: the anonymity set."""
        return self._segments.current.membership

    @property
    def next_round(self) -> int:
        """The round that this client waits for."""
        return self._chain.next_round

    # -- sans-IO ------------------------------------------------------------------------------

    def receive(self, frame: Buffer, now: float) -> None:
        """A frame from the relay."""
        header = read_header(frame)
        if header.epoch != self._short_id:
            raise FrameError("a frame of another epoch")
        follows = self._follow(header.kind)
        self._settle()
        match header.kind:
            case Kind.DOWN:
                self._on_down(frame, header, now)
            case Kind.VOUCH:
                self._on_vouch(header)
            case Kind.CALL:
                self._on_call(frame)
            case _:
                self._on_blame(frame)
        if self.state is ClientState.SPEAKING:
            self.state = follows

    def to_send(self, now: float) -> list[Outgoing]:
        """Frames that must leave now, in order; all go to the relay."""
        frames = list(self._outbox)
        self._outbox.clear()
        return frames

    def next_event(self) -> Event | None:
        """What happened; call it after `to_send`."""
        self._settle()
        return self._events.popleft() if self._events else None

    def next_timer(self) -> float | None:
        """When `on_timer` wants to be called, if at all."""
        return self._nack_at

    def on_timer(self, now: float) -> None:
        """Ask again for a frame that is missing."""
        if self._nack_at is not None and now >= self._nack_at:
            self._nack(now)

    # -- what others ask of it ----------------------------------------------------------------

    def membership_of(self, version: int) -> tuple[Membership, Certificate | None] | None:
        return self._segments.membership(version)

