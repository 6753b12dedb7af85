"""The emulator with real sockets. Times are bounded from below only: a slow machine can't break
that, and an emulator that lets bytes through too fast can't keep it."""

import os
import random
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from headtail_fabric.emulator import LinkProxy, parse_link
from headtail_fabric.emulator.connection import WINDOW_BYTES
from headtail_fabric.peer.errors import BindError
from processes import PATIENCE_S, wait_until

pytestmark = pytest.mark.system

Handler = Callable[[socket.socket], None]

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Target:
    """Serves each connection in a thread of its own, until the test ends."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._threads: list[threading.Thread] = []
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.endpoint = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    def _start(self, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:
                return  # closed
            end.settimeout(PATIENCE_S)
            self._ends.append(end)
            self._start(self._serve, end)

    def _serve(self, end: socket.socket) -> None:
        with end:
            try:
                self._handler(end)
            except OSError:
                return  # the connection was cut, as some tests do

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # closed already
        for thread in self._threads:
            thread.join(PATIENCE_S)


@pytest.fixture
def serve() -> Iterator[Callable[[Handler], Target]]:
    with ExitStack() as opened:

        def make(handler: Handler) -> Target:
            target = Target(handler)
            opened.callback(target.close)
            return target

        yield make


def echo(end: socket.socket) -> None:
    while data := end.recv(65_536):
        end.sendall(data)


def swallow(end: socket.socket) -> None:
    """Read to the end, then say how much it was."""
    size = 0
    while data := end.recv(65_536):
        size += len(data)
    end.sendall(size.to_bytes(8, "big"))


def connect(proxy: LinkProxy) -> socket.socket:
    host, _, port = proxy.endpoint.removeprefix("tcp://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def read_all(end: socket.socket) -> bytes:
    parts = []
    while part := end.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def read_exactly(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = end.recv(size - len(data))
        assert part, "ended early"
        data += part
    return data


def send_until_blocked(end: socket.socket) -> int:
    """Send until nothing has been taken for half a second; how much was."""
    end.settimeout(0.5)
    size = 0
    while size < 64 * 2**20:
        try:
            size += end.send(bytes(65_536))
        except TimeoutError:
            break
    end.settimeout(PATIENCE_S)
    return size


Serve = Callable[[Handler], Target]


def test_bytes_pass_unchanged_both_ways_through_a_bad_link(serve: Serve) -> None:
    sent = random.Random(1).randbytes(300_000)
    link = parse_link("rate=20mbit rtt=10ms jitter=5ms loss=2%")
    with LinkProxy(link, target=serve(echo).endpoint, seed=3) as proxy, connect(proxy) as end:

        def write() -> None:
            end.sendall(sent)
            end.shutdown(socket.SHUT_WR)

        writer = threading.Thread(target=write)
        writer.start()
        assert read_all(end) == sent
        writer.join()
        wait_until(lambda: proxy.tally().bytes_down == len(sent), "the tally")
        tally = proxy.tally()
    assert (tally.connections, tally.bytes_up) == (1, len(sent))
    assert tally.stalls > 0


@pytest.mark.parametrize(("rate_mbit_s", "size"), [(0.5, 40_000), (4, 400_000), (40, 4_000_000)])
def test_a_known_transfer_takes_no_less_than_the_rate_allows(
    serve: Serve, rate_mbit_s: float, size: int
) -> None:
    target = serve(swallow)
    link = parse_link(f"rate={rate_mbit_s}mbit")
    with LinkProxy(link, target=target.endpoint) as proxy, connect(proxy) as end:
        began = time.monotonic()
        end.sendall(bytes(size))
        end.shutdown(socket.SHUT_WR)
        assert int.from_bytes(read_exactly(end, 8), "big") == size
        took_s = time.monotonic() - began
    assert took_s >= 0.9 * size * 8 / (rate_mbit_s * 1e6)


def test_the_way_down_has_its_own_rate(serve: Serve) -> None:
    size = 200_000
    target = serve(lambda end: end.sendall(bytes(size)))
    link = parse_link("up=50mbit down=2mbit")
    with LinkProxy(link, target=target.endpoint) as proxy, connect(proxy) as end:
        began = time.monotonic()
        assert len(read_all(end)) == size
        took_s = time.monotonic() - began
    assert took_s >= 0.9 * size * 8 / 2e6


def test_a_round_trip_takes_no_less_than_the_propagation(serve: Serve) -> None:
    with (
        LinkProxy(parse_link("rtt=80ms"), target=serve(echo).endpoint) as proxy,
        connect(proxy) as end,
    ):
        for number in range(3):
            began = time.monotonic()
            end.sendall(b"ping")
            assert read_exactly(end, 4) == b"ping"
            # The first one waits for the connection to be made, too.
            assert time.monotonic() - began >= (0.16 if number == 0 else 0.08)


def test_connections_share_the_rate_fairly(serve: Serve) -> None:
    count, size = 4, 100_000
    target = serve(swallow)
    ended: list[float] = []
    with LinkProxy(parse_link("rate=4mbit"), target=target.endpoint) as proxy:

        def send() -> None:
            with connect(proxy) as end:
                end.sendall(bytes(size))
                end.shutdown(socket.SHUT_WR)
                assert int.from_bytes(read_exactly(end, 8), "big") == size
                ended.append(time.monotonic())

        began = time.monotonic()
        threads = [threading.Thread(target=send) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_until(lambda: proxy.tally().bytes_down == 8 * count, "the tally")
        assert proxy.tally().bytes_up == count * size
    assert len(ended) == count
    assert max(ended) - began >= 0.9 * count * size * 8 / 4e6
    # Nobody had the link to itself, or it would have ended after a quarter of that.
    assert min(ended) - began >= 0.5 * count * size * 8 / 4e6


def test_a_slow_link_pushes_back_on_its_sender(serve: Serve) -> None:
    with (
        LinkProxy(parse_link("rate=100kbit"), target=serve(swallow).endpoint) as proxy,
        connect(proxy) as end,
    ):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        size = send_until_blocked(end)
    assert size < 4 * 2**20


def test_a_receiver_that_does_not_read_stops_its_own_sender_and_nobody_else(serve: Serve) -> None:
    go_on = threading.Event()
    kinds = iter([True, False])

    def handler(end: socket.socket) -> None:
        if next(kinds):
            go_on.wait(PATIENCE_S)
            swallow(end)
        else:
            echo(end)

    with (
        LinkProxy(parse_link("rtt=1ms"), target=serve(handler).endpoint) as proxy,
        connect(proxy) as stuck,
    ):
        sent = send_until_blocked(stuck)
        assert sent < WINDOW_BYTES + 16 * 2**20  # the window, and buffers of the kernel
        with connect(proxy) as other:
            other.sendall(b"ping")
            assert read_exactly(other, 4) == b"ping"
        go_on.set()
        stuck.shutdown(socket.SHUT_WR)
        assert int.from_bytes(read_exactly(stuck, 8), "big") == sent


def test_an_end_in_one_direction_leaves_the_other_open(serve: Serve) -> None:
    with (
        LinkProxy(parse_link("rtt=10ms"), target=serve(swallow).endpoint) as proxy,
        connect(proxy) as end,
    ):
        end.sendall(b"all I have to say")
        end.shutdown(socket.SHUT_WR)
        assert read_all(end) == (17).to_bytes(8, "big")


def test_a_reset_arrives_at_the_other_side(serve: Serve) -> None:
    seen = threading.Event()

    def handler(end: socket.socket) -> None:
        end.sendall(b"hello")
        try:
            end.recv(1)
        except ConnectionResetError:
            seen.set()

    with LinkProxy(parse_link("rtt=10ms"), target=serve(handler).endpoint) as proxy:
        with connect(proxy) as end:
            assert read_exactly(end, 5) == b"hello"
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        assert seen.wait(PATIENCE_S)


def test_a_target_that_is_not_there_resets_the_connection() -> None:
    with socket.socket() as reserved, ExitStack() as stack:
        reserved.bind(("127.0.0.1", 0))  # and never listens
        target = f"tcp://127.0.0.1:{reserved.getsockname()[1]}"
        proxy = stack.enter_context(LinkProxy(parse_link("rtt=10ms"), target=target))
        end = stack.enter_context(connect(proxy))
        with pytest.raises(ConnectionResetError):
            end.recv(1)


def is_refused(proxy: LinkProxy) -> bool:
    try:
        with connect(proxy):
            return False
    except ConnectionRefusedError:
        return True


def test_a_cut_resets_what_is_open_and_refuses_what_is_new(serve: Serve) -> None:
    target = serve(echo)
    link = parse_link("2s rtt=1ms; 600s outage/cut")
    with LinkProxy(link, target=target.endpoint) as proxy, connect(proxy) as end:
        end.sendall(b"ping")
        assert read_exactly(end, 4) == b"ping"
        with pytest.raises(ConnectionResetError):
            end.recv(1)
        assert is_refused(proxy)
        assert proxy.tally().connections == 1


def test_after_an_outage_the_same_port_takes_connections_again(serve: Serve) -> None:
    target = serve(echo)
    link = parse_link("0.5s outage/cut; 600s rtt=1ms")
    with LinkProxy(link, target=target.endpoint) as proxy:
        wait_until(lambda: not is_refused(proxy), "the end of the outage")
        with connect(proxy) as end:
            end.sendall(b"ping")
            assert read_exactly(end, 4) == b"ping"


def test_a_stall_holds_what_is_open_and_refuses_what_is_new(serve: Serve) -> None:
    target = serve(echo)
    link = parse_link("2s rtt=1ms; 2s outage/stall; 600s rtt=1ms")
    began = time.monotonic()
    with LinkProxy(link, target=target.endpoint) as proxy, connect(proxy) as end:
        end.sendall(b"ping")
        assert read_exactly(end, 4) == b"ping"
        wait_until(lambda: is_refused(proxy), "the outage")
        end.sendall(b"after")
        assert read_exactly(end, 5) == b"after"
        assert time.monotonic() - began >= 3.9


def test_many_connections_come_and_go(serve: Serve) -> None:
    with LinkProxy(parse_link("rtt=2ms"), target=serve(echo).endpoint) as proxy:
        with ExitStack() as opened:
            ends = [opened.enter_context(connect(proxy)) for _ in range(150)]
            for number, end in enumerate(ends[:100]):
                end.sendall(bytes([number]))
            for number, end in enumerate(ends[:100]):
                assert read_exactly(end, 1) == bytes([number])
                end.close()  # makes a place for those beyond the limit
            for end in ends[100:]:
                end.sendall(b"z")
                assert read_exactly(end, 1) == b"z"
        assert proxy.tally().connections == 150


@pytest.mark.parametrize(
    "link",
    [
        "rate=20mbit rtt=4ms jitter=2ms loss=5%",
        "0.4s rate=20mbit rtt=4ms; 0.1s outage/stall; repeat",
        "0.4s rate=20mbit rtt=4ms; 0.1s outage/cut; repeat",
    ],
)
def test_rude_clients_leave_no_connection_behind(serve: Serve, link: str) -> None:
    target = serve(echo)

    def be_rude(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(12):
            try:
                with connect(proxy) as end:
                    if chance.random() < 0.8:
                        end.sendall(bytes(chance.randrange(1, 60_000)))
                        end.recv(chance.randrange(1, 20_000))
                    if chance.random() < 0.3:
                        end.shutdown(socket.SHUT_WR)
                    if chance.random() < 0.5:
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            except ConnectionError:
                time.sleep(0.02)  # an outage

    with LinkProxy(parse_link(link), target=target.endpoint) as proxy:
        threads = [threading.Thread(target=be_rude, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert proxy.tally().connections > 8
        wait_until(lambda: proxy.tally().open == 0, "the end of all connections")


def test_connections_that_there_are_no_files_for_are_taken_later(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    target = serve(echo)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with LinkProxy(parse_link("rtt=1ms"), target=target.endpoint) as proxy, socket.socket() as end:
        end.settimeout(PATIENCE_S)
        next_file = os.dup(end.fileno())
        os.close(next_file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (next_file, limits[1]))
        try:
            end.connect(("127.0.0.1", int(proxy.endpoint.rpartition(":")[2])))
            end.sendall(b"ping")
            wait_until(lambda: "connection not taken yet" in caplog.text, "the refusal")
            assert proxy.tally().connections == 0
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert read_exactly(end, 4) == b"ping"


def test_closing_it_resets_what_is_open_and_leaves_nothing_behind(serve: Serve) -> None:
    target = serve(echo)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - not a path but a count
    proxy = LinkProxy(parse_link("rtt=1ms"), target=target.endpoint)
    assert proxy.endpoint in repr(proxy)
    with connect(proxy) as end:
        end.sendall(b"ping")
        assert read_exactly(end, 4) == b"ping"
        proxy.close()
        with pytest.raises(ConnectionResetError):
            end.recv(1)
    proxy.close()
    assert is_refused(proxy)
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before, "closed files")  # noqa: PTH208


def test_a_port_in_use_is_a_known_error(serve: Serve) -> None:
    target = serve(echo)
    with pytest.raises(BindError, match="can't listen"):
        LinkProxy(parse_link("lan"), target=target.endpoint, listen=target.endpoint)
