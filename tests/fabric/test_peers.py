import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_fabric import wire
from headtail_fabric.peer.client import State, Turn
from headtail_fabric.peer.errors import StateError, WindowFullError
from headtail_fabric.peer.events import (
    Alternative,
    Answered,
    BundleAccepted,
    BundleDeclined,
    BundlePartArrived,
    BundleWanted,
    Connected,
    Disconnected,
    Expired,
    Failed,
    Refused,
    RequestArrived,
    RequestCancelled,
    SessionClosed,
    SessionOpened,
    TailAnnounced,
)
from headtail_fabric.peer.memory import MemoryClient, MemoryServer
from headtail_fabric.wire import Buffer, ErrorCode, Hints
from peers import ANSWER, DIGEST, TENSOR, Pair
from wire_samples import SAMPLES

ENDS = (Answered, Refused, Failed, Expired)


def is_request(frames: list[Buffer]) -> bool:
    return isinstance(wire.decode(frames)[0], wire.Request)


def is_result(frames: list[Buffer]) -> bool:
    return isinstance(wire.decode(frames)[0], wire.Result)


def test_a_request_is_answered_with_its_timings() -> None:
    pair = Pair(delay_s=0.05)
    request_id = pair.submit()
    pair.pass_time(0.06)
    (arrived,) = pair.arrived()
    assert arrived.request.bundle == DIGEST
    assert bytes(arrived.payloads[0]) == b"abcd"
    assert arrived.deadline_at == pytest.approx(110.0 + 0.05 + 0.2, abs=0.06)
    pair.clock.advance(0.5)
    pair.answer(arrived)
    pair.pass_time(0.06)
    (event,) = pair.client_events()
    assert isinstance(event, Answered)
    assert event.id == request_id
    assert event.tensors == (ANSWER,)
    assert bytes(event.payloads[0]) == b"!"
    assert event.attempts == 1
    assert event.wire_s == pytest.approx(0.1, abs=0.03)
    assert event.timings.resident_us == pytest.approx(500_000, abs=30_000)
    assert event.bytes_up > 50
    assert event.bytes_down > 20


def test_hello_and_offer_say_who_serves_what() -> None:
    pair = Pair(connect=False)
    pair.server.serve_bundles([DIGEST])
    (connected,) = pair.client_events()
    assert isinstance(connected, Connected)
    assert not connected.restarted
    assert connected.offer.name == "edge"
    (opened,) = pair.server_events()
    assert isinstance(opened, SessionOpened)
    assert opened.bundles == (DIGEST,)
    assert opened.can_push


def test_a_tail_is_announced_while_there_is_a_connection() -> None:
    pair = Pair()
    pair.client.announce_tail(bundle=DIGEST, cut="L7", due_s=0.25)
    (due,) = pair.server_events()
    assert isinstance(due, TailAnnounced)
    assert (due.bundle, due.cut, due.due_s) == (DIGEST, "L7", 0.25)
    pair.client.announce_tail(bundle=DIGEST, cut="L7", due_s=1e9)
    (far,) = pair.server_events()
    assert isinstance(far, TailAnnounced)
    assert far.due_s == 86_400
    pair.link.cut()
    pair.client.announce_tail(bundle=DIGEST, cut="L7", due_s=0.25)
    pair.link.heal()
    pair.pass_time(1.0)
    assert not any(isinstance(event, TailAnnounced) for event in pair.server_events())


def test_window_pushes_back() -> None:
    pair = Pair(window=2)
    assert pair.client.free_window() == 2
    pair.submit()
    pair.submit()
    assert pair.client.free_window() == 0
    with pytest.raises(WindowFullError, match="2 requests in flight"):
        pair.submit()
    for arrived in pair.arrived():
        pair.answer(arrived)
    pair.client_events()
    assert pair.client.free_window() == 2


def test_no_request_without_a_connection() -> None:
    pair = Pair()
    pair.link.cut("cable pulled")
    assert pair.client.free_window() == 0
    with pytest.raises(WindowFullError, match="connection down"):
        pair.submit()
    assert pair.client_events() == [Disconnected(reason="cable pulled")]


