"""Requests from devices in memory, through the whole edge on a fake clock."""

import threading
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from edge_doubles import Rig, crossing, encoded, events, send
from headtail_edge.server import EdgeServer
from headtail_edge.worker import WorkerPool
from headtail_fabric.codec import codec_for
from headtail_fabric.peer.events import Answered, Disconnected, Failed, Refused, ServerEvent
from headtail_fabric.wire import ErrorCode
from headtail_models.bundle import Bundle


@pytest.fixture
def rig(specimen_path: Path, tmp_path: Path) -> Rig:
    return Rig(tmp_path, specimen_path)


@pytest.mark.parametrize("cut", ["early", "late"])
def test_head_and_tail_are_the_full_model(rig: Rig, specimen: Bundle, cut: str) -> None:
    device = rig.device()
    picture = np.random.default_rng(3).random((1, 3, 16, 16), dtype=np.float32)
    tensor = specimen.open_stage(specimen.head(cut)).run({"picture": picture})[cut]
    info, payload = encoded(specimen, cut, tensor, "raw")
    device.submit(
        bundle=specimen.digest, cut=cut, tensors=[info], payloads=[payload], deadline_s=1.0
    )
    rig.step()
    (answer,) = events(device)
    assert isinstance(answer, Answered)
    (found,), (encoded_logits,) = answer.tensors, answer.payloads
    logits = codec_for("raw").decode(encoded_logits, found.shape)
    full = specimen.open_stage(specimen.full()).run({"picture": picture})["logits"][0]
    np.testing.assert_allclose(logits, full, rtol=1e-4, atol=1e-5)


def test_requests_of_many_devices_are_computed_together(rig: Rig, specimen: Bundle) -> None:
    devices = [rig.device(seed=seed) for seed in range(4)]
    for device in devices:
        send(device, specimen)
    rig.step()
    for device in devices:
        (answer,) = events(device)
        assert isinstance(answer, Answered)
        assert answer.hints.batch == 4


def test_an_unknown_cut_and_an_unknown_bundle_are_told_apart(rig: Rig, specimen: Bundle) -> None:
    device = rig.device()
    info, payload = encoded(specimen, "late", crossing(specimen, "late"), "raw")
    for digest, cut in ((specimen.digest, "nowhere"), (bytes(32), "late")):
        device.submit(bundle=digest, cut=cut, tensors=[info], payloads=[payload], deadline_s=1.0)
    rig.step()
    found = [event for event in events(device) if isinstance(event, Failed)]
    assert [(event.code, event.message) for event in found] == [
        (ErrorCode.UNKNOWN_CUT, "specimen-1.0 has no cut 'nowhere'"),
        (ErrorCode.UNKNOWN_BUNDLE, "this edge does not serve that bundle"),
    ]


def test_a_request_that_does_not_fit_costs_only_its_sender(rig: Rig, specimen: Bundle) -> None:
    hostile, honest = rig.device(seed=1), rig.device(seed=2)
    info, payload = encoded(specimen, "late", crossing(specimen, "late"), "q8")
    for tensor, content in (
        (replace(info, codec="q4", quantiser="q4"), payload),
        (replace(info, shape=(1, 12, 8, 9)), payload),
        (replace(info, name="x"), payload),
        (info, b""),
    ):
        hostile.submit(
            bundle=specimen.digest,
            cut="late",
            tensors=[tensor],
            payloads=[content],
            deadline_s=1.0,
        )
    send(honest, specimen)
    rig.step()
    failures = events(hostile)
    assert len(failures) == 4
    assert all(isinstance(e, Failed) and e.code is ErrorCode.BAD_PAYLOAD for e in failures)
    (answer,) = events(honest)
    assert isinstance(answer, Answered)
    assert rig.requests == {"failed": 4, "answered": 1}


def test_a_full_queue_says_when_to_come_again(
    specimen: Bundle, specimen_path: Path, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, specimen_path, queue_limit=2)
    device = rig.device()
    for _ in range(3):
        send(device, specimen, deadline_s=0.05)
    rig.receive()
    (refused,) = events(device)
    assert isinstance(refused, Refused)
    assert refused.retry_after_s == pytest.approx(2 * 0.05)
    assert (refused.hints.active, refused.hints.queue_ms) == (2, 0)
    rig.step()
    assert [type(event) for event in events(device)] == [Answered, Answered]
    assert rig.requests == {"busy": 1, "answered": 2}


