"""Frames on their way into the spool and out of it, against an edge in memory."""

import numpy as np
import pytest

from device_doubles import BY_DEVICE, BY_EDGE, DIGEST, WAY, Bench, FakeHead, frame, verdict
from headtail_device.ledger import LedgerError, Outcome
from headtail_device.source import Dropped
from headtail_device.spool import SpoolLog
from headtail_device.spool.entry import SpoolEntry, from_bytes, to_bytes
from headtail_device.spool.errors import DamagedEntryError
from headtail_device.spool.memory import MemoryDisk
from headtail_fabric.codec import CodecError
from headtail_fabric.wire import DType, ErrorCode, TensorInfo
from spool_world import EPOCH_S, spooling


def out_of_contact(disk: MemoryDisk, **how: object) -> Bench:
    bench = Bench(patience_s=0.0, spool=spooling(disk, **how))
    bench.link.cut()
    bench.pump()
    return bench


def back(bench: Bench) -> None:
    bench.link.heal()
    bench.pump()
    bench.runner.on_time()
    bench.pump()


def pass_time(bench: Bench, seconds: float) -> None:
    """In steps that keep the connection alive."""
    for _ in range(round(seconds / 0.5)):
        bench.pass_time(0.5)
        bench.runner.on_time()
        bench.pump()


def waiting(bench: Bench) -> int:
    assert bench.runner.spooler is not None
    return bench.runner.spooler.count.waiting


def check_sums(bench: Bench) -> None:
    totals = bench.ledger.totals()
    assert totals.frames == sum(totals.outcomes.values()) + totals.open
    assert totals[Outcome.SPOOLED] == waiting(bench)


def test_out_of_contact_a_frame_waits_and_is_answered_later() -> None:
    bench = out_of_contact(MemoryDisk())
    bench.feed(0)
    first = bench.finished[0].record
    assert (first.outcome, first.spool, first.late) == (Outcome.SPOOLED, "00000001-1", False)
    assert (first.macs, first.reason) == (10, "the edge can't be used now")
    assert bench.runner.idle
    check_sums(bench)
    bench.clock.advance(60.0)
    back(bench)
    assert bench.runner.in_flight == 1
    assert not bench.runner.idle
    bench.respond()
    last = bench.finished[1].record
    assert (last.outcome, last.spool, last.late) == (Outcome.EDGE, "00000001-1", True)
    assert (last.answer, last.index, last.cut, last.codec) == (BY_EDGE, 0, "middle", "raw")
    assert last.latency is not None
    assert last.latency.total_s > 60.0
    assert not last.inherited
    totals = bench.ledger.totals()
    assert (totals[Outcome.EDGE], totals[Outcome.SPOOLED], totals.frames) == (1, 0, 1)
    assert totals.bytes_up > 0
    assert totals.latency["total"].count == 0
    assert bench.runner.idle


def test_a_frame_in_flight_when_the_connection_breaks_is_spooled() -> None:
    bench = Bench(spool=spooling(MemoryDisk()))
    bench.pump()
    bench.feed(0)
    bench.link.cut()
    bench.pump()
    assert bench.outcomes == [Outcome.SPOOLED]
    assert bench.finished[0].record.reason == "the connection broke: the connection broke"


def test_a_stop_spools_what_is_in_flight() -> None:
    bench = Bench(spool=spooling(MemoryDisk()))
    bench.pump()
    bench.feed(0)
    bench.runner.give_up_edge("the device is stopping")
    assert bench.outcomes == [Outcome.SPOOLED]
    assert not bench.runner.has_work


def test_an_edge_that_is_there_but_fails_it_is_no_loss_of_contact() -> None:
    bench = Bench(spool=spooling(MemoryDisk()))
    bench.pump()
    bench.feed(0)
    bench.fail(ErrorCode.INTERNAL)
    bench.work_off()
    assert bench.outcomes == [Outcome.DEGRADED]
    bench.feed(1)
    bench.fail(ErrorCode.SHUTTING_DOWN)
    assert bench.outcomes == [Outcome.DEGRADED, Outcome.SPOOLED]


def test_the_next_run_takes_over_what_waits() -> None:
    disk = MemoryDisk()
    first = out_of_contact(disk)
    first.feed(0)
    first.feed(1)
    second = Bench(spool=spooling(disk, boot=2, epoch_s=EPOCH_S + 500.0))
    totals = second.ledger.totals()
    assert (totals.frames, totals.inherited, totals[Outcome.SPOOLED]) == (2, 2, 2)
    assert second.ledger.frame_count == 0
    second.pump()
    for _ in range(2):
        second.runner.on_time()
        second.pump()
        second.respond()
    assert second.outcomes == [Outcome.EDGE, Outcome.EDGE]
    record = second.finished[1].record
    assert (record.origin, record.spool, record.inherited) == ("test#1", "00000001-2", True)
    assert record.captured_at == pytest.approx(100.01 - 500.0)
    assert disk.files == {}
    check_sums(second)


