"""Facts from a device's lines, and what is checked of a report."""

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headtail.description.client import BadUrlError, NoReportError, chat
from headtail.description.facts import BadLinesError, facts_of
from headtail.description.wording import invented, messages


def line(frame: int, *labels: str, **more: Any) -> bytes:
    boxes = [{"label": label, "class_id": 0, "score": 0.9, "box": [0, 0, 1, 1]} for label in labels]
    answer = {"task": "detect", "boxes": boxes}
    content = {"frame": frame, "outcome": "edge", "captured_s": 10 + frame / 2, "answer": answer}
    return json.dumps({**content, **more}).encode()


LINES = [
    line(0, "car"),
    line(1, "car", "person", "person"),
    b"\n",
    line(2),
    line(3, answer=None, outcome="dropped"),
    line(4, "person"),
]


def test_frames_and_labels_are_counted() -> None:
    facts = facts_of(LINES)
    assert (facts.frames, facts.answered, facts.seconds) == (5, 4, 2.0)
    assert [(s.label, s.frames, s.most, s.first_s, s.last_s) for s in facts.sightings] == [
        ("car", 2, 1, 0.0, 0.5),
        ("person", 2, 2, 0.5, 2.0),
    ]
    assert facts.sentences() == [
        "The camera took 5 frames over 2 seconds.",
        "1 of them have no answer.",
        "car: in 2 frames, at most 1 at a time, from second 0 to second 0.",
        "person: in 2 frames, at most 2 at a time, from second 0 to second 2.",
    ]


def test_classes_and_sounds_count_by_the_likeliest() -> None:
    top = {"task": "classify", "top": [{"label": "cat"}, {"label": "dog"}]}
    tags = {"task": "tag", "tags": [{"label": "Siren"}]}
    facts = facts_of([line(0, answer=top), line(1, answer=tags, captured_s=None)])
    assert [seen.label for seen in facts.sightings] == ["Siren", "cat"]
    assert facts.sightings[0].first_s is None


def test_nothing_is_a_fact_too() -> None:
    assert facts_of([]).sentences() == [
        "The camera took 0 frames.",
        "Nothing was recognised.",
    ]


def test_rare_labels_share_a_line() -> None:
    facts = facts_of([line(at, *(f"l{n}" for n in range(9))) for at in range(2)])
    assert facts.sentences()[-1] == "3 other kinds were seen more rarely."


@pytest.mark.parametrize(
    "bad",
    [
        b"{",
        b"[]",
        b'{"frame": -1, "outcome": "edge"}',
        b"\xff\xff",
        line(0, answer={"boxes": [{}]}),
        line(0, answer={"boxes": [3]}),
        line(0, answer={"top": 5}),
    ],
)
def test_a_line_that_is_none_is_named(bad: bytes) -> None:
    with pytest.raises(BadLinesError, match="line 2"):
        facts_of([line(0), bad])


def test_numbers_that_nobody_gave_are_found() -> None:
    facts = facts_of(LINES)
    report = "In 5 frames over two seconds, three cars and 12 dogs and 12 cats were seen."
    assert invented(report, facts) == ["3", "12"]
    (asked,) = messages(facts)
    assert "for 2 seconds: up to 1 car, up to 2 person." in asked["content"]


class _Server(http.server.BaseHTTPRequestHandler):
    """Busy once, then answers with what it was asked."""

    asked: list[Any]
    replies: list[tuple[int, bytes]]

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        self.asked.append((self.path, self.headers["Authorization"], self.rfile.read(size)))
        status, body = self.replies.pop(0)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status == 503:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, type[_Server]]]:
    handler = type("Handler", (_Server,), {"asked": [], "replies": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}", handler
        serving.shutdown()
        thread.join()


def say(url: str) -> str:
    return chat(url, model="m", messages=[{"role": "user", "content": "x"}], max_tokens=5, key="k")


@pytest.mark.system
def test_a_busy_server_is_asked_again(server: tuple[str, type[_Server]]) -> None:
    url, handler = server
    good = b'{"choices": [{"message": {"content": " All quiet. "}}]}'
    handler.replies[:] = [(503, b"loading"), (200, good), (200, good)]
    assert say(url) == say(f"{url}/v1/") == "All quiet."
    assert {path for path, _, _ in handler.asked} == {"/v1/chat/completions"}
    assert handler.asked[0][1] == "Bearer k"
    assert json.loads(handler.asked[0][2])["temperature"] == 0


@pytest.mark.system
@pytest.mark.parametrize("reply", [(404, b"{}"), (200, b"{}"), (200, b"<html>")])
def test_an_answer_that_is_none_is_said(
    server: tuple[str, type[_Server]], reply: tuple[int, bytes]
) -> None:
    url, handler = server
    handler.replies[:] = [reply]
    with pytest.raises(NoReportError):
        say(url)


def test_addresses_are_checked() -> None:
    with pytest.raises(BadUrlError):
        say("localhost:8080")
    with pytest.raises(NoReportError):
        say("http://127.0.0.1:1")