def test_a_lost_request_is_sent_again_with_growing_pauses() -> None:
    pair = Pair()
    sent_at: list[float] = []

    def lose(frames: list[Buffer]) -> int:
        if is_request(frames):
            sent_at.append(pair.clock.now())
            return 0
        return 1

    pair.link.fault_up = lose
    request_id = pair.submit(deadline_s=20)
    pair.pass_time(19)
    gaps = [b - a for a, b in pairwise(sent_at)]
    assert len(gaps) >= 3
    assert all(later > 1.3 * earlier for earlier, later in pairwise(gaps))
    assert pair.client.traffic().retries == len(gaps)
    pair.pass_time(2)
    assert Expired(id=request_id) in pair.client_events()
    assert (pair.client.estimate().loss or 0) > 0


def test_repeated_requests_are_worked_on_once_and_answered_from_memory() -> None:
    pair = Pair()
    pair.link.fault_down = lambda frames: 0 if is_result(frames) else 1
    pair.submit(deadline_s=30)
    (arrived,) = pair.arrived()
    pair.answer(arrived)
    pair.pass_time(1.0)
    assert pair.client_events() == []
    pair.link.fault_down = lambda _: 1
    pair.pass_time(3.0)
    (event,) = pair.client_events()
    assert isinstance(event, Answered)
    assert event.attempts >= 2
    assert pair.arrived() == []
    assert pair.server.core.repeated_requests >= 1


def test_duplicated_answers_come_once() -> None:
    pair = Pair()
    pair.link.fault_down = lambda _: 2
    pair.submit()
    (arrived,) = pair.arrived()
    pair.answer(arrived)
    assert len(pair.client_events()) == 1
    assert pair.client.core.late_answers == 1


def test_deadlines_expire_on_both_sides_and_late_answers_are_dropped() -> None:
    pair = Pair(delay_s=0.02)
    request_id = pair.submit(deadline_s=0.5)
    pair.pass_time(0.1)
    (arrived,) = pair.arrived()
    pair.pass_time(0.6)
    assert pair.client_events() == [Expired(id=request_id)]
    cancelled = [e for e in pair.server_events() if isinstance(e, RequestCancelled)]
    assert cancelled == [RequestCancelled(session=arrived.session, id=request_id)]
    pair.answer(arrived)
    pair.pass_time(0.1)
    assert pair.client_events() == []


def test_cancel_reaches_the_server_and_leaves_no_event() -> None:
    pair = Pair()
    request_id = pair.submit()
    (arrived,) = pair.arrived()
    pair.client.cancel(request_id)
    assert pair.server_events() == [RequestCancelled(session=arrived.session, id=request_id)]
    pair.answer(arrived)
    assert pair.client_events() == []


def test_busy_is_tried_again_while_the_deadline_allows() -> None:
    pair = Pair()
    pair.submit(deadline_s=5)
    (arrived,) = pair.arrived()
    pair.server.busy(arrived.session, arrived.request.id, retry_after_s=0.5, hints=Hints())
    pair.pass_time(0.4)
    assert pair.arrived() == []
    pair.pass_time(0.6)
    (again,) = pair.arrived()
    assert again.request.attempt == 2
    pair.answer(again)
    assert [type(e) for e in pair.client_events()] == [Answered]


def test_busy_beyond_the_deadline_is_refused_at_once() -> None:
    pair = Pair()
    request_id = pair.submit(deadline_s=0.4)
    (arrived,) = pair.arrived()
    hints = Hints(queue_ms=900)
    pair.server.busy(arrived.session, request_id, retry_after_s=0.9, hints=hints)
    assert pair.client_events() == [Refused(id=request_id, retry_after_s=0.9, hints=hints)]


def test_a_better_way_ends_the_request_though_it_could_be_tried_again() -> None:
    pair = Pair()
    request_id = pair.submit(deadline_s=10.0)
    (arrived,) = pair.arrived()
    way = Alternative(cut="late", codec="q4")
    pair.server.busy(arrived.session, request_id, retry_after_s=0.1, hints=Hints(), instead=way)
    assert pair.client_events() == [
        Refused(id=request_id, retry_after_s=0.1, hints=Hints(), instead=way)
    ]


def test_a_failed_request_says_why() -> None:
    pair = Pair()
    request_id = pair.submit()
    (arrived,) = pair.arrived()
    pair.server.fail(arrived.session, request_id, ErrorCode.UNKNOWN_CUT, "no cut 'L7'")
    assert pair.client_events() == [
        Failed(id=request_id, code=ErrorCode.UNKNOWN_CUT, message="no cut 'L7'")
    ]