def test_a_calendar_set_back_makes_nothing_younger_than_new() -> None:
    disk = MemoryDisk()
    out_of_contact(disk).feed(0)
    second = Bench(spool=spooling(disk, boot=2, epoch_s=EPOCH_S - 1e6))
    back(second)
    second.respond()
    assert second.finished[0].record.captured_at == 100.0


def test_a_calendar_that_was_not_set_makes_nothing_old() -> None:
    disk = MemoryDisk()
    out_of_contact(disk, epoch_s=0.0).feed(0)
    second = Bench(spool=spooling(disk, boot=2))
    second.runner.on_time()
    assert waiting(second) == 1


def test_a_run_that_ends_sends_nothing_more() -> None:
    bench = out_of_contact(MemoryDisk())
    bench.feed(0)
    bench.runner.wind_up()
    back(bench)
    assert (bench.runner.in_flight, waiting(bench)) == (0, 1)
    assert bench.runner.next_timer_in_s is None


def test_a_full_disk_costs_no_frame_its_answer() -> None:
    disk = MemoryDisk()
    bench = out_of_contact(disk)
    disk.room_bytes = 5
    bench.feed(0)
    bench.feed(1)  # the disk is not asked again at once
    bench.work_off()
    assert bench.outcomes == [Outcome.DEGRADED, Outcome.DEGRADED]
    assert bench.finished[0].record.answer == BY_DEVICE
    assert bench.runner.spooler is not None
    assert bench.runner.spooler.count.refused == 2
    disk.room_bytes = None
    bench.pass_time(5.0)
    bench.feed(2)
    assert bench.outcomes[2] is Outcome.SPOOLED
    check_sums(bench)


def test_a_full_spool_drops_the_oldest() -> None:
    bench = out_of_contact(MemoryDisk(), max_bytes=3000, segment_bytes=500)
    for index in range(40):
        bench.feed(index)
        check_sums(bench)
    dropped = [f.record for f in bench.finished if f.record.outcome is Outcome.DROPPED]
    assert dropped
    assert all(record.late and record.reason == "the spool was full" for record in dropped)
    assert [record.index for record in dropped] == list(range(len(dropped)))
    assert bench.runner.spooler is not None
    assert bench.runner.spooler.count.size_bytes <= 3000


def test_the_number_of_entries_is_bounded_too() -> None:
    bench = out_of_contact(MemoryDisk(), max_entries=3, segment_bytes=100)
    for index in range(6):
        bench.feed(index)
    assert waiting(bench) == 3
    assert bench.outcomes.count(Outcome.DROPPED) == 3


def test_by_confidence_the_surest_make_room_and_are_not_let_in() -> None:
    bench = out_of_contact(MemoryDisk(), max_entries=3, segment_bytes=100, drop="surest")
    for index, confidence in enumerate([0.1, 0.9, 0.1, 0.1]):
        bench.head.verdicts = (verdict(confidence),)
        bench.feed(index)
    assert waiting(bench) == 3
    assert [f.record.index for f in bench.finished if f.record.late] == [1]
    bench.head.verdicts = (verdict(0.95),)
    bench.feed(4)
    bench.work_off()
    assert bench.outcomes[-1] is Outcome.DEGRADED
    assert waiting(bench) == 3
    check_sums(bench)


def test_an_entry_larger_than_a_fourth_of_the_spool_is_not_taken() -> None:
    bench = out_of_contact(MemoryDisk(), max_bytes=400)
    bench.feed(0)
    bench.work_off()
    assert bench.outcomes == [Outcome.DEGRADED]


def test_what_waits_too_long_is_expired() -> None:
    bench = out_of_contact(MemoryDisk(), keep_s=30.0)
    bench.feed(0)
    bench.clock.advance(31.0)
    bench.runner.on_time()
    assert bench.outcomes == [Outcome.SPOOLED, Outcome.EXPIRED]
    check_sums(bench)


def test_an_edge_that_keeps_failing_it_is_believed_the_third_time() -> None:
    bench = out_of_contact(MemoryDisk())
    bench.feed(0)
    back(bench)
    for _ in range(3):
        bench.fail(ErrorCode.BAD_PAYLOAD)
        pass_time(bench, 2.0)
    assert bench.outcomes == [Outcome.SPOOLED, Outcome.FAILED]
    assert bench.finished[1].record.reason == "the edge failed it: no"
    check_sums(bench)


def test_an_answer_that_makes_no_sense_is_a_failure() -> None:
    bench = out_of_contact(MemoryDisk())
    bench.feed(0)
    back(bench)
    bench.head.decode_error = CodecError("nonsense")
    bench.respond()
    assert bench.outcomes == [Outcome.SPOOLED]
    assert bench.runner.idle  # after a setback the run's end does not wait


