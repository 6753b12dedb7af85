"""Tails that the edge can't compute in time, forwarded: exactly one answer, whatever the cloud
does. Device, edge and cloud are joined in memory, on a clock that is turned by hand."""

from pathlib import Path

import numpy as np
import pytest

from edge_doubles import Rig, crossing, events, send
from headtail_edge.forward import Forwarder
from headtail_edge.tail_runner import TailRunner
from headtail_fabric.clock import FakeClock
from headtail_fabric.peer.events import (
    Answered,
    Expired,
    Failed,
    Refused,
    RequestArrived,
    TailAnnounced,
)
from headtail_fabric.peer.memory import MemoryClient, MemoryLink, MemoryServer
from headtail_fabric.wire import DType, ErrorCode, Hints, TensorInfo, Timings
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen

ROOM = 2


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(write_specimen(tmp_path_factory.mktemp("forward") / "specimen"))


class Sky:
    """An edge with room for few, one device, and a cloud that is played by the test."""

    def __init__(self, folder: Path, bundle: Bundle, *, window: int = 16) -> None:
        self.rig = Rig(folder, bundle.path, queue_limit=ROOM)
        self.bundle = bundle
        self.link = MemoryLink(self.rig.clock)
        self.cloud = MemoryServer(self.link, window=window)
        self.cloud.serve_bundles([bundle.digest])
        self.way = MemoryClient(self.link)
        self.forwarder = Forwarder(
            cloud=self.way,
            port=self.rig.port,
            queue=self.rig.queue,
            metrics=self.rig.metrics,
            clock=self.rig.clock,
        )
        self.rig.server._forwarder = self.forwarder
        self.device = self.rig.device()
        self.arrived: list[RequestArrived] = []
        self.due: list[TailAnnounced] = []
        self.turn()

    @property
    def forwards(self) -> dict[str, float]:
        totals = self.rig.counted.totals["edge_forwards"]
        return {outcome: count for (outcome,), count in totals.items()}

    def turn(self) -> None:
        """Everything that was sent arrives; nothing is computed here."""
        for _ in range(3):
            self.rig.receive()
            while (event := self.cloud.poll(0.0)) is not None:
                if isinstance(event, RequestArrived):
                    self.arrived.append(event)
                elif isinstance(event, TailAnnounced):
                    self.due.append(event)
            while (heard := self.way.poll(0.0)) is not None:
                self.forwarder.handle(heard)
            self.rig.link.carry()

    def ask(self, count: int, *, deadline_s: float = 10.0) -> list[int]:
        ids = [send(self.device, self.bundle, seed=n, deadline_s=deadline_s) for n in range(count)]
        self.turn()
        return ids

    def answer(self, event: RequestArrived, value: float = 7.0) -> None:
        logits = np.full(3, value, np.float32)
        info = TensorInfo(name="logits", dtype=DType.FLOAT32, shape=(3,), codec="raw")
        self.cloud.respond(
            event.session,
            event.request.id,
            tensors=[info],
            payloads=[logits.tobytes()],
            timings=Timings(queue_us=5, compute_us=1000),
            hints=Hints(),
        )

    def told(self) -> dict[int, object]:
        """What the device heard, by request; twice of one would show."""
        heard = [
            event
            for event in events(self.device)
            if isinstance(event, Answered | Refused | Failed | Expired)
        ]
        by_id: dict[int, object] = {event.id: event for event in heard}
        assert len(by_id) == len(heard), "one answer a request"
        return by_id


