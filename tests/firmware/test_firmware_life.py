"""The parts of a node's life that know no clock: duty, back-off, checkpoints, crashes, talk."""

import importlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

duty = importlib.import_module("headtail_mcu.duty")
backoff = importlib.import_module("headtail_mcu.backoff")
checkpoints = importlib.import_module("headtail_mcu.checkpoints")
crashes = importlib.import_module("headtail_mcu.crashes")
clock = importlib.import_module("headtail_mcu.clock")
talk = importlib.import_module("headtail_mcu.talk")
errors = importlib.import_module("headtail_mcu.errors")
gateway = importlib.import_module("headtail_edge.gateway.messages")


def half(n: int) -> bytes:
    return b"\x80" + bytes(n - 1)


def new_duty(kept: bytes = b"", now: int = 0) -> Any:
    return duty.Duty(1000, 10_000, 4, backoff.Backoff(2000, 60_000, half), now, kept)


def test_a_duty_samples_in_rhythm_and_reports_when_it_is_time() -> None:
    found = new_duty()
    assert found.due(0, 0) == (duty.SAMPLE, 0)
    found.sampled(0)
    assert found.due(0, 1) == (duty.CONNECT, 0)
    found.reported(0)
    assert found.due(300, 0) == (duty.WAIT, 700)
    found.sampled(1100)
    assert found.due(1100, 1) == (duty.WAIT, 900)  # the rhythm is kept
    assert found.due(1100, 4) == (duty.CONNECT, 0)  # a batch is full
    found.urgent()
    assert found.due(1100, 1) == (duty.CONNECT, 0)
    found.reported(1200)
    assert found.due(1200, 1) == (duty.WAIT, 800)
    found.sampled(50_000)  # long overdue: no burst to catch up
    assert found.due(50_000, 0) == (duty.CONNECT, 0)
    found.reported(50_000)
    assert found.due(50_000, 0) == (duty.WAIT, 1000)


def test_failures_are_waited_out() -> None:
    found = new_duty()
    found.sampled(0)
    assert found.failed(0) == 1000
    assert not found.may_connect(999)
    assert found.due(0, 1) == (duty.WAIT, 1000)
    found.sampled(1000)
    assert found.due(1000, 1) == (duty.CONNECT, 0)
    assert found.failed(1000) == 2000
    assert found.failures == 2
    assert found.failed(3000, refused=True) == 30_000
    found.reported(40_000)
    assert found.failures == 0


def test_a_duty_goes_on_after_deep_sleep() -> None:
    found = new_duty()
    found.sampled(0)
    found.reported(0)
    kept = found.pack(200, 500)
    again = new_duty(kept, now=50)
    assert again.due(50, 0) == (duty.WAIT, 300)
    assert again.silence_ms(50) == 9300
    found.failed(200)
    assert new_duty(found.pack(200, 500)).failures == 1
    assert new_duty(b"nonsense").due(0, 0) == (duty.SAMPLE, 0)


@given(st.integers(0, 300), st.binary(min_size=2, max_size=2))
def test_back_off_stays_within_its_bounds(failures: int, drawn: bytes) -> None:
    found = backoff.Backoff(2000, 60_000, lambda n: drawn, min(failures, 255))
    assert 500 <= found.failed() <= 60_000


def test_back_offs_of_many_nodes_spread() -> None:
    waits = {
        backoff.Backoff(2000, 60_000, lambda n, i=i: bytes((i, 0)), 3).failed() for i in range(256)
    }
    assert len(waits) > 200
    assert max(waits) - min(waits) > 10_000


def test_the_watchdog_is_fed_only_while_all_parts_move() -> None:
    found = checkpoints.Checkpoints({"sample": 100, "link": 500}, 0)
    assert found.stuck(100) is None
    assert found.stuck(101) == "sample"
    found.passed("sample", 400)
    assert found.stuck(450) is None
    assert found.stuck(501) in ("sample", "link")
    found.passed("sample", 520)
    assert found.stuck(520) == "link"


def test_three_crashes_in_a_row_are_safe_mode(tmp_path: Path) -> None:
    path = str(tmp_path / "crashes.bin")
    for start in range(3):
        found = crashes.Crashes(path)
        assert (found.count, found.safe) == (start, False)
        found.started("watchdog" if start else "power-on")
    assert crashes.Crashes(path).safe
    found = crashes.Crashes(path)
    found.last_chance()
    found = crashes.Crashes(path)
    assert not found.safe
    found.started("reset")
    assert crashes.Crashes(path).safe
    found.healthy()
    assert crashes.Crashes(path).count == 0


def test_wakes_are_no_starts_but_crash_like_them(tmp_path: Path) -> None:
    path = str(tmp_path / "crashes.bin")
    for _ in range(5):
        crashes.Crashes(path).started("deep-sleep")
    assert crashes.Crashes(path).count == 0
    for count in (1, 2, 3):
        found = crashes.Crashes(path)
        found.started("deep-sleep")
        found.crashed("MemoryError: " + "x" * 300)
        assert crashes.Crashes(path).count == count
    assert crashes.Crashes(path).text == ("MemoryError: " + "x" * 300)[:100]
    found = crashes.Crashes(path)
    found.started("reset")
    found.crashed("again")
    assert crashes.Crashes(path).count == 4


