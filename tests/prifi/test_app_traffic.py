"""Datagrams, replies and streams through a whole swarm, and what each end refuses."""

import pytest

from headtail_prifi.app.errors import MessageTooLongError, StreamClosedError, TrafficError
from headtail_prifi.app.events import Asked, Replied, Sent, StreamOpened, StreamRead
from headtail_prifi.app.exit import MAX_SLOT_STREAMS, Exit
from headtail_prifi.app.fragments import MAX_MESSAGE_BYTES
from headtail_prifi.app.port import MAX_AWAITED_REPLIES, MAX_STREAMS, Port
from headtail_prifi.app.wire import LAST, Part, Tag, read_part
from headtail_prifi.core.events import CellArrived, CellDelivered, CellReturned, DataReceived
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.seat import RELAY, Role, client_seat
from headtail_prifi.crypto.cipher import default_cipher
from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.crypto.group import default_group
from headtail_prifi.misbehaviour import disrupt
from headtail_prifi.swarm import Links, Scene, Swarm, set_scene

GEOMETRY = Geometry(clients=4, cell_bytes=160, sub_slots=2, window=2, down_bytes=300)
GROUP = default_group()
SECRET = 123456789
EXIT_KEY = GROUP.mul_base(SECRET)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return set_scene(4, 2, GEOMETRY)


def new_exit(item_bytes: int = 300) -> Exit:
    return Exit(group=GROUP, secret=SECRET, cipher=default_cipher(), item_bytes=item_bytes)


def new_port(seed: bytes = b"port") -> Port:
    return Port(
        group=GROUP, exit_key=EXIT_KEY, cipher=default_cipher(), entropy=SeededEntropy(seed)
    )


class Line:
    """Cells straight from a port to an exit."""

    def __init__(self, body_bytes: int = 120) -> None:
        self.body_bytes = body_bytes
        self.bodies: list[bytes] = []

    def send(self, body: bytes) -> int:
        assert len(body) <= self.body_bytes
        self.bodies.append(body)
        return len(self.bodies)

    def flush(self, exit_: Exit, slot: int = 0) -> list[object]:
        bodies, self.bodies = self.bodies, []
        return [traffic for body in bodies for traffic in exit_.on_cell(slot, body)]


class Stage:
    """A swarm whose clients have ports, and an exit beside the relay that echoes in capitals."""

    def __init__(self, scene: Scene) -> None:
        links = Links(delay_s=lambda seat: 0.01 if seat.role is Role.CLIENT else 0.03)
        self.swarm = Swarm(scene, links=links)
        self.ports = [new_port(b"%d" % client) for client in range(4)]
        self.exit = new_exit()
        self.heard: list[object] = []
        self.traffic: list[list[object]] = [[] for _ in range(4)]
        self._served = 0

    def serve(self, seconds: float) -> None:
        end = self.swarm.now + seconds
        while self.swarm.now < end:
            self.swarm.run_until(self.swarm.now + 0.005)
            happened = self.swarm.happened[self._served :]
            self._served += len(happened)
            for each in happened:
                if each.seat == RELAY and isinstance(each.event, CellArrived):
                    for traffic in self.exit.on_cell(each.event.slot, each.event.body):
                        self.answer(traffic)
                elif each.seat.role is Role.CLIENT:
                    client = each.seat.index
                    core = self.swarm.clients[client]
                    traffic_event = self.ports[client].on_event(core, each.event)
                    if traffic_event is not None:
                        self.traffic[client].append(traffic_event)

    def answer(self, traffic: object) -> None:
        self.heard.append(traffic)
        if isinstance(traffic, Asked):
            for item in self.exit.reply(traffic.request, traffic.payload.upper()):
                self.swarm.broadcast(item)
        elif isinstance(traffic, StreamRead) and traffic.data:
            for item in self.exit.write(traffic.label, traffic.data.upper(), last=traffic.ended):
                self.swarm.broadcast(item)


def test_a_datagram_is_answered_to_its_sender_only(scene: Scene) -> None:
    stage = Stage(scene)
    stage.swarm.start()
    question = b"what is it? " * 100
    asked = stage.ports[2].send(stage.swarm.clients[2], question)
    stage.serve(2.0)
    (heard,) = stage.heard
    assert isinstance(heard, Asked)
    assert (heard.slot, heard.payload) == (stage.swarm.slot(2), question)
    assert stage.traffic[2] == [Sent(id=asked), Replied(id=asked, payload=question.upper())]
    assert [stage.traffic[client] for client in (0, 1, 3)] == [[], [], []]