def test_requests_survive_a_broken_connection() -> None:
    pair = Pair()
    request_id = pair.submit()
    (arrived,) = pair.arrived()
    pair.link.cut()
    pair.answer(arrived)
    pair.pass_time(0.5)
    pair.link.heal()
    pair.pass_time(0.1)
    kinds = [type(event) for event in pair.client_events()]
    assert kinds == [Disconnected, Connected, Answered]
    assert pair.arrived() == []
    assert request_id == 1


def test_requests_are_sent_again_to_a_restarted_server() -> None:
    pair = Pair()
    pair.submit()
    assert len(pair.arrived()) == 1
    pair.server = MemoryServer(pair.link, seed=77)
    events = pair.client_events()
    assert isinstance(events[0], Disconnected)
    assert isinstance(events[1], Connected)
    assert events[1].restarted
    (again,) = pair.arrived()
    pair.answer(again)
    assert [type(e) for e in pair.client_events()] == [Answered]


def test_a_server_that_forgot_the_session_is_greeted_again() -> None:
    pair = Pair()
    pair.submit()
    (arrived,) = pair.arrived()
    pair.server.drop_session(arrived.session, "maintenance")
    pair.pass_time(1.0)
    kinds = [type(event) for event in pair.client_events()]
    assert kinds == [Disconnected, Connected]
    assert len(pair.arrived()) == 1


def test_a_silent_edge_is_noticed_by_missing_heartbeats_and_found_again() -> None:
    pair = Pair()
    pair.link.fault_down = lambda _: 0
    pair.pass_time(5)
    assert pair.client_events() == [Disconnected(reason="the edge does not answer heartbeats")]
    pair.link.fault_down = lambda _: 1
    pair.pass_time(12)
    assert [type(event) for event in pair.client_events()] == [Connected]


def test_a_silent_client_loses_its_session() -> None:
    pair = Pair()
    pair.link.fault_up = lambda _: 0
    pair.pass_time(5)
    closed = [e for e in pair.server_events() if isinstance(e, SessionClosed)]
    assert [event.reason for event in closed] == ["silent for too long"]


def test_orderly_close_on_either_side() -> None:
    pair = Pair()
    request_id = pair.submit()
    pair.link.carry()
    pair.client.close()
    (failed,) = pair.client_events()
    assert isinstance(failed, Failed)
    assert failed.id == request_id
    assert any(isinstance(e, SessionClosed) for e in pair.server_events())
    other = Pair()
    other.server.close()
    (event,) = other.client_events()
    assert event == Disconnected(reason="the edge said goodbye: the server is shutting down")


def test_closing_twice_is_harmless() -> None:
    pair = Pair()
    pair.client.close()
    pair.client.close()
    assert pair.client.core.state is State.CLOSED


def test_bad_messages_cost_their_sender_the_session_and_nobody_else() -> None:
    pair = Pair()
    other = MemoryClient(pair.link, name="other", seed=5)
    pair.link.carry()
    assert pair.server.core.sessions == 2
    pair.server.core.receive(pair.client.route, "", [b"garbage"], pair.clock.now())
    pair.link.carry()
    assert pair.server.core.bad_messages == 1
    assert pair.server.core.sessions == 1
    final = [e for e in pair.client_events() if isinstance(e, Disconnected)]
    assert final[0].final
    assert pair.client.core.state is State.CLOSED
    assert other.free_window() == 4


def test_a_muted_route_is_not_listened_to_for_a_while() -> None:
    pair = Pair()
    hello = wire.encode(wire.Hello(session=bytes(16), name="x", agent="x"))
    core, now = pair.server.core, pair.clock.now()
    core.receive(b"evil", "", [b"garbage"], now)
    core.receive(b"evil", "", hello, now + 1)
    assert core.sessions == 1
    core.receive(b"evil", "", hello, now + 11)
    assert core.sessions == 2


