"""Sealed requests between the two cores, over links that repeat, change and break."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_fabric import wire
from headtail_fabric.clock import FakeClock
from headtail_fabric.peer.events import Answered, Expired, Failed, Refused, RequestArrived
from headtail_fabric.peer.memory import MemoryClient, MemoryLink, MemoryServer
from headtail_fabric.seal import Opener, Sealer, TamperedError
from headtail_fabric.seal.cipher import best_cipher
from headtail_fabric.wire import Buffer, ErrorCode, Hints
from peers import ANSWER, DIGEST, TENSOR, Pair

SECRET = bytes(range(32))
PUBLIC = best_cipher().public(SECRET)


class SealedPair(Pair):
    """A `Pair` whose payloads are sealed; `clear` for a device that does not."""

    def __init__(
        self, *, required: bool = True, clear: bool = False, window: int = 4, to: bytes = PUBLIC
    ) -> None:
        draw = random.Random(5)
        self.clock = FakeClock(100.0)
        self.link = MemoryLink(self.clock)
        self.opener = Opener(SECRET, required=required, pad_bytes=0, random=draw.randbytes)
        self.server = MemoryServer(self.link, window=window, opener=self.opener)
        sealer = None if clear else Sealer(to, pad_bytes=0, random=draw.randbytes)
        self.client = MemoryClient(self.link, bundles=(DIGEST,), sealer=sealer)
        self.link.carry()
        self.client_events()
        self.server_events()


def test_a_request_and_its_answer_are_sealed_on_the_wire_and_clear_at_both_ends() -> None:
    pair = SealedPair()
    seen: list[bytes] = []

    def watch(frames: list[Buffer]) -> int:
        seen.extend(bytes(frame) for frame in frames)
        return 1

    pair.link.fault_up = pair.link.fault_down = watch
    request_id = pair.submit(payload=b"from the device")
    (arrived,) = pair.arrived()
    assert arrived.request.tensors == (TENSOR,)
    assert bytes(arrived.payloads[0]) == b"from the device"
    pair.answer(arrived, b"from the edge")
    (event,) = pair.client_events()
    assert isinstance(event, Answered)
    assert event.id == request_id
    assert event.tensors == (ANSWER,)
    assert bytes(event.payloads[0]) == b"from the edge"
    assert not any(b"from the" in frame for frame in seen)


def test_a_tail_is_not_announced_beside_sealed_requests() -> None:
    pair = SealedPair()
    pair.client.announce_tail(bundle=DIGEST, cut="L7", due_s=0.1)
    assert pair.server_events() == []


def test_a_busy_edge_is_asked_again_under_a_new_seal() -> None:
    pair = SealedPair()
    pair.submit()
    (arrived,) = pair.arrived()
    pair.server.busy(
        arrived.session, arrived.request.id, retry_after_s=0.1, hints=Hints(queue_ms=1)
    )
    pair.pass_time(0.3)
    (again,) = pair.arrived()
    pair.answer(again)
    assert isinstance(pair.client_events()[0], Answered)


def test_a_request_survives_a_restart_of_the_edge() -> None:
    pair = SealedPair()
    pair.submit()
    pair.arrived()
    pair.server = MemoryServer(pair.link, seed=2, opener=pair.opener)
    pair.pass_time(1.0)
    (again,) = pair.arrived()
    pair.answer(again)
    pair.link.carry()
    assert any(isinstance(event, Answered) for event in pair.client_events())


def test_a_recorded_request_is_computed_once() -> None:
    pair = SealedPair()
    recorded: list[list[Buffer]] = []

    def record(frames: list[Buffer]) -> int:
        recorded.append(list(frames))
        return 1

    pair.link.fault_up = record
    pair.submit()
    (arrived,) = pair.arrived()
    pair.answer(arrived)
    pair.client_events()
    (request,) = [frames for frames in recorded if len(frames) == 2]
    # Somebody in between asks for the same under another id, where no repetition is known.
    message, payloads = wire.decode(request)
    assert isinstance(message, wire.Request)
    forged = wire.Request(
        id=99,
        bundle=message.bundle,
        cut=message.cut,
        remaining_ms=1000,
        attempt=1,
        tensors=message.tensors,
    )
    pair.server.core.receive(pair.client.route, "", wire.encode(forged, payloads), 100.0)
    assert pair.arrived() == []
    assert pair.server.core.bad_seals == 1


def test_a_changed_request_costs_that_request_and_not_the_session() -> None:
    pair = SealedPair()

    def change(frames: list[Buffer]) -> int:
        if len(frames) == 2:
            frames[1] = bytes(frames[1])[:-1] + b"?"
        return 1

    pair.link.fault_up = change
    first = pair.submit()
    pair.link.carry()
    (failed,) = pair.client_events()
    assert isinstance(failed, Failed)
    assert (failed.id, failed.code) == (first, ErrorCode.BAD_SEAL)
    pair.link.fault_up = lambda _: 1
    pair.submit()
    (arrived,) = pair.arrived()
    pair.answer(arrived)
    assert isinstance(pair.client_events()[0], Answered)


def test_a_changed_answer_is_dropped_and_sent_again() -> None:
    pair = SealedPair()
    kept: list[list[Buffer]] = []

    def keep(frames: list[Buffer]) -> int:
        kept.append(list(frames))
        return 0

    pair.submit()
    (arrived,) = pair.arrived()
    pair.link.fault_down = keep
    pair.answer(arrived)
    pair.link.carry()
    header, envelope = kept[-1]
    with pytest.raises(TamperedError):
        pair.client.core.receive([header, bytes(envelope)[:-1] + b"?"], 100.0)
    assert pair.client_events() == []
    pair.link.fault_down = lambda _: 1
    pair.pass_time(3.0)
    (event,) = pair.client_events()
    assert isinstance(event, Answered)
    assert event.attempts == 2
    assert bytes(event.payloads[0]) == b"!"


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (SealedPair(clear=True), "not sealed"),
        (SealedPair(to=best_cipher().public(bytes(range(7, 39)))), "another key"),
    ],
)
def test_what_the_edge_does_not_take_fails_with_the_reason(pair: SealedPair, message: str) -> None:
    pair.submit()
    pair.link.carry()
    (failed,) = pair.client_events()
    assert isinstance(failed, Failed)
    # Not only this request: the next one would meet it too.
    assert failed.code is ErrorCode.NOT_ALLOWED
    assert message in failed.message


def test_an_edge_without_a_key_says_so() -> None:
    pair = SealedPair()
    pair.server = MemoryServer(pair.link, seed=3)
    pair.pass_time(1.0)
    pair.client_events()
    pair.submit()
    pair.link.carry()
    (failed,) = pair.client_events()
    assert isinstance(failed, Failed)
    assert "no sealing key" in failed.message


def test_clear_requests_are_taken_where_sealing_is_optional() -> None:
    pair = SealedPair(required=False, clear=True)
    pair.submit()
    (arrived,) = pair.arrived()
    pair.answer(arrived)
    assert isinstance(pair.client_events()[0], Answered)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_every_sealed_request_ends_once_on_a_link_that_loses_repeats_and_breaks(seed: int) -> None:
    draw = random.Random(seed)
    pair = SealedPair()

    def fate(_: list[Buffer]) -> int:
        return draw.choices((0, 1, 2), (1, 8, 2))[0]

    pair.link.fault_up = pair.link.fault_down = fate
    ids, ended, computed = [], [], []
    for _ in range(120):
        if draw.random() < 0.3 and pair.client.free_window():
            ids.append(pair.submit(deadline_s=draw.uniform(0.5, 3.0)))
        if draw.random() < 0.03:
            pair.link.cut()
            pair.link.heal()
        for event in pair.server_events():
            if isinstance(event, RequestArrived):
                computed.append((event.session, event.request.id))
                pair.answer(event)
        pair.pass_time(0.05)
        ended += [e.id for e in pair.client_events() if isinstance(e, ENDS)]
    pair.pass_time(5.0, step_s=0.05)
    ended += [e.id for e in pair.client_events() if isinstance(e, ENDS)]
    assert sorted(ended) == ids
    assert len(computed) == len(set(computed))


ENDS = (Answered, Refused, Failed, Expired)