def test_everybody_talks_at_once(scene: Scene) -> None:
    stage = Stage(scene)
    stage.swarm.start()
    for client in range(4):
        for number in range(5):
            stage.ports[client].send(stage.swarm.clients[client], b"q%d.%d" % (client, number))
    stage.serve(3.0)
    for client in range(4):
        replies = [each for each in stage.traffic[client] if isinstance(each, Replied)]
        assert [each.payload for each in replies] == [b"Q%d.%d" % (client, n) for n in range(5)]


def test_a_stream_runs_both_ways_through_disruption(scene: Scene) -> None:
    """Spoilt cells are repeated out of order; the stream is in order all the same."""
    stage = Stage(scene)
    swarm = stage.swarm
    slot = swarm.slot(1)
    done: list[int] = []

    def flips(round_: int, owners: tuple[int, ...]) -> range:
        spoil = slot in owners and len(done) < 4 and round_ % 3 == 0
        if not spoil:
            return range(0)
        done.append(round_)
        return range(8 * 160 * owners.index(slot) + 5, 8 * 160 * owners.index(slot) + 9)

    disrupt(swarm.clients[3], flips)
    swarm.start()
    core = swarm.clients[1]
    label = stage.ports[1].open(core)
    sent = bytes(b"abcdefgh"[number % 8] for number in range(3000))
    for start in range(0, 3000, 500):
        stage.ports[1].write(core, label, sent[start : start + 500], last=start == 2500)
    stage.serve(6.0)
    assert done
    assert [each for each in stage.heard if isinstance(each, StreamOpened)] == [
        StreamOpened(slot=slot, label=label)
    ]
    reads = [each for each in stage.heard if isinstance(each, StreamRead)]
    assert b"".join(each.data for each in reads) == sent
    assert [each.ended for each in reads].count(True) == 1
    back = [each for each in stage.traffic[1] if isinstance(each, StreamRead)]
    assert b"".join(each.data for each in back) == sent.upper()
    assert back[-1].ended
    with pytest.raises(StreamClosedError):
        stage.ports[1].write(core, label, b"more")
    with pytest.raises(StreamClosedError):
        stage.exit.write(label, b"more")


def test_a_stream_may_begin_before_it_is_opened() -> None:
    port, exit_, line = new_port(), new_exit(), Line()
    label = port.open(line)
    port.write(line, label, b"early")
    line.bodies.reverse()
    assert line.flush(exit_, 3) == [
        StreamOpened(slot=3, label=label),
        StreamRead(label=label, data=b"early", ended=False),
    ]
    port.write(line, label, b"", last=True)
    assert line.flush(exit_, 3) == [StreamRead(label=label, data=b"", ended=True)]
    (item,) = exit_.write(label, b"", last=True)
    event = DataReceived(round=1, data=item)
    assert port.on_event(line, event) == StreamRead(label=label, data=b"", ended=True)
    assert port.on_event(line, event) is None


def test_a_reply_in_parts_and_several_replies() -> None:
    port, exit_, line = new_port(), new_exit(item_bytes=100), Line()
    sent = port.send(line, b"?")
    (asked,) = line.flush(exit_)
    assert isinstance(asked, Asked)
    for payload in (b"x" * 1000, b"", b"second"):
        events = [
            port.on_event(line, DataReceived(round=0, data=item))
            for item in exit_.reply(asked.request, payload)
        ]
        assert events[:-1] == [None] * (len(events) - 1)
        assert events[-1] == Replied(id=sent, payload=payload)


def test_an_exit_refuses_what_does_not_open_or_came_before() -> None:
    exit_, line = new_exit(), Line()
    new_port().send(line, b"once")
    first = list(line.bodies)
    line.flush(exit_)
    for body in first[:-1]:
        exit_.on_cell(1, body)
    with pytest.raises(TrafficError, match="before"):
        exit_.on_cell(1, first[-1])
    sealed = bytes(60)
    for message in (b"", b"\x09", bytes([Tag.DATAGRAM]) + sealed, bytes([Tag.REPLY]) + sealed):
        with pytest.raises(TrafficError):
            exit_.on_cell(2, bytes(5) + len(message).to_bytes(3) + message)
    with pytest.raises(TrafficError):
        exit_.on_cell(2, b"short")


