from collections.abc import Iterator
from datetime import date

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st
from zmq.utils import z85

from headtail_fabric import zap
from headtail_fabric.allowlist import Member, Role
from headtail_fabric.errors import LocalError
from headtail_fabric.keys import BadKeyError, CurveMissingError, KeyPair

# The example keys of zmq_curve(7).
CLIENT = KeyPair(
    name="cam-1",
    public="Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID",
    secret="D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs",
)
SERVER_PUBLIC = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
MEMBER = Member(name="cam-1", public=CLIENT.public, role=Role.DEVICE, added=date(2026, 5, 1))


def lookup(public: str) -> Member | None:
    return MEMBER if public == CLIENT.public else None


def request(
    *credentials: bytes,
    version: bytes = b"1.0",
    domain: bytes = b"headtail",
    mechanism: bytes = b"CURVE",
) -> list[bytes]:
    return [version, b"7", domain, b"192.0.2.1", b"", mechanism, *credentials]


def judged(frames: list[bytes]) -> zap.Verdict:
    return zap.judge(frames, domain="headtail", lookup=lookup)


def test_an_enrolled_key_gets_its_name_and_itself_on_every_message() -> None:
    verdict = judged(request(z85.decode(CLIENT.public)))
    metadata = b"\x0eX-Headtail-Key\x00\x00\x00\x28" + CLIENT.public.encode()
    assert verdict.reply == (b"1.0", b"7", b"200", b"OK", b"cam-1", metadata)
    assert verdict.member == MEMBER


KEY = z85.decode(CLIENT.public)


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        (request(z85.decode(SERVER_PUBLIC)), "unknown key"),
        (request(KEY, version=b"2.0"), "unknown ZAP version"),
        (request(KEY, domain=b"other"), "another domain"),
        (request(KEY, domain=b""), "another domain"),
        (request(mechanism=b"NULL"), "not CURVE"),
        (request(b"user", b"password", mechanism=b"PLAIN"), "not CURVE"),
        (request(b"principal", mechanism=b"GSSAPI"), "not CURVE"),
        (request(), "not a key"),
        (request(KEY[:-1]), "not a key"),
        (request(KEY, KEY), "not a key"),
        (request(KEY)[:5], "malformed request"),
        ([], "malformed request"),
    ],
)
def test_all_else_is_refused_in_the_same_words(frames: list[bytes], reason: str) -> None:
    verdict = judged(frames)
    request_id = b"7" if frames else b""
    assert verdict.reply == (b"1.0", request_id, b"400", b"refused", b"", b"")
    assert verdict.member is None
    assert verdict.reason == reason


@given(frames=st.lists(st.binary(max_size=40), max_size=9))
def test_no_request_raises_or_is_accepted_by_accident(frames: list[bytes]) -> None:
    assert judged(frames).member is None


@pytest.mark.parametrize(
    "endpoint",
    [
        "tcp://127.0.0.1:5555",
        "tcp://127.1.2.3:0",
        "tcp://127.0.0.1:*",
        "tcp://localhost:5555",
        "tcp://[::1]:5555",
        "tcp://::1:5555",
        "ipc:///run/headtail/edge.sock",
        "inproc://edge",
    ],
)
def test_without_an_allow_list_this_machine_is_reachable(endpoint: str) -> None:
    zap.check_exposure(endpoint, has_allow_list=False)


@pytest.mark.parametrize(
    "endpoint",
    [
        "tcp://*:5555",
        "tcp://0.0.0.0:5555",
        "tcp://[::]:5555",
        "tcp://:::5555",
        "tcp://lo:5555",
        "tcp://eth0:5555",
        "tcp://edge.example:5555",
        "tcp://localhost.example:5555",
        "tcp://192.168.1.2:5555",
        "tcp://127.1:5555",
        "tcp://0177.0.0.1:5555",
        "tcp://127.0.0.1",
        "tcp://",
        "udp://127.0.0.1:5555",
        "ws://127.0.0.1:5555",
        "127.0.0.1:5555",
        "",
    ],
)
def test_without_an_allow_list_nothing_else_is(endpoint: str) -> None:
    with pytest.raises(zap.ExposedEndpointError, match="no allow-list"):
        zap.check_exposure(endpoint, has_allow_list=False)
    zap.check_exposure(endpoint, has_allow_list=True)


def test_exposure_comes_with_advice() -> None:
    with pytest.raises(zap.ExposedEndpointError) as caught:
        zap.check_exposure("tcp://*:5555", has_allow_list=False)
    assert "headtail keys enrol" in caught.value.advice
    assert caught.value.facts == {"endpoint": "tcp://*:5555"}


@pytest.fixture
def socket() -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        yield socket


def test_a_server_socket_takes_nobody_without_a_handler(socket: zmq.Socket[bytes]) -> None:
    zap.server_curve(socket, CLIENT)
    assert socket.mechanism == zmq.CURVE
    assert socket.curve_server
    assert socket.zap_domain == b"headtail"
    assert socket.getsockopt(zmq.ZAP_ENFORCE_DOMAIN) == 1


def test_a_client_socket_is_none_of_a_server(socket: zmq.Socket[bytes]) -> None:
    zap.client_curve(socket, CLIENT, SERVER_PUBLIC)
    assert socket.mechanism == zmq.CURVE
    assert not socket.curve_server


def test_curve_comes_before_the_first_use(socket: zmq.Socket[bytes]) -> None:
    socket.bind("inproc://edge")
    with pytest.raises(LocalError, match="inproc://edge"):
        zap.server_curve(socket, CLIENT)
    with pytest.raises(LocalError, match="inproc://edge"):
        zap.client_curve(socket, CLIENT, SERVER_PUBLIC)


def test_sockets_refuse_what_would_open_the_door(socket: zmq.Socket[bytes]) -> None:
    with pytest.raises(LocalError, match="domain"):
        zap.server_curve(socket, CLIENT, domain="")
    with pytest.raises(BadKeyError):
        zap.client_curve(socket, CLIENT, "short")
    # libzmq says the same of a bad key and of CURVE that it was built without.
    broken = KeyPair(name="x", public=CLIENT.public, secret="short")
    with pytest.raises(CurveMissingError):
        zap.server_curve(socket, broken)
