"""The ZeroMQ endpoint over a port in memory, with a runtime that is played by the test."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from headtail_cloud.config import EdgesConfig
from headtail_cloud.core.actions import Finish, Kind, Outcome, Reason, Reject, Timeline
from headtail_cloud.core.request import TailRequest
from headtail_cloud.core.task import Fault
from headtail_cloud.endpoint.edges import EdgeEndpoint
from headtail_cloud.endpoint.port import HalfSecuredEndpointError, open_port
from headtail_cloud.engines.served_tail import ServedTail, TailInput
from headtail_cloud.runtime.exchange import Exchange, RuntimeBrokenError
from headtail_fabric.clock import FakeClock
from headtail_fabric.codec import codec_for
from headtail_fabric.errors import ConfigError
from headtail_fabric.peer.events import Answered, ClientEvent, Expired, Failed, Refused
from headtail_fabric.peer.memory import MemoryClient, MemoryLink, MemoryServer
from headtail_fabric.wire import DType, ErrorCode, TensorInfo
from headtail_models.bundle import Bundle

TIMES = Timeline(arrived_at=1.0, started_at=1.002, first_token_at=None, ended_at=1.01)


class PlayedRuntime:
    """Notes what it is asked; answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[TailRequest] = []
        self.exchanges: list[Exchange] = []
        self.cancelled: list[str] = []
        self.announced: list[tuple[object, float]] = []

    alive = True

    def submit(self, request: Any) -> Exchange:
        self.asked.append(request)
        self.exchanges.append(Exchange(request.id, self.cancelled.append))
        return self.exchanges[-1]

    def announce(self, key: object, due_in_s: float) -> None:
        self.announced.append((key, due_in_s))

    async def close(self, grace_s: float) -> None:
        pass


class Room:
    """A cloud's endpoint and an edge."""

    def __init__(self, tails: dict[str, ServedTail]) -> None:
        self.clock = FakeClock(10.0)
        self.link = MemoryLink(self.clock)
        self.port = MemoryServer(self.link)
        self.runtime = PlayedRuntime()
        self.endpoint = EdgeEndpoint(self.port, tails.values(), self.runtime, clock=self.clock)
        self.tail = tails["specimen:early"]
        self.port.serve_bundles([self.tail.digest])
        self.edge = MemoryClient(self.link, bundles=[self.tail.digest])

    async def turn(self) -> list[ClientEvent]:
        """Everything arrives; what the edge heard."""
        heard: list[ClientEvent] = []
        for _ in range(3):
            while (event := self.port.poll(0.0)) is not None:
                self.endpoint.handle(event)
            for _ in range(3):
                await asyncio.sleep(0)
            while (said := self.edge.poll(0.0)) is not None:
                heard.append(said)
        return heard

    def ask(self, **changes: Any) -> int:
        tensor = np.zeros((1, *self.tail.input.shape), np.float32)
        fields = {
            "name": self.tail.input.name,
            "dtype": DType.FLOAT32,
            "shape": tensor.shape,
            "codec": "raw",
            **changes,
        }
        bundle, cut = fields.pop("bundle", self.tail.digest), fields.pop("cut", "early")
        payload = fields.pop("payload", tensor.tobytes())
        return self.edge.submit(
            bundle=bundle,
            cut=cut,
            tensors=[TensorInfo(**fields)],
            payloads=[payload],
            deadline_s=5.0,
        )


def run(tails: dict[str, ServedTail], work: Callable[[Room], Awaitable[None]]) -> None:
    async def main() -> None:
        room = Room(tails)
        await room.turn()
        await work(room)

    asyncio.run(main())


def finish(outcome: Outcome, **more: Any) -> Finish:
    return Finish(
        request_id="x", kind=Kind.TAIL, outcome=outcome, timeline=TIMES, on_time=True, **more
    )


def test_a_request_is_answered(tails: dict[str, ServedTail]) -> None:
    async def work(room: Room) -> None:
        asked = room.ask()
        await room.turn()
        (request,) = room.runtime.asked
        assert request.chain == (room.tail.segment,)
        assert request.deadline_s == pytest.approx(5.0, abs=0.01)
        assert isinstance(request.input, TailInput)
        logits = np.array([[1, 2, 3]], np.float32)
        room.runtime.exchanges[0].tell(finish(Outcome.DONE, output={"logits": logits}))
        (told,) = await room.turn()
        assert isinstance(told, Answered)
        assert told.id == asked
        assert told.tensors[0].shape == (3,), "as an edge answers: no batch axis"
        assert np.frombuffer(told.payloads[0], np.float32).tolist() == [1, 2, 3]
        assert (told.timings.queue_us, told.timings.compute_us) == (2000, 8000)

    run(tails, work)


def test_a_session_announces_its_tails(tails: dict[str, ServedTail]) -> None:
    async def work(room: Room) -> None:
        assert set(room.runtime.announced) == {(tail.segment, 0.0) for tail in tails.values()}

    run(tails, work)


