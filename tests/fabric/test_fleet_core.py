"""Several edges in memory: requests move, and each ends once."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_fabric.clock import FakeClock
from headtail_fabric.fleet.core import FleetCore
from headtail_fabric.link import LinkEstimate
from headtail_fabric.peer.errors import WindowFullError
from headtail_fabric.peer.events import (
    Answered,
    BundleAccepted,
    BundleDeclined,
    BundleWanted,
    ClientEvent,
    Connected,
    Disconnected,
    Expired,
    Failed,
    Refused,
    RequestArrived,
    ServerEvent,
)
from headtail_fabric.peer.memory import MemoryClient, MemoryLink, MemoryServer
from headtail_fabric.wire import ErrorCode, Hints, Timings
from peers import ANSWER, DIGEST, TENSOR

ENDS = (Answered, Refused, Failed, Expired)


class Fleet:
    """A device's core over links to `count` edges, each of which serves the bundle."""

    def __init__(self, count: int, *, serving: Sequence[bool] | None = None) -> None:
        self.clock = FakeClock(100.0)
        self.core = FleetCore(count, bundle=DIGEST)
        self.links = [MemoryLink(self.clock) for _ in range(count)]
        self.servers = [MemoryServer(link, name=f"edge-{n}") for n, link in enumerate(self.links)]
        for server, serves in zip(self.servers, serving or [True] * count, strict=True):
            server.serve_bundles([DIGEST] if serves else [])
        self.clients = []
        for edge, link in enumerate(self.links):
            client = MemoryClient(link, bundles=(DIGEST,), can_push=True, seed=edge)
            self.core.seat(edge, client, self.clock.now())
            self.clients.append(client)

    def events(self) -> list[ClientEvent]:
        for edge, client in enumerate(self.clients):
            while (event := client.poll(0)) is not None:
                self.core.on_event(edge, event, self.clock.now())
        self.core.settle(self.clock.now())
        found = []
        while (told := self.core.next_event()) is not None:
            found.append(told)
        return found

    def arrived(self, edge: int) -> list[RequestArrived]:
        found: list[ServerEvent] = []
        while (event := self.servers[edge].poll(0)) is not None:
            found.append(event)
        return [event for event in found if isinstance(event, RequestArrived)]

    def submit(self, deadline_s: float = 10.0) -> int:
        return self.core.submit(
            bundle=DIGEST,
            cut="L7",
            tensors=[TENSOR],
            payloads=[b"abcd"],
            deadline_s=deadline_s,
            now=self.clock.now(),
        )

    def answer(self, edge: int, event: RequestArrived) -> None:
        self.servers[edge].respond(
            event.session,
            event.request.id,
            tensors=[ANSWER],
            payloads=[b"!"],
            timings=Timings(),
            hints=Hints(),
        )


def names(events: list[ClientEvent]) -> list[str]:
    return [event.offer.name for event in events if isinstance(event, Connected)]


def test_one_edge_is_used_and_told_as_the_connection() -> None:
    fleet = Fleet(3)
    assert names(fleet.events()) == ["edge-0"]
    request_id = fleet.submit()
    (arrived,) = fleet.arrived(0)
    fleet.answer(0, arrived)
    (event,) = fleet.events()
    assert isinstance(event, Answered)
    assert event.id == request_id
    assert fleet.core.free_window(fleet.clock.now()) == 16
    assert fleet.core.estimate().rtt_s is not None


def test_what_a_lost_edge_had_is_asked_of_the_next() -> None:
    fleet = Fleet(2)
    fleet.events()
    ids = [fleet.submit() for _ in range(3)]
    assert len(fleet.arrived(0)) == 3
    fleet.links[0].cut()
    events = fleet.events()
    assert names(events) == ["edge-1"]
    assert not [event for event in events if isinstance(event, Disconnected)]
    moved = fleet.arrived(1)
    assert len(moved) == 3
    for arrived in moved:
        fleet.answer(1, arrived)
    assert [event.id for event in fleet.events() if isinstance(event, Answered)] == ids
    assert fleet.core.moved == 3
    assert "in_flight=0, moved=3" in repr(fleet.core)