def test_nobody_takes_anothers_session() -> None:
    pair = Pair(user="cam-1")
    thief = MemoryClient(pair.link, user="cam-2", seed=0)
    assert repr(thief.core._hello.session) == repr(pair.client.core._hello.session)
    pair.link.carry()
    event = thief.poll(0)
    assert event == Disconnected(reason="this session belongs to another key", final=True)
    pair.submit()
    assert len(pair.arrived()) == 1


def test_one_key_has_a_bounded_number_of_sessions() -> None:
    pair = Pair(user="cam-1")
    for seed in range(1, 12):
        pair.clock.advance(0.01)
        MemoryClient(pair.link, user="cam-1", seed=seed)
        pair.link.carry()
    assert pair.server.core.sessions <= 8


def test_a_dropped_user_is_told_for_good() -> None:
    pair = Pair(user="cam-1")
    pair.server.core.drop_user("cam-1", "revoked")
    (event,) = pair.client_events()
    assert event == Disconnected(reason="revoked", final=True)


def test_a_server_of_another_version_ends_the_connection() -> None:
    pair = Pair()
    frames: list[Buffer] = [b"HT\x09\x00\x91\x01"]
    pair.client.core.receive(frames, pair.clock.now())
    (event,) = pair.client_events()
    assert isinstance(event, Disconnected)
    assert event.final
    assert "version 9" in event.reason


@pytest.mark.parametrize("name", ["hello", "request", "cancel", "bundle-part"])
def test_messages_of_the_wrong_direction_are_refused_by_a_client(name: str) -> None:
    pair = Pair()
    with pytest.raises(wire.WireError, match="came from a server"):
        pair.client.core.receive(wire.encode(*SAMPLES[name]), pair.clock.now())


@pytest.mark.parametrize("name", ["offer", "result", "busy", "error", "bundle-need"])
def test_messages_of_the_wrong_direction_cost_a_client_its_session(name: str) -> None:
    pair = Pair()
    frames = wire.encode(*SAMPLES[name])
    pair.server.core.receive(pair.client.route, "", frames, pair.clock.now())
    assert pair.server.core.sessions == 0


def test_a_stale_turn_of_the_state_table_raises() -> None:
    pair = Pair(connect=False)
    fresh = MemoryClient(pair.link, seed=3)
    fresh.core.link_down("x")
    with pytest.raises(StateError, match="offered while down"):
        fresh.core._turn(Turn.OFFERED)


def test_a_bundle_is_pushed_in_parts_and_announced() -> None:
    pair = Pair()
    packed = random.Random(1).randbytes(3 * wire.MAX_PART_BYTES + 1000)
    (session,) = pair.server.core._sessions
    pair.server.need_bundle(session, DIGEST, 0)
    assert pair.client_events() == [BundleWanted(digest=DIGEST)]
    pair.client.push_bundle(DIGEST, packed)
    received = bytearray()
    while len(received) < len(packed):
        pair.link.carry()
        parts = [e for e in pair.server_events() if isinstance(e, BundlePartArrived)]
        assert parts
        for part in parts:
            assert part.offset == len(received)
            assert part.total == len(packed)
            received += part.payload
            pair.server.need_bundle(session, DIGEST, len(received))
    assert bytes(received) == packed
    pair.server.serve_bundles([DIGEST])
    assert pair.client_events() == [BundleAccepted(digest=DIGEST)]


def test_a_stalled_push_goes_on_from_where_the_server_stands() -> None:
    pair = Pair()
    packed = bytes(2 * wire.MAX_PART_BYTES)
    (session,) = pair.server.core._sessions
    pair.client.push_bundle(DIGEST, packed)
    pair.link.fault_up = lambda f: 0 if isinstance(wire.decode(f)[0], wire.BundlePart) else 1
    pair.server.need_bundle(session, DIGEST, 0)
    pair.pass_time(1.0)
    assert not any(isinstance(e, BundlePartArrived) for e in pair.server_events())
    pair.link.fault_up = lambda _: 1
    pair.pass_time(3.0)
    parts = [e for e in pair.server_events() if isinstance(e, BundlePartArrived)]
    assert [part.offset for part in parts] == [0, wire.MAX_PART_BYTES]


def test_an_oversized_request_fails_in_its_callers_hands() -> None:
    pair = Pair()
    with pytest.raises(wire.TooLargeError):
        pair.submit(payload=bytes(wire.MAX_TENSOR_BYTES + 1))
    with pytest.raises(ValueError, match="payloads"):
        pair.client.submit(bundle=DIGEST, cut="L7", tensors=[TENSOR], payloads=[], deadline_s=1.0)
    assert pair.client.free_window() == 4