def test_a_cancelled_request_is_not_computed(rig: Rig, specimen: Bundle) -> None:
    device = rig.device()
    cancelled, kept = send(device, specimen), send(device, specimen)
    rig.receive()
    device.cancel(cancelled)
    rig.step()
    (answer,) = events(device)
    assert isinstance(answer, Answered)
    assert answer.id == kept
    assert rig.requests == {"cancelled": 1, "answered": 1}


def test_an_expired_request_is_not_computed(rig: Rig, specimen: Bundle) -> None:
    device = rig.device()
    send(device, specimen, deadline_s=0.5)
    send(device, specimen, deadline_s=5.0)
    rig.receive()
    rig.clock.advance(0.6)
    rig.step()
    assert sorted(type(event).__name__ for event in events(device)) == ["Answered", "Expired"]
    assert rig.requests == {"expired": 1, "answered": 1}


def test_a_session_that_ends_takes_its_requests_along(rig: Rig, specimen: Bundle) -> None:
    leaving, staying = rig.device(seed=1), rig.device(seed=2)
    send(leaving, specimen)
    send(staying, specimen)
    rig.receive()
    leaving.close()
    rig.step()
    (answer,) = events(staying)
    assert isinstance(answer, Answered)
    assert answer.hints.batch == 1
    assert rig.requests == {"cancelled": 1, "answered": 1}


def test_it_serves_until_it_is_told_to_stop(
    rig: Rig, specimen: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, stop, poll = rig.device(), threading.Event(), rig.port.poll
    send(device, specimen)

    def poll_once(timeout_s: float) -> ServerEvent | None:
        stop.set()
        return poll(timeout_s)

    monkeypatch.setattr(rig.port, "poll", poll_once)
    rig.server.run(stop)
    assert rig.queue.load().waiting == 1


class StuckPool(WorkerPool):
    """A pool whose workers never finish; time passes when somebody looks."""

    def __init__(self, rig: Rig) -> None:
        super().__init__([])
        self._rig = rig

    @property
    def alive(self) -> bool:
        self._rig.clock.advance(0.5)
        return True


def test_what_is_not_done_within_the_grace_fails_and_what_comes_late_too(
    rig: Rig, specimen: Bundle
) -> None:
    device = rig.device()
    running = send(device, specimen)
    rig.receive()
    rig.queue.take()
    waiting = send(device, specimen)
    rig.receive()
    late = send(device, specimen)
    rig.server.drain(StuckPool(rig), grace_s=2.0)
    rig.port.close()
    *failures, goodbye = events(device)
    assert {e.id: (e.code, e.message) for e in failures if isinstance(e, Failed)} == dict.fromkeys(
        (running, waiting, late), (ErrorCode.SHUTTING_DOWN, "the edge is shutting down")
    )
    assert isinstance(goodbye, Disconnected)


def test_what_was_accepted_is_finished_before_it_stops(rig: Rig, specimen: Bundle) -> None:
    device = rig.device()
    for _ in range(3):
        send(device, specimen)
    rig.receive()
    pool = WorkerPool([rig.worker])
    pool.start()
    rig.server.drain(pool, grace_s=60.0)
    assert not pool.alive
    rig.link.carry()
    assert [type(event) for event in events(device)] == [Answered] * 3


class Turns(threading.Event):
    """Lets a loop turn so often."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._left = count

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0


def test_what_came_in_one_turn_is_put_before_the_workers_together(
    rig: Rig, specimen: Bundle
) -> None:
    devices = [rig.device(seed=seed) for seed in range(4)]
    for device in devices:
        send(device, specimen)
    rig.server.run(Turns(1))
    assert rig.queue.load().waiting == 4


def test_a_request_may_be_cancelled_in_the_turn_that_it_came_in(rig: Rig, specimen: Bundle) -> None:
    device = rig.device()
    unwanted, kept = send(device, specimen), send(device, specimen)
    rig.link.carry()
    device.cancel(unwanted)
    rig.server.run(Turns(1))
    assert rig.queue.load().waiting == 1
    rig.step()
    (answer,) = events(device)
    assert isinstance(answer, Answered)
    assert answer.id == kept
    assert rig.requests == {"cancelled": 1, "answered": 1}


def test_repr_shows_the_state(rig: Rig) -> None:
    rig.device()
    assert repr(rig.server).startswith("<EdgeServer serving, 1 sessions, <JobQueue ")
    assert isinstance(rig.server, EdgeServer)
