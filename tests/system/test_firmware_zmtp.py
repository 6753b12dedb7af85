"""The firmware's ZMTP on real MicroPython against libzmq."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import zmq
import zmq.utils.z85

from micropython_runner import run, start

pytestmark = pytest.mark.system

REFUSED = "RefusedError the server refused this node: 400"


@contextmanager
def answering(router: "zmq.Socket[bytes]") -> Iterator[int]:
    """The ROUTER sends back what it gets, and is closed in the end; gives its port."""
    port = router.bind_to_random_port("tcp://127.0.0.1")
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            if router.poll(50):
                router.send_multipart(router.recv_multipart())
        router.close(0)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield port
    finally:
        done.set()
        thread.join()


@contextmanager
def echo(configure: Callable[["zmq.Socket[bytes]"], None] | None = None) -> Iterator[int]:
    """The port of a ROUTER without authentication that sends back what it gets."""
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    if configure is not None:
        configure(router)
    try:
        with answering(router) as port:
            yield port
    finally:
        context.destroy(0)


@contextmanager
def zap(allowed: set[bytes]) -> Iterator["zmq.Context[zmq.Socket[bytes]]"]:
    """A context whose ZAP (RFC 27) lets in whom `allowed` has: PLAIN passwords or CURVE keys."""
    context = zmq.Context()
    handler = context.socket(zmq.REP)
    handler.bind("inproc://zeromq.zap.01")
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            if handler.poll(50):
                version, request, _, _, _, _, *credentials = handler.recv_multipart()
                known = credentials[-1] in allowed
                status = (b"200", b"OK") if known else (b"400", b"unknown")
                handler.send_multipart([version, request, *status, b"someone", b""])
        handler.close(0)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield context
    finally:
        done.set()
        thread.join()
        context.destroy(0)


def test_null() -> None:
    with echo() as port:
        assert run("zmtp_client.py", port, "null") == "passed\n"


def test_plain_with_the_right_password_and_with_a_wrong_one() -> None:
    with zap({b"secret"}) as context:
        router = context.socket(zmq.ROUTER)
        router.plain_server = True
        with answering(router) as port:
            assert run("zmtp_client.py", port, "plain", "node", "secret") == "passed\n"
            assert REFUSED in run("zmtp_client.py", port, "plain", "node", "guess")


def test_curve_with_a_known_key_and_with_an_unknown_one() -> None:
    server, server_secret = zmq.curve_keypair()
    node, node_secret = zmq.curve_keypair()
    stranger_secret = zmq.curve_keypair()[1]
    with zap({zmq.utils.z85.decode(node)}) as context:
        router = context.socket(zmq.ROUTER)
        router.curve_server = True
        router.curve_secretkey = server_secret
        with answering(router) as port:
            key = zmq.utils.z85.decode(server).hex()
            secrets = [zmq.utils.z85.decode(s).hex() for s in (node_secret, stranger_secret)]
            assert run("zmtp_client.py", port, "curve", key, secrets[0]) == "passed\n"
            assert REFUSED in run("zmtp_client.py", port, "curve", key, secrets[1])


def test_a_mechanism_that_the_server_does_not_have() -> None:
    with echo() as port:
        output = run("zmtp_client.py", port, "plain", "node", "secret")
    # libzmq closes, with or without telling first what it wants.
    assert "mechanism than PLAIN" in output or "wants NULL, this node is set to PLAIN" in output


def test_a_node_that_was_reset_gets_its_identity_back() -> None:
    def configure(router: "zmq.Socket[bytes]") -> None:
        router.router_handover = True

    with echo(configure) as port, start("zmtp_heartbeat.py", port, 0, 60_000) as before:
        assert before.stdout is not None
        assert before.stdout.readline() == "ready\n"
        assert run("zmtp_client.py", port, "null") == "passed\n"  # the same identity
        before.kill()
        before.communicate()


def test_heartbeats_of_both_sides_keep_a_silent_connection() -> None:
    def configure(router: "zmq.Socket[bytes]") -> None:
        router.heartbeat_ivl = 100
        router.heartbeat_timeout = 300

    with echo(configure) as port:
        assert run("zmtp_heartbeat.py", port, 100, 1500) == "ready\ngot None\n"


def test_a_server_that_falls_silent_is_given_up() -> None:
    with silent_server() as port:
        output = run("zmtp_heartbeat.py", port, 100, 20_000)
    assert output.startswith("ready\nlost: no sign of life")


def test_a_server_that_goes_away_is_noticed() -> None:
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    port = router.bind_to_random_port("tcp://127.0.0.1")
    with start("zmtp_heartbeat.py", port, 0, 20_000) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        context.destroy(0)
        output, _ = process.communicate(timeout=60)
    assert output.startswith("lost:")


@contextmanager
def silent_server() -> Iterator[int]:
    """Greets and shakes hands as a ROUTER does, and says nothing more."""
    listener = socket.create_server(("127.0.0.1", 0))
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48)
    ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER"

    def work() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(greeting + bytes((4, len(ready))) + ready)
            while connection.recv(1000):
                pass

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join()
        listener.close()
