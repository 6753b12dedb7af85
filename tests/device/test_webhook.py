"""Lines to another program: what waits, what is tried again, what is given up."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from headtail_device.delivery import Finished
from headtail_device.ledger import Outcome
from headtail_device.record import FrameRecord
from headtail_device.sink import RemoteSink, SinkError
from headtail_device.sink.http_post import BadWebhookError, HttpPost
from headtail_device.sink.line import FrameLines
from headtail_device.sink.outbox import Outbox
from headtail_device.sink.remote import NotCarriedError, Refusal
from headtail_fabric.clock import FakeClock


class TestOutbox:
    def test_lines_go_in_order_and_in_batches(self) -> None:
        box = Outbox(limit=1000)
        for number in range(150):
            box.add(b"%d" % number)
        first = box.next(0.0)
        assert first == [b"%d" % number for number in range(100)]
        assert box.next(0.0) is None
        box.delivered()
        assert box.next(0.0) == [b"%d" % number for number in range(100, 150)]
        box.delivered()
        assert repr(box) == "<Outbox waiting=0 sent=150 lost=0>"
        assert box.due_in_s(0.0) is None

    def test_what_fails_is_tried_again_later_each_time(self) -> None:
        box = Outbox(limit=10)
        box.add(b"a")
        now, waits = 0.0, []
        for _ in range(8):
            assert box.next(now) == [b"a"]
            box.failed(now)
            wait_s = box.due_in_s(now)
            assert wait_s is not None
            waits.append(wait_s)
            now += wait_s
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60]

    def test_the_server_may_ask_for_more_time_but_not_for_ever(self) -> None:
        box = Outbox(limit=10)
        box.add(b"a")
        box.next(0.0)
        box.failed(0.0, retry_after_s=30.0)
        assert box.due_in_s(0.0) == 30.0
        box.next(30.0)
        box.failed(30.0, retry_after_s=1e9)
        assert box.due_in_s(30.0) == 60.0

    def test_the_oldest_gives_way_but_not_what_is_under_way(self) -> None:
        box = Outbox(limit=3)
        box.add(b"a")
        assert box.next(0.0) == [b"a"]
        for line in (b"b", b"c", b"d"):
            box.add(line)
        assert (len(box), box.lost) == (3, 1)
        box.delivered()
        assert box.next(0.0) == [b"c", b"d"]

    def test_the_newest_always_finds_a_place(self) -> None:
        box = Outbox(limit=1)
        box.add(b"a")
        box.next(0.0)
        box.add(b"b")
        box.refused()
        assert box.next(0.0) == [b"b"]
        assert box.lost == 1


class ScriptedCarrier:
    """Answers by script, then takes everything."""

    name = "http://test"

    def __init__(self, *script: Refusal | NotCarriedError) -> None:
        self._script = list(script)
        self.carried: list[bytes] = []
        self.closed = False

    def carry(self, lines: Sequence[bytes]) -> Refusal | None:
        self.carried += lines
        said = self._script.pop(0) if self._script else None
        if isinstance(said, NotCarriedError):
            raise said
        return said

    def close(self) -> None:
        self.closed = True


def sink(carrier: ScriptedCarrier, *, drain_s: float = 5.0) -> RemoteSink:
    lines = FrameLines(started_at=0.0, started=datetime(2026, 1, 1, tzinfo=UTC))
    return RemoteSink(carrier, lines=lines, clock=FakeClock(), limit=100, drain_s=drain_s)


def finished(index: int) -> Finished:
    record = FrameRecord(index=index, origin="test", outcome=Outcome.DROPPED)
    return Finished(record=record, picture=None)


def test_every_line_is_carried_before_the_end() -> None:
    carrier = ScriptedCarrier()
    hook = sink(carrier)
    for index in range(5):
        hook.write(finished(index))
    hook.close()
    assert [json.loads(line)["frame"] for line in carrier.carried] == list(range(5))
    assert carrier.closed
    assert hook.path == "http://test"


@pytest.mark.parametrize(
    "trouble",
    [
        Refusal(reason="status 503", temporary=True),
        Refusal(reason="status 429", temporary=True, retry_after_s=2.0),
        NotCarriedError("no"),
    ],
)
def test_at_the_end_what_was_not_taken_is_told(
    trouble: Refusal | NotCarriedError, caplog: pytest.LogCaptureFixture
) -> None:
    carrier = ScriptedCarrier(*[trouble] * 10)
    hook = sink(carrier, drain_s=0.5)  # no second try, which would wait for a second
    hook.write(finished(0))
    with pytest.raises(SinkError, match="1 of 1 lines were not taken"):
        hook.close()
    assert "lines wait" in caplog.text


def test_what_is_refused_for_good_is_not_tried_again() -> None:
    carrier = ScriptedCarrier(Refusal(reason="status 400", temporary=False))
    hook = sink(carrier)
    hook.write(finished(0))
    with pytest.raises(SinkError, match="were not taken"):
        hook.close()
    assert len(carrier.carried) == 1


@pytest.mark.parametrize(
    "address",
    ["ftp://a/b", "example.org", "http://", "http://a:99999/", "http://a/b c", "http://ü/"],
)
def test_an_address_that_is_none_is_an_error(address: str) -> None:
    with pytest.raises(BadWebhookError):
        HttpPost(address)


def test_an_address_may_hold_secrets_that_are_not_told() -> None:
    assert HttpPost("https://user:pw@example.org:8443/T0/secret?key=1").name == (
        "https://example.org:8443"
    )
    assert HttpPost("http://example.org").name == "http://example.org"
