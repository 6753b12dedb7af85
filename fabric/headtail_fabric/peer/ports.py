"""The two seams that devices and edges program against; ZeroMQ and memory stand behind them.

Both are safe to call from any thread; `poll` from one thread at a time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headtail_fabric.link import LinkEstimate
from headtail_fabric.peer.events import Alternative, ClientEvent, ServerEvent
from headtail_fabric.wire import Buffer, ErrorCode, Frames, Hints, TensorInfo, Timings

Offered = Callable[[str, bytes], bool]
"""Whether a device, by its enrolled name or else the name it says, is offered a bundle."""


def to_everyone(device: str, digest: bytes) -> bool:
    """Each bundle to each device."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficCount:
    """Bytes and messages so far. `socket_*` are counted by the kernel at the TCP sockets,
    handshakes and framing included, or None where the platform does not tell; `message_*` are
    the frames handed to and taken from the socket, with ZMTP framing by its specification."""

    messages_up: int = 0
    messages_down: int = 0
    message_bytes_up: int = 0
    message_bytes_down: int = 0
    socket_bytes_up: int | None = None
    socket_bytes_down: int | None = None
    retries: int = 0


class ClientPort(Protocol):
    """A device's way to one edge."""

    def submit(
        self,
        *,
        bundle: bytes,
        cut: str,
        tensors: Sequence[TensorInfo],
        payloads: Frames,
        deadline_s: float,
        trace: str = "",
    ) -> int:
        """Queue a request that is worthless `deadline_s` seconds from now; returns its id. `trace`
        is the traceparent that goes with it (`headtail_fabric.tracing`); empty for none.

        Every id ends in exactly one of Answered, Refused, Failed, Expired. Raises
        `WindowFullError` when `free_window` is 0: wait for an event first.
        """
        ...

    def cancel(self, request_id: int) -> None:
        """Forget a request: no event will come for it."""
        ...

    def announce_tail(self, *, bundle: bytes, cut: str, due_s: float) -> None:
        """Say that a request for this tail will probably be submitted in `due_s` seconds, so that
        it may be made ready. Nothing comes of it while there is no connection, or where requests
        are sealed."""
        ...

    def free_window(self) -> int:
        """How many requests may be submitted now; 0 while there is no connection."""
        ...

    def poll(self, timeout_s: float) -> ClientEvent | None:
        """The next event, or None when none came within `timeout_s`."""
        ...

    def push_bundle(self, digest: bytes, packed: Buffer) -> None:
        """Send a packed bundle (the bytes of its .headtail file) that the edge asked for."""
        ...

    def estimate(self) -> LinkEstimate:
        """What is known of the link from the traffic so far."""
        ...

    def traffic(self) -> TrafficCount:
        """Bytes both ways so far."""
        ...

    def close(self, timeout_s: float = 1.0) -> None:
        """Say goodbye, send what is queued for up to `timeout_s`, and release the socket."""
        ...


class ServerPort(Protocol):
    """An edge's way to its devices."""

    @property
    def endpoint(self) -> str:
        """Where it is bound, with the port that was really taken."""
        ...

    def poll(self, timeout_s: float) -> ServerEvent | None:
        """The next event, or None when none came within `timeout_s`."""
        ...

    def respond(
        self,
        session: bytes,
        request_id: int,
        *,
        tensors: Sequence[TensorInfo],
        payloads: Frames,
        timings: Timings,
        hints: Hints,
    ) -> None:
        """Answer a request; `resident_us` is filled in by the port. Ignored when the session is
        gone or the request was cancelled."""
        ...

    def busy(
        self,
        session: bytes,
        request_id: int,
        *,
        retry_after_s: float,
        hints: Hints,
        instead: Alternative | None = None,
    ) -> None:
        """Refuse a request for now. A client that is offered a way `instead` does not ask for this
        one again."""
        ...

    def advertise(self, hints: Hints) -> None:
        """What heartbeats and refusals that the port makes itself say of the load from now on;
        `respond` and `busy` say so too."""
        ...

    def fail(self, session: bytes, request_id: int, code: ErrorCode, message: str) -> None:
        """Refuse a request for good."""
        ...

    def need_bundle(self, session: bytes, digest: bytes, offset: int) -> None:
        """Ask for a bundle's packed bytes from `offset` on."""
        ...

    def refuse_bundle(self, session: bytes, digest: bytes, reason: str) -> None:
        """Take no more of a bundle that the session pushes."""
        ...

    def serve_bundles(self, digests: Sequence[bytes], offered: Offered = to_everyone) -> None:
        """What is served from now on, and to which devices: new sessions are offered it, open ones
        told what is new."""
        ...

    def drop_session(self, session: bytes, reason: str) -> None:
        """End one session."""
        ...

    def traffic(self) -> TrafficCount:
        """Bytes both ways so far, of all sessions ("up" is towards this server)."""
        ...

    def close(self, timeout_s: float = 1.0) -> None:
        """Tell every client goodbye, send what is queued for up to `timeout_s`, and unbind."""
        ...
