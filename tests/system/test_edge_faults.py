"""What can befall an edge: each fault is a real one, at a real process, and costs no more than it
must. Nothing is asserted of times but that things come about."""

import resource
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
import pytest
import zmq

from edge_doubles import crossing, encoded
from headtail_fabric import wire
from headtail_fabric.clock import MonotonicClock
from headtail_fabric.emulator import LinkProxy, parse_link
from headtail_fabric.peer.events import (
    Answered,
    BundleDeclined,
    BundleWanted,
    ClientEvent,
    Connected,
    Disconnected,
    Expired,
    Failed,
    Refused,
    RequestArrived,
)
from headtail_fabric.peer.zmq_client import ZmqClient
from headtail_fabric.peer.zmq_server import ZmqServer
from headtail_fabric.wire import DType, ErrorCode, Hints, TensorInfo, Timings
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen
from processes import PATIENCE_S, Headtail, wait_until

pytestmark = pytest.mark.system

OPEN_FOR_S = 60.0


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(write_specimen(tmp_path_factory.mktemp("bundles") / "specimen"))


@pytest.fixture
def newer(tmp_path: Path) -> Bundle:
    return open_bundle(write_specimen(tmp_path / "newer", version="2.0"))


@contextmanager
def serving(
    folder: Path, *bundles: Bundle, bind: str = "tcp://127.0.0.1:0", settings: str = ""
) -> Iterator[tuple[Headtail, str]]:
    """An edge process, and where it listens."""
    config = folder / "edge.toml"
    config.write_text(settings)
    words: list[str | Path] = ["edge", "serve", "--bind", bind, "--config", config]
    for bundle in bundles:
        words += ["--bundle", bundle.path]
    with Headtail(*words) as edge:
        yield edge, edge.ready()["endpoint"]


class Device:
    """A client, what it asked for and what came of it."""

    def __init__(self, endpoint: str, bundle: Bundle, *, name: str = "cam") -> None:
        self.port = ZmqClient(endpoint, name=name, bundles=[bundle.digest], can_push=True)
        self.bundle = bundle
        self.asked: list[int] = []
        self.ends: dict[int, ClientEvent] = {}
        self.others: list[ClientEvent] = []
        self.until(lambda: any(isinstance(event, Connected) for event in self.others))

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, *_: object) -> None:
        self.port.close()

    def ask(self, *, deadline_s: float = OPEN_FOR_S, bundle: Bundle | None = None) -> int:
        """One small request."""
        wanted = bundle or self.bundle
        tensor, payload = encoded(wanted, "late", crossing(wanted, "late"), "raw")
        self.asked.append(
            self.port.submit(
                bundle=wanted.digest,
                cut="late",
                tensors=[tensor],
                payloads=[payload],
                deadline_s=deadline_s,
            )
        )
        return self.asked[-1]

    def ask_with_a_picture(self) -> int:
        """One request of some hundred kilobytes."""
        noise = np.random.default_rng(1).integers(0, 255, (400, 500, 3), dtype=np.uint8)
        done, payload = cv2.imencode(".jpg", noise, [cv2.IMWRITE_JPEG_QUALITY, 95])
        assert done
        info = TensorInfo(name="input", dtype=DType.UINT8, shape=(1, 400, 500, 3), codec="jpeg")
        self.asked.append(
            self.port.submit(
                bundle=self.bundle.digest,
                cut="input",
                tensors=[info],
                payloads=[payload.tobytes()],
                deadline_s=OPEN_FOR_S,
            )
        )
        return self.asked[-1]

    def listen(self, seconds: float = 0.05) -> None:
        """Take what comes."""
        event = self.port.poll(seconds)
        if isinstance(event, Answered | Refused | Failed | Expired):
            assert event.id not in self.ends, "a request that ended twice"
            self.ends[event.id] = event
        elif event is not None:
            self.others.append(event)

    def until(self, condition: Callable[[], bool]) -> None:
        until = MonotonicClock().now() + PATIENCE_S
        while not condition():
            assert MonotonicClock().now() < until, (self.ends, self.others)
            self.listen()

    def until_all_ended(self) -> Counter[str]:
        """How the requests ended, when all have."""
        self.until(lambda: len(self.ends) == len(self.asked))
        return Counter(type(event).__name__ for event in self.ends.values())

    def one_answer(self) -> None:
        """Prove that it is served."""
        wanted = self.ask()
        self.until(lambda: wanted in self.ends)
        assert isinstance(self.ends[wanted], Answered), self.ends[wanted]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_an_edge_that_is_replaced_in_mid_flight_answers_everything(
    bundle: Bundle, newer: Bundle, tmp_path: Path, how: signal.Signals
) -> None:
    """Killed, or upgraded in order: the next one also has a new bundle."""
    with serving(tmp_path, bundle) as (first, endpoint), Device(endpoint, bundle) as device:
        device.one_answer()
        if how is signal.SIGKILL:
            first.process.send_signal(signal.SIGSTOP)  # what is asked now is surely in flight
        for _ in range(8):
            device.ask()
        device.listen(0.3)
        first.process.send_signal(how)
        first.process.wait(PATIENCE_S)
        with serving(tmp_path, bundle, newer, bind=endpoint):
            ends = device.until_all_ended()
            device.one_answer()
    assert ends["Answered"] + ends["Failed"] == 9
    for event in device.ends.values():
        # Who was told that it shuts down was told so by the old one, in order.
        assert isinstance(event, Answered) or (
            isinstance(event, Failed) and event.code is ErrorCode.SHUTTING_DOWN
        )
    if how is signal.SIGKILL:
        assert ends == {"Answered": 9}
    connections = [event for event in device.others if isinstance(event, Connected)]
    assert [event.restarted for event in connections] == [False, True]
    assert newer.digest in connections[-1].offer.bundles