def test_the_day_is_known_after_deep_sleep() -> None:
    day = clock.DayClock(0)
    assert day.seconds(5000) == 0
    day.set(1_800_000_000, 500, 1000)
    assert day.seconds(2600) == 1_800_000_002
    later = clock.DayClock(40, day.pack(2000, 60_000))
    assert later.seconds(40) == 1_800_000_061
    assert clock.DayClock(40, clock.DayClock(0).pack(1, 2)).seconds(40) == 0


class FakeLog:
    """Records by number; those that are missing can't be read any more."""

    def __init__(self, *sequences: int, acked: int = 0, newest: int | None = None) -> None:
        self.records = {n: (n, 1000 + n, b"payload%d" % n) for n in sequences}
        self.acked = acked
        self.newest = newest or max(sequences, default=0)

    def unacknowledged(self, limit: int, after: int = 0) -> list[Any]:
        found = [self.records[n] for n in sorted(self.records) if n > max(after, self.acked)]
        return found[:limit]


BOOT = 9
HELLO = ((0, 1, 0), 0xABCD, 1, 77, "power-on")


def new_talk(log: FakeLog) -> Any:
    return talk.Talk(BOOT, log, HELLO, "door-1", 0, retry_ms=1000)


def said(found: Any, now: int) -> list[Any]:
    """What goes out now, as the gateway reads it."""
    return [gateway.decode(bytes(data)) for data in iter(lambda: found.to_send(now), None)]


def greeted(log: FakeLog) -> Any:
    found = new_talk(log)
    (hello,) = said(found, 0)
    assert (hello.name, hello.acked, hello.log) == ("door-1", log.acked, 77)
    assert said(found, 0) == []
    assert found.receive(gateway.welcome(BOOT, 1.5), 0) == (129, [1, 500])
    return found


def test_records_go_out_a_few_at_once() -> None:
    found = greeted(FakeLog(3, 4, 6, 7, 8, acked=2))
    first = said(found, 0)
    assert [(r.sequence, r.previous) for r in first] == [(3, 2), (4, 3), (6, 4)]
    assert not found.idle
    found.receive(gateway.ack(BOOT, 6), 1)
    assert [(r.sequence, r.previous) for r in said(found, 1)] == [(7, 6), (8, 7)]
    found.receive(gateway.ack(BOOT, 99), 2)  # impossible: of another log, or a lie
    assert found.acked == 6
    found.receive(gateway.ack(BOOT, 8), 2)
    assert found.idle


def test_what_is_lost_is_sent_again_until_nobody_answers() -> None:
    found = greeted(FakeLog(1, 2))
    assert len(said(found, 0)) == 2
    assert found.next_timer(0) == 1000
    found.on_timer(999)
    assert said(found, 999) == []
    found.on_timer(1000)
    assert [r.sequence for r in said(found, 1000)] == [1, 2]
    for now in (2000, 3000, 4000):
        found.on_timer(now)
        said(found, now)
    with pytest.raises(errors.LinkError, match="did not answer"):
        found.on_timer(5000)


def test_a_gateway_that_waits_for_its_edge_is_not_given_up() -> None:
    found = greeted(FakeLog(1))
    for now in range(0, 20_000, 1000):
        found.on_timer(now)
        said(found, now)
        found.receive(gateway.ack(BOOT, 0), now)
    assert not found.idle


def test_a_gateway_that_was_restarted_is_greeted_again() -> None:
    found = greeted(FakeLog(1, 2, 3))
    said(found, 0)
    found.receive(gateway.ack(BOOT, 1), 0)
    assert found.receive(gateway.stranger(BOOT), 1) is None
    (hello,) = said(found, 1)
    assert hello.acked == 1
    found.receive(gateway.welcome(BOOT, 2), 1)
    assert [r.sequence for r in said(found, 1)] == [2, 3]


def test_what_an_earlier_boot_was_told_is_dropped() -> None:
    found = greeted(FakeLog(1))
    said(found, 0)
    assert found.receive(gateway.ack(BOOT - 1, 1), 0) is None
    assert found.acked == 0
    assert found.receive(gateway.welcome(BOOT - 1, 5), 0) is None
    with pytest.raises(errors.RefusedError, match="not wanted"):
        found.receive(gateway.refused(BOOT, "not wanted"), 0)


def test_pieces_of_an_update_are_asked_for_until_they_come() -> None:
    found = greeted(FakeLog())
    assert found.idle
    found.want(3, 0)
    (want,) = said(found, 0)
    assert (want.release, want.offset) == (3, 0)
    assert not found.idle
    found.on_timer(1000)
    assert said(found, 1000) == [want]
    found.want(3, 1024)
    assert said(found, 1000)[0].offset == 1024
    found.got()
    assert found.idle


def test_records_that_can_not_be_read_hold_nothing_up() -> None:
    found = greeted(FakeLog(1, newest=5))
    assert len(said(found, 0)) == 1
    found.receive(gateway.ack(BOOT, 1), 0)
    assert said(found, 0) == []
    assert found.idle
