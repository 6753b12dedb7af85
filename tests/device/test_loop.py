"""The thread around the runner, with everything it takes already in the inbox."""

import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

import pytest

from device_doubles import BY_DEVICE, Bench, EchoPort, frame
from headtail_device.inbox import Inbox, SourceEnded
from headtail_device.ledger import Outcome
from headtail_device.loop import EdgeRequiredError, Loop, capture, listen
from headtail_device.policy import LocalPolicy
from headtail_device.source import Captured, Frame
from headtail_device.source.errors import CameraError
from headtail_fabric.errors import LocalError
from headtail_fabric.peer.events import Connected, Disconnected


def local_bench() -> Bench:
    return Bench(policy=LocalPolicy(), patience_s=0.0)


def loop_on(
    bench: Bench,
    inbox: Inbox,
    *,
    stopped: Callable[[], bool] = lambda: False,
    edge_required: bool = False,
    tick: Callable[[], None] = lambda: None,
) -> Loop:
    return Loop(
        bench.runner,
        inbox,
        clock=bench.clock,
        stopped=stopped,
        drain_s=0.0,
        edge_required=edge_required,
        tick=tick,
    )


def test_it_ends_when_the_source_has_ended_and_all_is_answered() -> None:
    bench = local_bench()
    inbox = Inbox(live=False, clock=bench.clock)
    inbox.put_frame(frame(0))
    inbox.put_frame(frame(1))
    inbox.end()
    ticks: list[int] = []
    assert loop_on(bench, inbox, tick=lambda: ticks.append(1)).run() is None
    assert bench.outcomes == [Outcome.LOCAL, Outcome.LOCAL]
    assert len(ticks) == 5  # two frames taken, two computed, the end


def test_what_broke_the_source_is_returned() -> None:
    bench = local_bench()
    inbox = Inbox(live=False, clock=bench.clock)
    inbox.put_frame(frame(0))
    error = CameraError("gone")
    inbox.end(error)
    assert loop_on(bench, inbox).run() is error
    assert bench.outcomes == [Outcome.LOCAL]


def test_a_stop_answers_what_was_accepted_and_takes_nothing_more() -> None:
    bench = Bench()
    bench.pump()
    bench.feed(0)
    bench.feed(1)
    inbox = Inbox(live=False, clock=bench.clock)
    inbox.put_frame(frame(2))
    assert loop_on(bench, inbox, stopped=lambda: True).run() is None
    assert bench.outcomes == [Outcome.DEGRADED, Outcome.DEGRADED]
    assert bench.finished[0].record.reason == "the device is stopping"
    assert bench.finished[0].record.answer == BY_DEVICE
    assert bench.ledger.open_count == 0


def test_an_edge_that_is_required_and_not_there_is_an_error() -> None:
    bench = Bench(patience_s=0.0)
    inbox = Inbox(live=False, clock=bench.clock)
    inbox.put_frame(frame(0))
    inbox.end()
    with pytest.raises(EdgeRequiredError, match="the edge can't be used"):
        loop_on(bench, inbox, edge_required=True).run()
    assert bench.finished == []


def test_an_edge_that_was_there_may_go() -> None:
    bench = Bench(patience_s=0.0)
    bench.pump()
    inbox = Inbox(live=False, clock=bench.clock)
    inbox.put_event(Disconnected(reason="gone"))
    inbox.put_frame(frame(0))
    inbox.end()
    assert loop_on(bench, inbox, edge_required=True).run() is None
    assert bench.outcomes == [Outcome.DEGRADED]


class ScriptedSource:
    """Yields frames, then raises what it is told to."""

    name, live, rate_hz, frame_count = "script", False, None, None

    def __init__(self, frames: int, *, error: Exception | None = None) -> None:
        self._frames = frames
        self._error = error
        self.entered = self.left = False

    def __iter__(self) -> Iterator[Captured]:
        yield from (frame(index) for index in range(self._frames))
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        self.entered = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.left = True


def captured(source: ScriptedSource) -> list[object]:
    bench = local_bench()
    inbox = Inbox(live=False, clock=bench.clock)
    capture(source, inbox)
    taken: list[object] = []
    while (item := inbox.take(want_frame=True, timeout_s=0)) is not None:
        taken.append(item)
    assert source.entered
    assert source.left
    return taken


def test_capturing_ends_with_the_source() -> None:
    first, ended = captured(ScriptedSource(1))
    assert isinstance(first, Frame)
    assert ended == SourceEnded(error=None)


def test_capturing_passes_a_known_error_on() -> None:
    error = CameraError("gone")
    assert captured(ScriptedSource(0, error=error)) == [SourceEnded(error=error)]


def test_capturing_tells_of_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    (ended,) = captured(ScriptedSource(0, error=RuntimeError("a bug")))
    assert isinstance(ended, SourceEnded)
    assert isinstance(ended.error, LocalError)
    assert "RuntimeError: a bug" in ended.error.message
    assert "the source failed" in caplog.text


def test_capturing_ends_when_nobody_takes_the_frames() -> None:
    inbox = Inbox(live=False, clock=local_bench().clock)
    inbox.close()
    capture(ScriptedSource(3), inbox)
    assert repr(inbox) == "<Inbox events=0 frames=0>"


def test_listening_passes_events_on_until_it_is_over() -> None:
    inbox = Inbox(live=False, clock=local_bench().clock)
    closing = threading.Event()
    port = EchoPort(bytes(32), lambda: (pytest.fail("nothing was sent"), b""))
    listener = threading.Thread(target=listen, args=(port, inbox, closing))
    listener.start()
    event = inbox.take(want_frame=False, timeout_s=10)
    closing.set()
    listener.join()
    assert isinstance(event, Connected)


def test_a_connection_that_fails_is_gone_for_good(caplog: pytest.LogCaptureFixture) -> None:
    class BrokenPort(EchoPort):
        def poll(self, timeout_s: float) -> None:
            raise RuntimeError("a bug")

    inbox = Inbox(live=False, clock=local_bench().clock)
    port = BrokenPort(bytes(32), lambda: (pytest.fail("nothing was sent"), b""))
    listen(port, inbox, threading.Event())
    event = inbox.take(want_frame=False, timeout_s=0)
    assert event == Disconnected(reason="RuntimeError: a bug", final=True)
    assert "the connection failed" in caplog.text
