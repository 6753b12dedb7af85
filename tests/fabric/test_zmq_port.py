"""The order of steps in the shells' loop, on a port without a socket."""

from headtail_fabric.clock import FakeClock
from headtail_fabric.peer.zmq_loop import ZmqLoop
from headtail_fabric.peer.zmq_port import ZmqPort


class _Loop(ZmqLoop):
    """Answers `must_tend` from a list, and lets time pass instead of sleeping."""

    def __init__(self, clock: FakeClock, must_tend: list[bool], steps: list[str]) -> None:
        self._clock = clock
        self._answers = must_tend
        self._steps = steps

    def must_tend(self, now: float, *, came: int) -> bool:
        return self._answers.pop(0) if self._answers else False

    def wait(self, seconds: float, *, for_room: bool) -> None:
        self._steps.append(f"sleep {seconds:g}")
        self._clock.advance(max(seconds, 0.0))


class _Port(ZmqPort[str]):
    def __init__(
        self,
        *,
        events: list[str | None] | None = None,
        came: list[int] | None = None,
        must_tend: list[bool] | None = None,
        timer: float | None = None,
    ) -> None:
        clock = FakeClock()
        super().__init__(clock)
        self.steps: list[str] = []
        self._events = events or []
        self._came = came or []
        self._timer = timer
        self._loop = _Loop(clock, must_tend or [], self.steps)

    def close(self, timeout_s: float = 1.0) -> None:
        self.steps.append("close")

    def _collect(self, now: float) -> str | None:
        self.steps.append("collect")
        return self._events.pop(0) if self._events else None

    def _flush(self) -> None:
        self.steps.append("flush")

    def _read(self, now: float) -> int:
        self.steps.append("read")
        return self._came.pop(0) if self._came else 0

    def _tend(self, now: float) -> None:
        self.steps.append("tend")
        self._timer = None

    def _next_timer(self) -> float | None:
        return self._timer

    @property
    def _wants_room(self) -> bool:
        return False


TURN = ["collect", "flush", "read"]


def test_an_event_is_returned_once_what_was_collected_is_sent() -> None:
    port = _Port(events=["news"])
    assert port.poll(1.0) == "news"
    assert port.steps == ["collect", "flush"]


def test_what_a_timer_brings_about_is_sent_before_sleeping() -> None:
    port = _Port(must_tend=[True])
    assert port.poll(1.0) is None
    assert port.steps == [*TURN, "tend", *TURN, "sleep 1", *TURN]


def test_what_a_message_brings_about_is_told_without_sleeping() -> None:
    port = _Port(events=[None, "news"], came=[1])
    assert port.poll(1.0) == "news"
    assert port.steps == [*TURN, "collect", "flush"]


def test_sleep_ends_at_the_next_timer_and_goes_on_until_the_time_is_up() -> None:
    port = _Port(timer=0.25, must_tend=[False, True])
    assert port.poll(1.0) is None
    slept_twice = [*TURN, "sleep 0.25", *TURN, "tend", *TURN, "sleep 0.75", *TURN]
    assert port.steps == slept_twice


def test_a_poll_of_no_time_looks_at_the_socket_once() -> None:
    port = _Port()
    assert port.poll(0.0) is None
    assert port.steps == [*TURN, "sleep 0", *TURN]


def test_a_port_closes_at_the_end_of_its_block() -> None:
    with _Port() as port:
        pass
    assert port.steps == ["close"]