def test_a_busy_or_slow_edge_gets_it_again_later() -> None:
    bench = out_of_contact(MemoryDisk())
    bench.feed(0)
    back(bench)
    bench.refuse(retry_after_s=12.0)
    assert waiting(bench) == 1
    assert bench.runner.edge.retry_in_s(bench.clock.now()) == 0  # live frames may try
    pass_time(bench, 11.5)
    assert bench.runner.in_flight == 0
    pass_time(bench, 1.0)
    assert bench.runner.in_flight == 1
    pass_time(bench, 10.0)  # an entry's deadline
    assert bench.runner.in_flight == 0
    assert bench.outcomes == [Outcome.SPOOLED]


def test_a_session_lost_with_an_entry_at_the_edge_sends_it_again() -> None:
    bench = out_of_contact(MemoryDisk())
    bench.feed(0)
    back(bench)
    bench.fail(ErrorCode.SHUTTING_DOWN)
    assert bench.runner.in_flight == 0
    bench.restart_server()
    bench.pump()
    bench.runner.on_time()
    bench.pump()
    bench.respond()
    assert bench.outcomes == [Outcome.SPOOLED, Outcome.EDGE]


def test_a_live_frame_finds_room_beside_an_entry() -> None:
    bench = Bench(patience_s=0.0, window=1, spool=spooling(MemoryDisk()))
    bench.link.cut()
    bench.pump()
    bench.feed(0)
    bench.link.heal()
    bench.pump()
    bench.feed(1)
    bench.runner.on_time()
    bench.pump()
    assert bench.runner.in_flight == 1  # the live frame alone: the window is one
    assert bench.runner.next_timer_in_s is not None
    assert bench.runner.next_timer_in_s > 0
    bench.respond()
    assert bench.outcomes == [Outcome.SPOOLED, Outcome.EDGE]
    assert not bench.finished[1].record.late


def test_damage_on_disk_is_found_and_told(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    bench = out_of_contact(disk)
    bench.feed(0)
    (file,) = disk.files.values()
    file[-1] ^= 1
    back(bench)
    assert bench.outcomes == [Outcome.SPOOLED, Outcome.FAILED]
    check_sums(bench)
    bench.link.cut()
    bench.pump()
    bench.feed(1)
    (file,) = disk.files.values()
    file[-1] ^= 1
    again = Bench(spool=spooling(disk, boot=2))
    assert again.ledger.totals().inherited == 0
    assert "spool opened" in caplog.text


def test_an_entry_of_another_version_is_damaged() -> None:
    disk = MemoryDisk()
    log = SpoolLog(disk, boot=1, segment_bytes=1000, sync="never")
    log.append(b"\x91\x63", level=0)
    bench = Bench(spool=spooling(disk, boot=2))
    assert waiting(bench) == 0
    assert disk.files == {}


def test_frames_of_another_bundle_wait_for_it() -> None:
    class Other(FakeHead):
        digest = bytes(32)

    disk = MemoryDisk()
    out_of_contact(disk).feed(0)
    bench = Bench()
    bench.head = Other(bench.clock)
    spooled = spooling(disk, boot=2)(bench)
    assert (spooled.count.waiting, spooled.hopeful) == (1, False)


def test_an_entry_is_what_it_was() -> None:
    bench = out_of_contact(MemoryDisk())
    encoded = bench.head.encode(np.zeros((4, 4, 3), dtype=np.uint8), WAY)
    entry = SpoolEntry.of(frame(3), WAY, encoded, bundle=DIGEST, captured_unix=5.0)
    assert from_bytes(to_bytes(entry)) == entry
    assert (entry.level, entry.payload_bytes) == (3, 1)
    with pytest.raises(DamagedEntryError):
        from_bytes(to_bytes(entry)[:-3])


def test_a_frame_that_can_not_be_sent_fails() -> None:
    bench = out_of_contact(MemoryDisk())
    bench.head.tensor = TensorInfo(name="middle", dtype=DType.UINT8, shape=(10**9,), codec="raw")
    bench.feed(0)
    assert bench.outcomes[-1] in (Outcome.SPOOLED, Outcome.DEGRADED)
    back(bench)
    assert bench.outcomes == [Outcome.SPOOLED, Outcome.FAILED]


def test_concluding_without_a_spooled_frame_is_a_bug() -> None:
    bench = Bench()
    with pytest.raises(LedgerError, match="no spooled frame can be edge"):
        bench.ledger.conclude(Outcome.EDGE)


def test_frames_dropped_by_the_source_are_no_matter_of_the_spool() -> None:
    bench = out_of_contact(MemoryDisk())
    bench.runner.on_item(Dropped(index=0, origin="test#0"))
    assert bench.outcomes == [Outcome.DROPPED]
    assert not bench.finished[0].record.late