@pytest.mark.parametrize("kind", ["stall", "cut"])
def test_a_network_that_is_gone_in_mid_frame_delays_and_loses_nothing(
    bundle: Bundle, tmp_path: Path, kind: str
) -> None:
    """A minute, scaled to the seconds after which either side takes the other for gone. A stall
    leaves both with half-open connections."""
    link = f"1.5s rate=200kbit rtt=10ms; 7s outage/{kind}; 600s rate=50mbit rtt=10ms"
    with serving(tmp_path, bundle) as (edge, endpoint):
        with (
            LinkProxy(parse_link(link), target=endpoint) as proxy,
            Device(proxy.endpoint, bundle) as cut_off,
            Device(endpoint, bundle, name="other") as other,
        ):
            for _ in range(3):
                cut_off.ask_with_a_picture()
            cut_off.until(lambda: any(isinstance(e, Disconnected) for e in cut_off.others))
            other.one_answer()
            assert cut_off.until_all_ended() == {"Answered": 3}
            cut_off.one_answer()
        assert edge.terminate() == 0
        errors = edge.errors()
    assert "Traceback" not in errors
    assert "silent for too long" in errors


def test_a_device_that_hangs_loses_its_session_and_is_greeted_when_it_wakes(
    bundle: Bundle, tmp_path: Path
) -> None:
    with serving(tmp_path, bundle) as (edge, endpoint):
        with Device(endpoint, bundle) as hung, Device(endpoint, bundle, name="other") as other:
            log = _Log(edge)
            until = MonotonicClock().now() + PATIENCE_S
            while "silent for too long" not in log.text():
                assert MonotonicClock().now() < until
                other.one_answer()  # and goes on being served all the while
            hung.one_answer()
        edge.terminate()


class _Log:
    """Follows what a process writes to standard error."""

    def __init__(self, process: Headtail) -> None:
        self._lines: list[bytes] = []
        stream = process.process.stderr
        assert stream is not None
        threading.Thread(target=lambda: self._lines.extend(stream), daemon=True).start()

    def text(self) -> str:
        # A list that is being extended from an iterator may be copied at any time.
        return b"".join(tuple(self._lines)).decode()


def test_a_device_that_floods_is_held_back_and_the_others_are_not(
    bundle: Bundle, tmp_path: Path
) -> None:
    settings = """
window = 64
max_batch = 1
workers = 1
[limits]
max_waiting = 16
slack_ms = 0
"""
    with (
        serving(tmp_path, bundle, settings=settings) as (_, endpoint),
        Device(endpoint, bundle, name="flood") as flood,
        Device(endpoint, bundle, name="one") as one,
        Device(endpoint, bundle, name="two") as two,
    ):
        stop = threading.Event()
        flooding = threading.Thread(target=_flood, args=(flood, stop))
        flooding.start()
        for _ in range(60):
            one.one_answer()
            two.one_answer()
        stop.set()
        flooding.join()
        flood.until_all_ended()
    kinds = Counter(type(event).__name__ for event in flood.ends.values())
    assert kinds["Refused"] > 0
    assert kinds["Answered"] > 0
    assert all(isinstance(event, Answered) for event in [*one.ends.values(), *two.ends.values()])