def test_when_all_are_lost_it_is_told_once_and_the_requests_wait() -> None:
    fleet = Fleet(2)
    fleet.events()
    request_id = fleet.submit()
    for link in fleet.links:
        link.cut()
    events = fleet.events()
    assert [type(event) for event in events] == [Connected, Disconnected]
    assert events[-1] == Disconnected(reason="no edge can be used", final=False)
    with pytest.raises(WindowFullError):
        fleet.submit()
    assert fleet.core.free_window(fleet.clock.now()) == 0
    assert fleet.core.estimate() == LinkEstimate()
    fleet.links[1].heal()
    assert names(fleet.events()) == ["edge-1"]
    assert fleet.arrived(1) != []
    assert request_id == 1


def test_what_comes_before_the_break_is_heard_of_goes_to_another_edge() -> None:
    fleet = Fleet(2)
    fleet.events()
    fleet.links[0].cut()
    assert fleet.core.free_window(fleet.clock.now()) == 16
    fleet.submit()
    assert len(fleet.arrived(1)) == 1


def test_a_busy_edge_sends_a_request_on_and_the_last_one_ends_it() -> None:
    fleet = Fleet(2)
    fleet.events()
    request_id = fleet.submit(deadline_s=1.0)
    for edge in (0, 1):
        (arrived,) = fleet.arrived(edge)
        fleet.servers[edge].busy(
            arrived.session, arrived.request.id, retry_after_s=5.0, hints=Hints()
        )
        events = fleet.events()
    (refused,) = [event for event in events if isinstance(event, Refused)]
    assert refused.id == request_id


@pytest.mark.parametrize("code", [ErrorCode.INTERNAL, ErrorCode.UNKNOWN_BUNDLE])
def test_what_one_edge_fails_another_may_answer(code: ErrorCode) -> None:
    fleet = Fleet(2)
    fleet.events()
    request_id = fleet.submit()
    (arrived,) = fleet.arrived(0)
    fleet.servers[0].fail(arrived.session, arrived.request.id, code, "no")
    assert names(fleet.events()) == ["edge-1"]
    (again,) = fleet.arrived(1)
    fleet.answer(1, again)
    (answered,) = fleet.events()
    assert isinstance(answered, Answered)
    assert answered.id == request_id


def test_a_bad_request_is_not_sent_on() -> None:
    fleet = Fleet(2)
    fleet.events()
    request_id = fleet.submit()
    (arrived,) = fleet.arrived(0)
    fleet.servers[0].fail(arrived.session, arrived.request.id, ErrorCode.BAD_PAYLOAD, "no")
    (failed,) = [event for event in fleet.events() if isinstance(event, Failed)]
    assert (failed.id, failed.code) == (request_id, ErrorCode.BAD_PAYLOAD)
    assert fleet.arrived(1) == []


def test_a_cancelled_request_has_no_event() -> None:
    fleet = Fleet(2)
    fleet.events()
    request_id = fleet.submit()
    (arrived,) = fleet.arrived(0)
    fleet.core.cancel(request_id)
    fleet.core.cancel(request_id)
    fleet.answer(0, arrived)
    assert fleet.events() == []


def test_a_loaded_edge_is_left_for_an_idle_one_that_only_heartbeats_tell_of() -> None:
    fleet = Fleet(2)
    fleet.events()
    found = []
    for _ in range(40):
        fleet.servers[0].advertise(Hints(queue_ms=400))
        fleet.clock.advance(0.25)
        found += names(fleet.events())
        fleet.core.chooser.told(0, Hints(queue_ms=400), fleet.clock.now())
    assert found == ["edge-1"]


