"""The threads around the fleet's core: ports that a test speaks through."""

import queue

from headtail_fabric.clock import MonotonicClock
from headtail_fabric.fleet import FleetClient
from headtail_fabric.link import LinkEstimate
from headtail_fabric.peer.events import Answered, ClientEvent, Connected, Disconnected
from headtail_fabric.peer.ports import TrafficCount
from headtail_fabric.wire import Buffer, Frames, Hints, Offer, Timings
from peers import DIGEST, TENSOR

PATIENCE_S = 10.0


class SpokenPort:
    """Tells what the test puts into `says`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.says: queue.SimpleQueue[ClientEvent | Exception] = queue.SimpleQueue()
        self.submitted = 0
        self.cancelled: list[int] = []
        self.announced: list[str] = []
        self.pushed: list[bytes] = []
        self.closed = 0

    def submit(self, **_: object) -> int:
        self.submitted += 1
        return self.submitted

    def cancel(self, request_id: int) -> None:
        self.cancelled.append(request_id)

    def announce_tail(self, *, bundle: bytes, cut: str, due_s: float) -> None:
        self.announced.append(cut)

    def free_window(self) -> int:
        return 4

    def poll(self, timeout_s: float) -> ClientEvent | None:
        try:
            said = self.says.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(said, Exception):
            raise said
        return said

    def push_bundle(self, digest: bytes, packed: Buffer) -> None:
        self.pushed.append(digest)

    def estimate(self) -> LinkEstimate:
        return LinkEstimate(rtt_s=0.01)

    def hints(self) -> Hints | None:
        return None

    def traffic(self) -> TrafficCount:
        return TrafficCount(messages_up=2, message_bytes_up=10, socket_bytes_up=12, retries=1)

    def close(self, timeout_s: float = 1.0) -> None:
        self.closed += 1


def connected(name: str) -> Connected:
    offer = Offer(
        session=bytes(16),
        boot=bytes(16),
        name=name,
        agent="test",
        bundles=(DIGEST,),
        window=4,
        heartbeat_ms=1000,
    )
    return Connected(offer=offer, restarted=False)


def answered(request_id: int, payloads: Frames = ()) -> Answered:
    return Answered(
        id=request_id,
        tensors=(),
        payloads=payloads,
        timings=Timings(),
        hints=Hints(),
        sent_at=0.0,
        received_at=0.1,
        attempts=1,
        bytes_up=1,
        bytes_down=1,
    )


class Scene:
    def __init__(self, count: int) -> None:
        self.ports: list[SpokenPort] = []
        self.fleet = FleetClient([self.open] * count, bundle=DIGEST, clock=MonotonicClock())

    def open(self, address: str) -> SpokenPort:
        self.ports.append(SpokenPort(address))
        return self.ports[-1]

    def submit(self) -> int:
        return self.fleet.submit(
            bundle=DIGEST, cut="L7", tensors=[TENSOR], payloads=[b"x"], deadline_s=10.0
        )

    def next(self) -> ClientEvent:
        event = self.fleet.poll(PATIENCE_S)
        assert event is not None
        return event


def test_events_of_all_edges_come_through_one_port_and_requests_move() -> None:
    scene = Scene(2)
    scene.fleet.located(0, "tcp://a:1")
    scene.fleet.located(1, "tcp://b:1")
    first, second = scene.ports
    first.says.put(connected("a"))
    assert scene.next() == connected("a")
    second.says.put(connected("b"))
    scene.fleet.announce_tail(bundle=DIGEST, cut="L7", due_s=0.1)
    assert (first.announced, second.announced) == (["L7"], [])
    request_id = scene.submit()
    assert first.submitted == 1
    assert scene.fleet.poll(0.3) is None
    first.says.put(Disconnected(reason="gone"))
    assert scene.next() == connected("b")
    assert (first.cancelled, second.submitted) == ([1], 1)
    second.says.put(answered(1))
    event = scene.next()
    assert isinstance(event, Answered)
    assert event.id == request_id
    assert scene.fleet.free_window() == 4
    assert scene.fleet.estimate().rtt_s == 0.01
    scene.fleet.cancel(request_id)
    scene.fleet.close()
    scene.fleet.close()
    assert (first.closed, second.closed) == (1, 1)


def test_a_new_address_replaces_the_port_and_its_traffic_still_counts() -> None:
    scene = Scene(1)
    scene.fleet.located(0, "tcp://a:1")
    scene.ports[0].says.put(connected("a"))
    scene.next()
    scene.fleet.located(0, "tcp://a:1")
    assert len(scene.ports) == 1
    scene.fleet.located(0, "tcp://b:1")
    old, new = scene.ports
    assert old.closed == 1
    old.says.put(connected("a"))
    new.says.put(connected("b"))
    assert isinstance(scene.next(), Disconnected)
    assert scene.next() == connected("b")
    count = scene.fleet.traffic()
    assert (count.messages_up, count.socket_bytes_up, count.socket_bytes_down) == (4, 24, None)
    scene.fleet.close()


def test_a_port_that_breaks_is_an_edge_that_is_lost() -> None:
    scene = Scene(2)
    for edge, address in enumerate(("tcp://a:1", "tcp://b:1")):
        scene.fleet.located(edge, address)
    scene.ports[0].says.put(connected("a"))
    scene.next()
    scene.ports[0].says.put(RuntimeError("broken"))
    event = scene.next()
    assert isinstance(event, Disconnected)
    assert not event.final
    scene.ports[1].says.put(Disconnected(reason="not enrolled", final=True))
    assert scene.fleet.poll(0.3) is None
    scene.fleet.close()


def test_whatever_gives_addresses_ends_first() -> None:
    scene, ended = Scene(1), []
    scene.fleet.at_close(lambda: ended.append(len(scene.ports)))
    scene.fleet.close()
    scene.fleet.located(0, "tcp://late:1")
    assert (ended, scene.ports) == ([0], [])