def test_an_exit_keeps_pseudonyms_apart() -> None:
    port, exit_, line = new_port(), new_exit(), Line()
    label = port.open(line)
    line.flush(exit_, 0)
    port.write(line, label, b"mine")
    (body,) = line.bodies
    with pytest.raises(TrafficError, match="another"):
        exit_.on_cell(1, body)
    assert line.flush(exit_, 0) == [StreamRead(label=label, data=b"mine", ended=False)]
    with pytest.raises(TrafficError, match="awaited"):
        exit_.on_cell(0, body)


def test_an_exit_bounds_streams_and_early_segments() -> None:
    exit_, line = new_exit(), Line()
    for number in range(MAX_SLOT_STREAMS):
        new_port(b"%d" % number).open(line)
    assert len(line.flush(exit_, 5)) == MAX_SLOT_STREAMS
    new_port(b"too many").open(line)
    with pytest.raises(TrafficError):
        line.flush(exit_, 5)
    for number in range(2 * MAX_SLOT_STREAMS):
        part = Part(Tag.SEGMENT, bytes([number]) * 16, 0, 0, bytes(20)).encode()
        assert exit_.on_cell(6, bytes(5) + len(part).to_bytes(3) + part) == []
    assert len(exit_._early[6]) == MAX_SLOT_STREAMS


def test_a_port_refuses_what_does_not_open() -> None:
    port, exit_, line = new_port(), new_exit(item_bytes=64), Line()
    port.send(line, b"?")
    (asked,) = line.flush(exit_)
    assert isinstance(asked, Asked)
    items = exit_.reply(asked.request, b"y" * 60)
    part = read_part(items[0])

    def arrives(data: bytes) -> object:
        return port.on_event(line, DataReceived(round=0, data=data))

    assert arrives(part._replace(label=bytes(16)).encode()) is None
    for bad in (
        items[1],
        part._replace(sealed=bytes(40)).encode(),
        part._replace(flags=LAST).encode(),
        part._replace(flags=2).encode(),
        b"",
        b"\x00",
        items[0][:30],
        bytes([Tag.DATAGRAM]) + bytes(60),
    ):
        with pytest.raises(TrafficError):
            arrives(bad)
    assert arrives(items[0]) is None
    label = port.open(line)
    stranger = Part(Tag.SEGMENT, bytes(16), 0, 0, bytes(40)).encode()
    assert arrives(stranger) is None
    with pytest.raises(TrafficError):
        arrives(Part(Tag.SEGMENT, label, 0, 0, bytes(40)).encode())


def test_a_port_limits_itself() -> None:
    port, line = new_port(), Line(body_bytes=60_000)
    with pytest.raises(MessageTooLongError):
        port.send(line, bytes(MAX_MESSAGE_BYTES))
    for _ in range(MAX_AWAITED_REPLIES + 5):
        port.send(line, b"")
    assert len(port._awaited) == MAX_AWAITED_REPLIES
    for _ in range(MAX_STREAMS):
        port.open(line)
    with pytest.raises(StreamClosedError):
        port.open(line)
    with pytest.raises(StreamClosedError):
        port.write(line, b"no such label", b"")


def test_a_cell_that_no_longer_fits_is_cut_again() -> None:
    port, exit_, wide, narrow = new_port(), new_exit(), Line(500), Line(100)
    sent = port.send(wide, b"z" * 400)
    (body,) = wide.bodies
    assert port.on_event(narrow, CellReturned(id=1, body=body)) is None
    assert len(narrow.bodies) > 3
    cells = range(1, len(narrow.bodies) + 1)
    (asked,) = narrow.flush(exit_)
    assert isinstance(asked, Asked)
    assert asked.payload == b"z" * 400
    events = [port.on_event(narrow, CellDelivered(id=cell)) for cell in cells]
    assert events[-1] == Sent(id=sent)
    assert events[:-1] == [None] * (len(events) - 1)
    assert client_seat(0).index == 0
