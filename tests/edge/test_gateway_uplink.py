"""What becomes of inquiries at the edge, with a port that a test holds."""

import queue
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from headtail_edge.gateway.models import Crossing
from headtail_edge.gateway.traffic import Inquiry
from headtail_edge.gateway.uplink import Uplink
from headtail_fabric.link import LinkEstimate
from headtail_fabric.peer.errors import WindowFullError
from headtail_fabric.peer.events import Answered, ClientEvent, Expired, Failed, Refused
from headtail_fabric.peer.ports import TrafficCount
from headtail_fabric.wire import Buffer, DType, ErrorCode, Frames, Hints, TensorInfo, Timings

CROSSING = Crossing(
    digest=bytes(32),
    cut="board",
    tensor=TensorInfo(name="f", dtype=DType.FLOAT32, shape=(1, 4), codec="q8-nhwc"),
    payload_bytes=4,
)


class HeldPort:
    """A `ClientPort` whose events a test puts in."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[ClientEvent] = queue.SimpleQueue()
        self.submitted: list[tuple[str, bytes]] = []
        self.window = 4
        self.closed = False

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
        if self.window < 0:
            raise WindowFullError("the connection broke")
        self.submitted.append((cut, bytes(payloads[0])))
        return len(self.submitted)

    def cancel(self, request_id: int) -> None:
        raise NotImplementedError

    def announce_tail(self, *, bundle: bytes, cut: str, due_s: float) -> None:
        raise NotImplementedError

    def free_window(self) -> int:
        return abs(self.window)

    def poll(self, timeout_s: float) -> ClientEvent | None:
        try:
            return self.events.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def push_bundle(self, digest: bytes, packed: Buffer) -> None:
        raise NotImplementedError

    def estimate(self) -> LinkEstimate:
        return LinkEstimate()

    def traffic(self) -> TrafficCount:
        return TrafficCount()

    def close(self, timeout_s: float = 1.0) -> None:
        self.closed = True


class NotingCore:
    """In the place of a core: gives inquiries, notes outcomes."""

    def __init__(self, *tickets: int) -> None:
        self.tickets = list(tickets)
        self.outcomes: list[tuple[object, ...]] = []

    def inquiries(self, free: int) -> list[Inquiry]:
        given, self.tickets = self.tickets[:free], self.tickets[free:]
        return [Inquiry(ticket=t, crossing=CROSSING, payload=b"1234") for t in given]

    def answered(self, ticket: int, answer: int, score: float) -> None:
        self.outcomes.append(("answered", ticket, answer, round(score, 2)))

    def failed(self, ticket: int, reason: str) -> None:
        self.outcomes.append(("failed", ticket, reason))

    def retried(self, ticket: int, now: float, after_s: float = 1.0) -> None:
        self.outcomes.append(("retried", ticket, after_s))


def answered(request_id: int, name: str, values: list[float], *, dtype: str = "<f4") -> Answered:
    payload = np.array(values, dtype=dtype).tobytes()
    info = TensorInfo(name=name, dtype=DType.FLOAT32, shape=(len(values),), codec="raw")
    return Answered(
        id=request_id,
        tensors=(info,),
        payloads=[payload],
        timings=Timings(),
        hints=Hints(),
        sent_at=0.0,
        received_at=0.0,
        attempts=1,
        bytes_up=1,
        bytes_down=1,
    )


OUTCOMES: list[tuple[ClientEvent, tuple[object, ...]]] = [
    (answered(1, "logits", [0.0, 2.0, 0.0]), ("answered", 10, 1, 0.79)),
    (answered(1, "boxes", [0.0]), ("failed", 10, "the edge's answer makes no sense: it holds no")),
    (
        answered(1, "logits", [0.0, 1.0], dtype="<f8"),
        ("failed", 10, "the edge's answer makes no sense: raw payload"),
    ),
    (Refused(id=1, retry_after_s=2.5, hints=Hints()), ("retried", 10, 2.5)),
    (Expired(id=1), ("retried", 10, 0.0)),
    (Failed(id=1, code=ErrorCode.SHUTTING_DOWN, message="bye"), ("retried", 10, 0.0)),
    (Failed(id=1, code=ErrorCode.UNKNOWN_BUNDLE, message="lacking"), ("failed", 10, "lacking")),
]


@pytest.mark.parametrize(("event", "outcome"), OUTCOMES)
def test_each_outcome_reaches_the_core(event: ClientEvent, outcome: tuple[object, ...]) -> None:
    port, woken, core = HeldPort(), threading.Event(), NotingCore(10)
    uplink = Uplink(port, deadline_s=5.0, wake=woken.set)
    uplink.work(core, 0.0)  # type: ignore[arg-type]
    assert port.submitted == [("board", b"1234")]
    uplink.start()
    port.events.put(event)
    assert woken.wait(10)
    uplink.work(core, 1.0)  # type: ignore[arg-type]
    port.events.put(event)  # once more: nobody asks for it
    uplink.stop()
    uplink.work(core, 2.0)  # type: ignore[arg-type]
    assert port.closed
    (found,) = core.outcomes
    assert [str(a).startswith(str(b)) for a, b in zip(found, outcome, strict=True)] == [True] * len(
        outcome
    )


def test_no_more_than_the_window_takes() -> None:
    port, core = HeldPort(), NotingCore(*range(10))
    uplink = Uplink(port, deadline_s=5.0, wake=lambda: None)
    uplink.work(core, 0.0)  # type: ignore[arg-type]
    assert len(port.submitted) == 4
    port.window = -2
    uplink.work(core, 0.0)  # type: ignore[arg-type]
    assert core.outcomes == [("retried", 4, 1.0), ("retried", 5, 1.0)]