def _flood(device: Device, stop: threading.Event) -> None:
    while not stop.is_set():
        while device.port.free_window() > 0:
            device.ask(deadline_s=0.02)
        device.listen(0.001)


def test_a_device_beyond_its_rate_waits_and_is_then_answered(
    bundle: Bundle, tmp_path: Path
) -> None:
    settings = "[limits]\nrate_per_s = 20\nburst_s = 0.1\n"
    with (
        serving(tmp_path, bundle, settings=settings) as (_, endpoint),
        Device(endpoint, bundle) as device,
    ):
        for _ in range(8):
            device.ask()
        assert device.until_all_ended() == {"Answered": 8}
    # Told to come again, each came again once it was allowed to.
    attempts = [event.attempts for event in device.ends.values() if isinstance(event, Answered)]
    assert sorted(attempts)[:2] == [1, 1]
    assert max(attempts) > 1


def test_garbage_costs_nobody_but_its_sender_anything(bundle: Bundle, tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    with serving(tmp_path, bundle) as (edge, endpoint):
        with Device(endpoint, bundle) as honest, zmq.Context() as context:
            for number in range(30):
                with context.socket(zmq.DEALER) as rude:
                    rude.linger = 200
                    rude.connect(endpoint)
                    header = wire.PREFIX + draw.bytes(int(draw.integers(0, 60)))
                    rude.send_multipart([header, draw.bytes(100)][: 1 + number % 2])
                    rude.send_multipart([draw.bytes(20)])
                honest.one_answer()
            for _ in range(20):
                with _raw(endpoint) as end:
                    end.sendall(draw.bytes(300))
                honest.one_answer()
            assert edge.process.poll() is None
        assert edge.terminate() == 0
        assert "Traceback" not in edge.errors()


def _raw(endpoint: str) -> socket.socket:
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def test_a_consumer_that_does_not_read_keeps_nobody_waiting(bundle: Bundle, tmp_path: Path) -> None:
    with serving(tmp_path, bundle, settings="window = 1000\n") as (edge, endpoint):
        with (
            Device(endpoint, bundle) as honest,
            zmq.Context() as context,
            context.socket(zmq.DEALER) as deaf,
        ):
            deaf.linger = 0
            deaf.rcvhwm = 1
            deaf.setsockopt(zmq.RCVBUF, 4096)
            deaf.connect(endpoint)
            hello = wire.Hello(session=bytes(16), name="deaf", agent="test")
            deaf.send_multipart(wire.encode(hello))
            tensor, payload = encoded(bundle, "late", crossing(bundle, "late"), "raw")
            for number in range(1, 3000):
                request = wire.Request(
                    id=number,
                    bundle=bundle.digest,
                    cut="late",
                    remaining_ms=60_000,
                    attempt=1,
                    tensors=(tensor,),
                )
                deaf.send_multipart(wire.encode(request, [payload]))
                if number % 100 == 0:
                    honest.one_answer()
        assert edge.terminate() == 0
        assert "Traceback" not in edge.errors()


def test_a_bundle_that_is_replaced_while_it_is_used_finishes_what_it_has(
    bundle: Bundle, newer: Bundle, tmp_path: Path
) -> None:
    folder = tmp_path / "served"
    folder.mkdir()
    bundle.pack(folder / "model.headtail")
    settings = f'watch = "{folder}"\ncache_dir = "{tmp_path / "cache"}"\n'
    with serving(tmp_path, settings=settings) as (_, endpoint), Device(endpoint, bundle) as device:
        device.one_answer()
        newer.pack(folder / "model.headtail")

        def replaced() -> bool:
            last = device.ask()
            device.until(lambda: last in device.ends)
            return isinstance(device.ends[last], Failed)

        wait_until(replaced, "the old version going")
        ends = [device.ends[wanted] for wanted in device.asked]
        assert all(isinstance(event, Answered) for event in ends[:-1])
        assert isinstance(ends[-1], Failed)
        assert ends[-1].code is ErrorCode.UNKNOWN_BUNDLE
        wanted = device.ask(bundle=newer)
        device.until(lambda: wanted in device.ends)
        assert isinstance(device.ends[wanted], Answered)


def test_a_full_disk_refuses_a_pushed_bundle_and_nothing_else(
    bundle: Bundle, newer: Bundle, tmp_path: Path
) -> None:
    """No file of the edge may grow beyond a kilobyte, as if the disk were full."""
    folder = tmp_path / "pushed"
    settings = f'[push]\naccept_from = "everyone"\nfolder = "{folder}"\n'
    packed = newer.pack(tmp_path / "newer.headtail").read_bytes()
    with serving(tmp_path, bundle, settings=settings) as (edge, endpoint):
        resource.prlimit(edge.process.pid, resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
        with Device(endpoint, newer) as pushing, Device(endpoint, bundle, name="other") as other:
            pushing.until(lambda: any(isinstance(e, BundleWanted) for e in pushing.others))
            pushing.port.push_bundle(newer.digest, packed)
            pushing.until(lambda: any(isinstance(e, BundleDeclined) for e in pushing.others))
            (declined,) = [e for e in pushing.others if isinstance(e, BundleDeclined)]
            assert str(folder) in declined.reason
            other.one_answer()
        assert not list(folder.glob("*.part"))
        assert edge.terminate() == 0
        assert "Traceback" not in edge.errors()


def test_an_edge_without_file_descriptors_serves_whom_it_has_and_recovers(
    bundle: Bundle, tmp_path: Path
) -> None:
    with serving(tmp_path, bundle) as (edge, endpoint):
        pid = edge.process.pid
        if not Path(f"/proc/{pid}/fd").exists():
            pytest.skip("open files are counted in /proc")
        with Device(endpoint, bundle) as device:
            device.one_answer()
            used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 3, hard))
            crowd = [_raw(endpoint) for _ in range(20)]
            for _ in range(5):
                device.one_answer()
            for end in crowd:
                end.close()
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 60, hard))
            with Device(endpoint, bundle, name="late") as late:
                late.one_answer()
            device.one_answer()
        assert edge.terminate() == 0
        assert "Traceback" not in edge.errors()


