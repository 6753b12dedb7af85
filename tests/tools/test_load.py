import os
from pathlib import Path

import numpy as np
import pytest

from edge_doubles import crossing, encoded
from headtail.load.bare import bare_loop
from headtail.load.closed_loop import Answer
from headtail.load.device_dialogue import DeviceDialogue
from headtail.load.http_dialogue import HttpDialogue
from headtail.load.payload import Payload
from headtail.load.rivals.tail import CODEC, Tail, best_class
from headtail.load.served import served
from headtail.load.usage import usage
from headtail_fabric import wire
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    write_specimen(tmp_path / "bundle")
    return open_bundle(tmp_path / "bundle")


def payload(bundle: Bundle) -> Payload:
    cut = bundle.manifest.default_cut
    info, buffer = encoded(bundle, cut, crossing(bundle, cut), CODEC)
    return Payload(digest=bundle.digest, cut=cut, tensors=(info,), buffers=(buffer,))


def test_a_rival_computes_what_the_edge_computes(bundle: Bundle) -> None:
    sent = payload(bundle)
    decoded = sent.tensor(bundle)
    rival = Tail(bundle.path, sent.cut)
    np.testing.assert_array_equal(rival.decode(bytes(sent.buffers[0])), decoded)
    entry = bundle.tail(sent.cut)
    ours = bundle.open_stage(entry).run({bundle.cut(sent.cut).tensor.name: decoded})
    np.testing.assert_array_equal(rival.infer(decoded), next(iter(ours.values())))


def test_the_best_class_is_the_largest_score() -> None:
    assert best_class(np.array([0.25, 0.5, 0.125])) == {"class": 1, "score": 0.5}


def test_the_bare_loop_counts_every_request_of_a_batch(bundle: Bundle) -> None:
    bare = bare_loop(bundle, payload(bundle), batch=2, workers=1, seconds=0.05)
    assert bare.rate > 0
    assert bare.cpu_ms > 0


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nserver: s\r\nContent-Length: 4\r\n\r\nyes!",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nyes!\r\n0\r\n\r\n",
    ],
)
def test_an_http_answer_counts_when_it_is_whole(answer: bytes) -> None:
    dialogue = HttpDialogue(path="/predict", body=b"frame", headers={"Content-Type": "a/b"})
    number, sent = dialogue.ask()
    head, _, body = sent.partition(b"\r\n\r\n")
    assert head.splitlines()[0] == b"POST /predict HTTP/1.1"
    assert b"Content-Length: 5" in head
    assert b"Content-Type: a/b" in head
    assert body == b"frame"
    for at in range(len(answer) - 1):
        assert dialogue.hear(answer[at : at + 1]) == ([], b"")
    assert dialogue.hear(answer[-1:]) == ([Answer(number)], b"")
    assert dialogue.hear(answer) == ([Answer(number)], b"")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n",
    ],
)
def test_anything_but_an_answer_ends_the_benchmark(answer: bytes) -> None:
    dialogue = HttpDialogue(path="/", body=b"", headers={})
    with pytest.raises(RuntimeError, match="the server answered"):
        dialogue.hear(answer)


def _zmtp(*frames: bytes) -> bytes:
    """A message of short frames."""
    last = len(frames) - 1
    return b"".join(bytes((n < last, len(f))) + f for n, f in enumerate(frames))


def test_a_device_says_hello_asks_and_is_answered(bundle: Bundle) -> None:
    dialogue = DeviceDialogue(payload(bundle))
    greeting = dialogue.open()
    assert len(greeting) == 64
    offer = wire.Offer(
        session=bytes(16), boot=bytes(16), name="e", agent="e", bundles=(), window=1,
        heartbeat_ms=1000,
    )  # fmt: skip
    said = b""
    for part in (greeting + b"\x04\x06\x05READY", _zmtp(*map(bytes, wire.encode(offer)))):
        for at in range(len(part)):
            assert not dialogue.is_open
            said += dialogue.hear(part[at : at + 1])[1]
    assert dialogue.is_open
    ready = b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER"
    assert said.startswith(bytes((4, len(ready))) + ready)
    assert isinstance(wire.decode([said[len(ready) + 4 :]])[0], wire.Hello)
    number, asked = dialogue.ask()
    assert asked.endswith(bytes(payload(bundle).buffers[0]))
    result = wire.Result(id=number, tensors=(), timings=wire.Timings(), hints=wire.Hints(batch=7))
    ping = b"\x04\x09\x04PING\0\x01xy"
    assert dialogue.hear(ping + _zmtp(*map(bytes, wire.encode(result)))) == (
        [Answer(number, 7)],
        b"\x04\x07\x04PONGxy",
    )
    assert dialogue.beat() == _zmtp(*map(bytes, wire.encode(wire.Ping(nonce=1))))
    pong = wire.Pong(nonce=1, hints=wire.Hints())
    assert dialogue.hear(_zmtp(*map(bytes, wire.encode(pong)))) == ([], b"")
    failed = wire.ErrorReply(id=number, code=wire.ErrorCode.INTERNAL, message="no")
    with pytest.raises(RuntimeError, match="an answer was expected"):
        dialogue.hear(_zmtp(*map(bytes, wire.encode(failed))))


def test_percentiles_are_of_the_latencies() -> None:
    run = served([n / 1000 for n in range(1, 101)], seconds=2.0, batch=3.0)
    assert (run.rate, run.batch) == (50.0, 3.0)
    assert run.p50_ms == pytest.approx(50.5)
    assert run.p99_ms == pytest.approx(99.01)


def test_a_run_without_answers_is_an_error() -> None:
    with pytest.raises(ValueError, match="not one"):
        served([], seconds=1.0)


def test_the_kernel_tells_what_this_process_took() -> None:
    before = usage(os.getpid())
    sum(n * n for n in range(2_000_000))
    after = usage(os.getpid())
    assert after.cpu_s > before.cpu_s
    assert after.memory_mb > 1
    assert after.processes >= 1