def test_a_head_that_has_begun_announces_its_tail(tails: dict[str, ServedTail]) -> None:
    async def work(room: Room) -> None:
        room.runtime.announced.clear()
        room.edge.announce_tail(bundle=room.tail.digest, cut="early", due_s=0.04)
        room.edge.announce_tail(bundle=room.tail.digest, cut="nowhere", due_s=0.04)
        room.edge.announce_tail(bundle=bytes(32), cut="early", due_s=0.04)
        assert await room.turn() == []
        assert room.runtime.announced == [(room.tail.segment, 0.04)]

    run(tails, work)


def test_a_whole_picture_is_taken_in_jpeg(tails: dict[str, ServedTail]) -> None:
    async def work(room: Room) -> None:
        picture = np.zeros((1, 20, 30, 3), np.uint8)
        codec = codec_for("jpeg", dtype=DType.UINT8, quality=90)
        room.ask(
            cut="input",
            name="input",
            dtype=DType.UINT8,
            shape=picture.shape,
            codec="jpeg",
            payload=codec.encode(picture),
        )
        await room.turn()
        (request,) = room.runtime.asked
        assert request.chain == (tails["specimen"].segment,)

    run(tails, work)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"bundle": bytes(32)}, ErrorCode.UNKNOWN_BUNDLE),
        ({"cut": "nowhere"}, ErrorCode.UNKNOWN_CUT),
        ({"dtype": DType.INT8}, ErrorCode.BAD_PAYLOAD),
        ({"shape": (1, 2, 3)}, ErrorCode.BAD_PAYLOAD),
        ({"codec": "nonsense"}, ErrorCode.BAD_PAYLOAD),
        ({"quantiser": "other"}, ErrorCode.BAD_PAYLOAD),
        (
            {"cut": "input", "dtype": DType.UINT8, "codec": "jpeg", "shape": (1, 0, 5, 3)},
            ErrorCode.BAD_PAYLOAD,
        ),
        (
            {"cut": "input", "dtype": DType.UINT8, "codec": "jpeg", "shape": (1, 4600, 4600, 3)},
            ErrorCode.BAD_PAYLOAD,
        ),
    ],
)
def test_what_can_not_be_computed_costs_nothing(
    tails: dict[str, ServedTail], changes: dict[str, Any], code: ErrorCode
) -> None:
    async def work(room: Room) -> None:
        room.ask(**changes)
        (told,) = await room.turn()
        assert isinstance(told, Failed)
        assert told.code is code
        assert room.runtime.asked == []

    run(tails, work)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (Reject(request_id="x", reason=Reason.TOO_LATE, retry_after_s=60.0), None),
        (Reject(request_id="x", reason=Reason.COLD_START, retry_after_s=60.0), None),
        (
            Reject(request_id="x", reason=Reason.DRAINING, retry_after_s=None),
            ErrorCode.SHUTTING_DOWN,
        ),
        (finish(Outcome.EXPIRED), ErrorCode.EXPIRED),
        (finish(Outcome.CANCELLED), ErrorCode.SHUTTING_DOWN),
        (finish(Outcome.FAILED, message="broken"), ErrorCode.INTERNAL),
        (finish(Outcome.FAILED, message="bad", fault=Fault.INPUT), ErrorCode.BAD_PAYLOAD),
        (RuntimeBrokenError("a bug"), ErrorCode.INTERNAL),
    ],
)
def test_every_end_is_told(
    tails: dict[str, ServedTail], end: Any, expected: ErrorCode | None
) -> None:
    async def work(room: Room) -> None:
        room.ask()
        await room.turn()
        room.runtime.exchanges[0].tell(end)
        (told,) = [event for event in await room.turn() if hasattr(event, "id")]
        if expected is None:
            assert isinstance(told, Refused)
        else:
            assert isinstance(told, Failed)
            assert told.code is expected

    run(tails, work)


def test_who_goes_away_cancels_what_was_asked(tails: dict[str, ServedTail]) -> None:
    async def work(room: Room) -> None:
        asked = room.ask()
        room.ask()
        await room.turn()
        room.edge.cancel(asked)
        await room.turn()
        assert room.runtime.cancelled == [room.runtime.asked[0].id]
        room.edge.close()
        await room.turn()
        assert room.runtime.cancelled == [request.id for request in room.runtime.asked]

    run(tails, work)


def test_one_that_came_too_late(tails: dict[str, ServedTail]) -> None:
    async def work(room: Room) -> None:
        room.ask()
        event = room.port.poll(0.0)
        room.clock.advance(6.0)
        assert event is not None
        room.endpoint.handle(event)
        told = [event for event in await room.turn() if hasattr(event, "id")]
        assert isinstance(told[0], Failed | Expired)
        assert room.runtime.asked == []

    run(tails, work)


def test_no_port_and_a_half_secured_one(specimen: Bundle, tmp_path: Any) -> None:
    assert open_port(EdgesConfig()) is None
    with pytest.raises(HalfSecuredEndpointError, match=r"edges\.key"):
        open_port(EdgesConfig(bind="tcp://127.0.0.1:0", key=tmp_path / "key"))
    with pytest.raises(ConfigError):
        open_port(EdgesConfig(bind="tcp://0.0.0.0:0"))