class SteppingClock:
    """A monotonic clock that can be set on: by a machine that slept, or by a fault."""

    def __init__(self, start_s: float) -> None:
        self._real = MonotonicClock()
        self._ahead_s = start_s

    def now(self) -> float:
        return self._real.now() + self._ahead_s

    def step(self, seconds: float) -> None:
        self._ahead_s += seconds


@pytest.mark.parametrize("side", ["device", "edge"])
def test_a_clock_that_steps_ends_what_was_open_and_then_all_is_well(side: str) -> None:
    """The clocks of both sides have nothing in common to begin with."""
    clocks = {"device": SteppingClock(1e6), "edge": SteppingClock(-5.0)}
    digest = bytes(32)
    stop, hold = threading.Event(), threading.Event()
    with ZmqServer("tcp://127.0.0.1:0", name="edge", clock=clocks["edge"]) as server:

        def serve() -> None:
            while not stop.is_set():
                event = server.poll(0.02)
                if isinstance(event, RequestArrived) and not hold.is_set():
                    server.respond(
                        event.session,
                        event.request.id,
                        tensors=[],
                        payloads=[],
                        timings=Timings(),
                        hints=Hints(),
                    )

        thread = threading.Thread(target=serve)
        thread.start()
        with ZmqClient(server.endpoint, name="cam", clock=clocks["device"]) as client:
            ends: dict[int, ClientEvent] = {}

            def ask() -> int:
                wait_until(
                    lambda: client.free_window() > 0 or client.poll(0.02) is not None, "room"
                )
                return client.submit(
                    bundle=digest, cut="late", tensors=[], payloads=[], deadline_s=PATIENCE_S
                )

            def ended(wanted: int) -> bool:
                event = client.poll(0.02)
                if isinstance(event, Answered | Failed | Expired):
                    assert event.id not in ends
                    ends[event.id] = event
                return wanted in ends

            first = ask()
            wait_until(lambda: ended(first), "an answer")
            hold.set()
            open_one = ask()
            client.poll(0.3)
            clocks[side].step(3600.0)
            if side == "edge":
                hold.clear()  # whose session is over, and is asked again in the next
            wait_until(lambda: ended(open_one), "the end of what was open")
            hold.clear()
            wait_until(lambda: client.poll(0.02) is None and client.free_window() > 0, "a session")
            last = ask()
            wait_until(lambda: ended(last), "an answer after the step")
        stop.set()
        thread.join()
    assert isinstance(ends[first], Answered)
    assert isinstance(ends[open_one], Expired if side == "device" else Answered)
    assert isinstance(ends[last], Answered)
