"""A client and a server core joined in memory on a fake clock."""

from headtail_fabric.clock import FakeClock
from headtail_fabric.peer.events import ClientEvent, Connected, RequestArrived, ServerEvent
from headtail_fabric.peer.memory import MemoryClient, MemoryLink, MemoryServer
from headtail_fabric.wire import DType, Hints, TensorInfo, Timings

DIGEST = bytes(range(32))
TENSOR = TensorInfo(name="t", dtype=DType.UINT8, shape=(1, 4), codec="raw")
ANSWER = TensorInfo(name="answer", dtype=DType.UINT8, shape=(1,), codec="raw")


class Pair:
    """One client and one server, connected unless `connect` is False."""

    def __init__(
        self, *, delay_s: float = 0.0, window: int = 4, connect: bool = True, user: str = ""
    ) -> None:
        self.clock = FakeClock(100.0)
        self.link = MemoryLink(self.clock, delay_s=delay_s)
        self.server = MemoryServer(self.link, window=window)
        self.client = MemoryClient(self.link, user=user, bundles=(DIGEST,), can_push=True)
        if connect:
            self.pass_time(4 * delay_s)
            events = self.client_events()
            assert any(isinstance(event, Connected) for event in events), events
            self.server_events()

    def client_events(self) -> list[ClientEvent]:
        events = []
        while (event := self.client.poll(0)) is not None:
            events.append(event)
        return events

    def server_events(self) -> list[ServerEvent]:
        events = []
        while (event := self.server.poll(0)) is not None:
            events.append(event)
        return events

    def arrived(self) -> list[RequestArrived]:
        return [event for event in self.server_events() if isinstance(event, RequestArrived)]

    def pass_time(self, seconds: float, *, step_s: float = 0.01) -> None:
        """Let time go by in small steps, moving messages and running timers."""
        self.link.carry()
        for _ in range(round(seconds / step_s)):
            self.clock.advance(step_s)
            self.link.carry()

    def submit(self, *, deadline_s: float = 10.0, payload: bytes = b"abcd") -> int:
        return self.client.submit(
            bundle=DIGEST, cut="L7", tensors=[TENSOR], payloads=[payload], deadline_s=deadline_s
        )

    def answer(self, event: RequestArrived, payload: bytes = b"!") -> None:
        self.server.respond(
            event.session,
            event.request.id,
            tensors=[ANSWER],
            payloads=[payload],
            timings=Timings(compute_us=5),
            hints=Hints(batch=1),
        )