def test_reprs_show_the_state() -> None:
    pair = Pair()
    pair.submit()
    assert repr(pair.client.core) == (
        "ClientCore(ready, window=4, RequestTable(in_flight=1, retries=0, late=0))"
    )
    pair.link.carry()
    assert repr(pair.server.core) == "ServerCore(sessions=1, in_progress=1, bad=0, repeated=0)"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_request_ends_in_exactly_one_event_whatever_the_link_does(seed: int) -> None:
    chance = random.Random(seed)
    pair = Pair(delay_s=0.02, window=8)

    def fault(_: list[Buffer]) -> int:
        return chance.choices([0, 1, 2], [0.15, 0.75, 0.1])[0]

    pair.link.fault_up = pair.link.fault_down = fault
    waiting: list[RequestArrived] = []
    submitted: list[int] = []
    ended: list[int] = []
    for turn in range(150):
        if turn < 100 and chance.random() < 0.5 and pair.client.free_window():
            submitted.append(pair.submit(deadline_s=chance.uniform(0.05, 3.0)))
        if chance.random() < 0.02:
            pair.link.cut()
            pair.pass_time(chance.uniform(0, 0.3), step_s=0.02)
            pair.link.heal()
        if chance.random() < 0.01:
            pair.server = MemoryServer(pair.link, window=8, seed=chance.randrange(10**6))
        waiting += pair.arrived()
        chance.shuffle(waiting)
        while waiting and chance.random() < 0.6:
            arrived = waiting.pop()
            verdict = chance.random()
            if verdict < 0.8:
                pair.answer(arrived)
            elif verdict < 0.9:
                pair.server.busy(
                    arrived.session,
                    arrived.request.id,
                    retry_after_s=0.1,
                    hints=Hints(),
                )
        pair.pass_time(0.06, step_s=0.02)
        ended += [e.id for e in pair.client_events() if isinstance(e, ENDS)]
    pair.link.fault_up = pair.link.fault_down = lambda _: 1
    pair.pass_time(5, step_s=0.05)
    ended += [e.id for e in pair.client_events() if isinstance(e, ENDS)]
    assert sorted(ended) == submitted
    assert len(pair.client.core._requests) == 0


def test_a_refused_bundle_ends_the_push_and_may_be_asked_for_again() -> None:
    pair = Pair()
    (session,) = pair.server.core._sessions
    pair.client.push_bundle(DIGEST, bytes(8 * wire.MAX_PART_BYTES))
    pair.server.need_bundle(session, DIGEST, 0)
    assert len(pair.server_events()) == 4
    pair.server.refuse_bundle(session, DIGEST, "it is damaged")
    assert pair.client_events() == [BundleDeclined(digest=DIGEST, reason="it is damaged")]
    pair.pass_time(5.0)
    assert pair.server_events() == []
    pair.server.need_bundle(session, DIGEST, 0)
    assert pair.client_events() == [BundleWanted(digest=DIGEST)]


def test_a_push_goes_on_though_its_last_part_was_lost_and_the_server_asks_twice() -> None:
    pair = Pair()
    (session,) = pair.server.core._sessions
    pair.client.push_bundle(DIGEST, bytes(2 * wire.MAX_PART_BYTES))
    pair.server.need_bundle(session, DIGEST, 0)
    assert len(pair.server_events()) == 2
    pair.server.need_bundle(session, DIGEST, 0)
    pair.pass_time(4.0)
    assert len([e for e in pair.server_events() if isinstance(e, BundlePartArrived)]) == 2


def test_a_session_closed_for_silence_is_told_so() -> None:
    pair = Pair()
    told: list[wire.Message] = []

    def listen(frames: list[Buffer]) -> int:
        told.append(wire.decode(frames)[0])
        return 1

    pair.link.fault_up = lambda _: 0
    pair.link.fault_down = listen
    pair.pass_time(5)
    assert wire.Goodbye(reason="silent for too long") in told
    pair.link.fault_up = lambda _: 1
    pair.pass_time(12)
    assert [type(event) for event in pair.client_events()] == [Disconnected, Connected]