class Ticking:
    """A clock by which everything takes time."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def now(self) -> float:
        self._clock.advance(0.001)
        return self._clock.now()


def test_what_finds_no_room_is_forwarded_and_answered(tmp_path: Path, bundle: Bundle) -> None:
    sky = Sky(tmp_path, bundle)
    ids = sky.ask(ROOM + 2)
    assert len(sky.arrived) == len(sky.forwarder) == 2
    first = sky.arrived[0]
    assert (first.request.bundle, first.request.cut) == (bundle.digest, "late")
    sent = np.frombuffer(first.payloads[0], np.float32).reshape(first.request.tensors[0].shape)
    np.testing.assert_array_equal(sent, crossing(bundle, "late", seed=ROOM))
    for event in sky.arrived:
        sky.answer(event)
    sky.turn()
    sky.rig.step()
    told = sky.told()
    assert set(told) == set(ids)
    assert all(isinstance(event, Answered) for event in told.values())
    forwarded = told[ids[-1]]
    assert isinstance(forwarded, Answered)
    assert np.frombuffer(forwarded.payloads[0], np.float32)[0] == 7.0
    assert forwarded.timings.compute_us == 1000
    assert sky.forwards == {"answered": 2}


def announce(sky: Sky, bundle: Bundle, *, due_s: float = 0.0) -> list[tuple[str, float]]:
    """What the cloud hears of a tail that is due at the edge."""
    sky.due.clear()
    sky.device.announce_tail(bundle=bundle.digest, cut="late", due_s=due_s)
    sky.turn()
    assert all(due.bundle == bundle.digest for due in sky.due)
    return [(due.cut, due.due_s) for due in sky.due]


def test_a_tail_that_would_wait_here_is_announced_there(tmp_path: Path, bundle: Bundle) -> None:
    sky = Sky(tmp_path, bundle)
    sky.rig.run_with(TailRunner(clock=Ticking(sky.rig.clock)))
    sky.ask(1)
    sky.rig.compute()  # from now on it is known how long one takes
    sky.rig.step()
    assert announce(sky, bundle) == [], "nothing waits here"
    sky.ask(1)
    running = sky.rig.queue.take()
    assert running is not None
    wait_s = sky.rig.queue.load().queue_s
    assert wait_s > 0
    assert announce(sky, bundle) == [("late", 0.0)]
    assert announce(sky, bundle, due_s=wait_s + 0.001) == [], "by then it is done"


def test_so_is_one_that_may_be_refused_as_others_were(tmp_path: Path, bundle: Bundle) -> None:
    sky = Sky(tmp_path, bundle)
    sky.ask(ROOM + 1)
    sky.rig.compute()
    sky.rig.clock.advance(10.0)
    assert announce(sky, bundle, due_s=0.05) == [("late", 0.05)]
    sky.rig.clock.advance(60.0)
    assert announce(sky, bundle) == []
    sky.ask(ROOM + 1)
    sky.cloud.serve_bundles([])
    sky.link.cut()
    assert announce(sky, bundle) == [], "there is no cloud"


def test_what_the_cloud_refuses_is_computed_here_if_there_is_room(
    tmp_path: Path, bundle: Bundle
) -> None:
    sky = Sky(tmp_path, bundle)
    ids = sky.ask(ROOM + 2)
    sky.rig.compute()
    busy, broken = sky.arrived
    sky.cloud.busy(busy.session, busy.request.id, retry_after_s=60.0, hints=Hints())
    sky.cloud.fail(broken.session, broken.request.id, ErrorCode.INTERNAL, "no")
    sky.turn()
    sky.rig.step()
    told = sky.told()
    assert {type(event) for event in told.values()} == {Answered}
    assert set(told) == set(ids)
    assert sky.forwards == {"returned": 2}


def test_and_refused_if_there_is_none(tmp_path: Path, bundle: Bundle) -> None:
    sky = Sky(tmp_path, bundle)
    ids = sky.ask(ROOM + 1)
    (event,) = sky.arrived
    sky.cloud.busy(event.session, event.request.id, retry_after_s=60.0, hints=Hints())
    sky.turn()
    assert sky.told() == {}
    assert sky.forwards == {"refused": 1}
    assert sky.rig.requests == {"busy": 1}
    sky.rig.compute()
    sky.rig.clock.advance(1.0)
    sky.rig.step()
    assert set(sky.told()) == set(ids), "the device asks again, in time"


def test_a_cloud_that_is_lost_gives_back_what_it_had(tmp_path: Path, bundle: Bundle) -> None:
    sky = Sky(tmp_path, bundle)
    ids = sky.ask(ROOM + 2)
    sky.rig.compute()
    sky.link.cut()
    sky.turn()
    sky.rig.step()
    assert set(sky.told()) == set(ids)
    assert len(sky.forwarder) == 0
    sky.ask(ROOM + 1)
    assert sky.rig.requests["busy"] == 1, "nothing is forwarded while there is no cloud"


def test_an_answer_that_comes_after_all_is_dropped(tmp_path: Path, bundle: Bundle) -> None:
    sky = Sky(tmp_path, bundle)
    ids = sky.ask(ROOM + 1)
    sky.rig.compute()
    sky.link.cut()
    sky.turn()
    sky.link.heal()
    sky.turn()
    sky.answer(sky.arrived[0])
    sky.turn()
    sky.rig.step()
    assert set(sky.told()) == set(ids)


def test_an_expired_one_is_told_by_the_devices_own_clock(tmp_path: Path, bundle: Bundle) -> None:
    sky = Sky(tmp_path, bundle)
    ids = sky.ask(ROOM + 1, deadline_s=1.0)
    sky.rig.clock.advance(1.5)
    sky.turn()
    told = sky.told()
    assert set(told) == set(ids)
    assert isinstance(told[ids[-1]], Expired | Failed)
    assert len(sky.forwarder) == 0


def test_a_cancelled_one_is_cancelled_there_too(tmp_path: Path, bundle: Bundle) -> None:
    sky = Sky(tmp_path, bundle)
    ids = sky.ask(ROOM + 1)
    sky.device.cancel(ids[-1])
    sky.turn()
    assert len(sky.forwarder) == 0
    assert sky.forwards == {"cancelled": 1}


def test_a_session_that_ends_takes_its_requests_along(tmp_path: Path, bundle: Bundle) -> None:
    sky = Sky(tmp_path, bundle)
    sky.ask(ROOM + 2)
    sky.device.close()
    sky.turn()
    assert len(sky.forwarder) == 0


def test_only_what_the_cloud_has_and_would_answer_in_time(tmp_path: Path, bundle: Bundle) -> None:
    sky = Sky(tmp_path, bundle, window=1)
    sky.ask(ROOM + 2)
    assert len(sky.forwarder) == 1, "the window is full"
    sky.answer(sky.arrived[0])
    sky.turn()
    slow = Sky(tmp_path / "slow", bundle)
    slow.forwarder._takes_s = 3.0
    slow.ask(ROOM + 1, deadline_s=2.0)
    assert slow.arrived == []
    other = Sky(tmp_path / "other", bundle)
    other.forwarder._served = frozenset()
    other.ask(ROOM + 1)
    assert other.arrived == []


def test_at_the_end_what_was_not_answered_is_given_up(tmp_path: Path, bundle: Bundle) -> None:
    sky = Sky(tmp_path, bundle)
    sky.ask(ROOM + 2)
    assert len(sky.forwarder.abandon()) == 2
    for event in sky.arrived:
        sky.answer(event)
    sky.turn()
    assert len(sky.forwarder) == 0
    assert len(sky.told()) == 0