def test_an_edge_that_lacks_the_bundle_is_used_only_when_none_has_it() -> None:
    fleet = Fleet(2, serving=[False, True])
    assert names(fleet.events())[-1] == "edge-1"
    both = Fleet(2, serving=[False, False])
    assert names(both.events()) == ["edge-0"]
    both.servers[1].need_bundle(session(both, 1), DIGEST, 0)
    assert [type(event) for event in both.events()] == [BundleWanted]
    both.core.push_bundle(DIGEST, b"packed")
    both.servers[1].serve_bundles([DIGEST])
    assert names(both.events()) == ["edge-1"]
    both.servers[0].serve_bundles([DIGEST])
    both.servers[0].refuse_bundle(session(both, 0), bytes(32), "too large")
    assert both.events() == []


def test_what_the_used_edge_says_of_the_bundle_is_passed_on() -> None:
    fleet = Fleet(1, serving=[False])
    fleet.events()
    fleet.servers[0].refuse_bundle(session(fleet, 0), DIGEST, "too large")
    assert [type(event) for event in fleet.events()] == [BundleDeclined]
    fleet.servers[0].serve_bundles([DIGEST])
    assert [type(event) for event in fleet.events()] == [BundleAccepted]


def test_an_edge_that_moves_is_reached_at_its_new_address() -> None:
    fleet = Fleet(1)
    fleet.events()
    request_id = fleet.submit()
    link = MemoryLink(fleet.clock)
    server = MemoryServer(link, name="edge-0 again")
    server.serve_bundles([DIGEST])
    client = MemoryClient(link, bundles=(DIGEST,), seed=9)
    before = fleet.core.seat(0, client, fleet.clock.now())
    assert before is fleet.clients[0]
    fleet.clients, fleet.links, fleet.servers = [client], [link], [server]
    assert names(fleet.events()) == ["edge-0 again"]
    assert request_id == 1


def test_when_every_edge_refuses_this_device_for_good_it_is_final() -> None:
    fleet = Fleet(2)
    fleet.events()
    for edge in (0, 1):
        fleet.core.on_event(
            edge, Disconnected(reason="not enrolled", final=True), fleet.clock.now()
        )
    events = fleet.events()
    assert events[-1] == Disconnected(reason="not enrolled", final=True)


def session(fleet: Fleet, edge: int) -> bytes:
    return next(iter(fleet.servers[edge].core._sessions))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_every_request_ends_once_whatever_edges_do(seed: int) -> None:
    draw = random.Random(seed)
    fleet = Fleet(3)
    ids: list[int] = []
    ended: list[int] = []
    for _ in range(150):
        ended += [event.id for event in fleet.events() if isinstance(event, ENDS)]
        if draw.random() < 0.4 and fleet.core.free_window(fleet.clock.now()):
            ids.append(fleet.submit(deadline_s=draw.uniform(0.3, 3.0)))
        edge = draw.randrange(3)
        if draw.random() < 0.05:
            fleet.links[edge].cut()
        elif draw.random() < 0.1:
            fleet.links[edge].heal()
        for number in range(3):
            for arrived in fleet.arrived(number):
                act(fleet, number, arrived, draw)
        fleet.clock.advance(0.05)
    for link in fleet.links:
        link.heal()
    for _ in range(100):
        fleet.clock.advance(0.1)
        ended += [event.id for event in fleet.events() if isinstance(event, ENDS)]
    assert sorted(ended) == ids


def act(fleet: Fleet, edge: int, arrived: RequestArrived, draw: random.Random) -> None:
    server, where = fleet.servers[edge], (arrived.session, arrived.request.id)
    chance = draw.random()
    if chance < 0.6:
        fleet.answer(edge, arrived)
    elif chance < 0.75:
        server.busy(*where, retry_after_s=draw.uniform(0.05, 2.0), hints=Hints())
    elif chance < 0.9:
        server.fail(*where, draw.choice(list(ErrorCode)), "no")
