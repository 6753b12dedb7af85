"""What a peer core tells the program around it. Named in the past; times are the local clock's.

(msgspec structs, since one is made for every message: they cost a tenth of a frozen dataclass.)
"""

import msgspec

from headtail_fabric.wire import (
    Buffer,
    ErrorCode,
    Frames,
    Hints,
    Offer,
    Request,
    TensorInfo,
    Timings,
)


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """The edge offered a session. `restarted` when it is not the process that was there before."""

    offer: Offer
    restarted: bool


class Disconnected(msgspec.Struct, frozen=True, kw_only=True):
    """The edge can't be reached now. The core goes on trying unless `final`."""

    reason: str
    final: bool = False


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """The result of request `id`. `sent_at` is its last transmission's time, `wire_s` the round
    trip less the server's own time; the byte counts are of the messages, framing included."""

    id: int
    tensors: tuple[TensorInfo, ...]
    payloads: Frames
    timings: Timings
    hints: Hints
    sent_at: float
    received_at: float
    attempts: int
    bytes_up: int
    bytes_down: int

    @property
    def wire_s(self) -> float:
        """Seconds on the wire, both ways; never negative."""
        return max(0.0, self.received_at - self.sent_at - self.timings.resident_us / 1e6)


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """How a refused frame would be in time, by the edge's reckoning: sent at `cut` in `codec`; with
    both empty not through this edge at all. It knows nothing of the link or of the client's head.
    """

    cut: str = ""
    codec: str = ""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The edge is too busy for request `id` within its deadline; answer it in another way, in the
    one that the edge offers `instead`, if it does."""

    id: int
    retry_after_s: float
    hints: Hints
    instead: Alternative | None = None


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """Request `id` failed for good."""

    id: int
    code: ErrorCode
    message: str


class Expired(msgspec.Struct, frozen=True, kw_only=True):
    """The deadline of request `id` passed without an answer; a late one will be dropped."""

    id: int


class BundleWanted(msgspec.Struct, frozen=True, kw_only=True):
    """The edge lacks this bundle and would take it: `ClientPort.push_bundle` sends it."""

    digest: bytes


class BundleAccepted(msgspec.Struct, frozen=True, kw_only=True):
    """The edge has and serves this bundle now."""

    digest: bytes


class BundleDeclined(msgspec.Struct, frozen=True, kw_only=True):
    """The edge does not take this bundle from here; it may ask for it again."""

    digest: bytes
    reason: str


ClientEvent = (
    Connected
    | Disconnected
    | Answered
    | Refused
    | Failed
    | Expired
    | BundleWanted
    | BundleAccepted
    | BundleDeclined
)


class SessionOpened(msgspec.Struct, frozen=True, kw_only=True):
    """A client opened a session. `user` is the name its key is enrolled under ("" without keys)."""

    session: bytes
    name: str
    user: str
    can_push: bool
    bundles: tuple[bytes, ...]


class SessionClosed(msgspec.Struct, frozen=True, kw_only=True):
    """The session is over; nothing can be sent to it any more."""

    session: bytes
    reason: str


class RequestArrived(msgspec.Struct, frozen=True, kw_only=True):
    """A new request (never a repeated one); it must be answered once, or left to expire."""

    session: bytes
    user: str
    request: Request
    payloads: Frames
    arrived_at: float
    deadline_at: float


class RequestCancelled(msgspec.Struct, frozen=True, kw_only=True):
    """The client no longer wants the answer to this request."""

    session: bytes
    id: int


class TailAnnounced(msgspec.Struct, frozen=True, kw_only=True):
    """A request for this tail will probably come in `due_s`."""

    session: bytes
    user: str
    bundle: bytes
    cut: str
    due_s: float


class BundlePartArrived(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a bundle that this side asked for."""

    session: bytes
    user: str
    digest: bytes
    offset: int
    total: int
    payload: Buffer


ServerEvent = (
    SessionOpened
    | SessionClosed
    | RequestArrived
    | RequestCancelled
    | TailAnnounced
    | BundlePartArrived
)
