"""The log on disk: records, segments, full disks, damage."""

import errno
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_device.spool.disk import FolderDisk
from headtail_device.spool.errors import (
    DamagedEntryError,
    SpoolError,
    SpoolInUseError,
    SpoolWriteError,
)
from headtail_device.spool.log import SpoolLog
from headtail_device.spool.memory import Killed, MemoryDisk
from headtail_device.spool.record import (
    ENDED,
    OVERHEAD_BYTES,
    STATE_AT,
    WAITING,
    pack,
    scan,
    unpack,
)


def opened(disk: MemoryDisk, *, boot: int = 1, segment_bytes: int = 200) -> SpoolLog:
    return SpoolLog(disk, boot=boot, segment_bytes=segment_bytes, sync="never")


def bodies(log: SpoolLog) -> list[bytes]:
    return [log.read(number) for number in log]


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_what_is_packed_is_found(contents: list[bytes]) -> None:
    data = b"".join(pack(number, body) for number, body in enumerate(contents, start=1))
    found = list(scan(data))
    assert [one.number for one in found] == list(range(1, len(contents) + 1))
    assert all(one.whole and one.state == WAITING for one in found)
    assert [unpack(data[one.at : one.at + one.size]) for one in found] == contents


@given(st.binary(max_size=300))
def test_any_bytes_can_be_scanned(data: bytes) -> None:
    assert not [one for one in scan(data) if one.whole]


@given(st.data())
def test_one_damaged_byte_costs_one_record(given_: st.DataObject) -> None:
    records = [pack(number, bytes([number]) * 30) for number in (1, 2, 3)]
    data = bytearray(b"".join(records))
    at = given_.draw(st.integers(0, len(data) - 1))
    data[at] ^= 0xFF
    hit = at // len(records[0])
    whole = [one.number for one in scan(bytes(data)) if one.whole]
    if at % len(records[0]) == STATE_AT:
        assert whole == [1, 2, 3]
    else:
        assert whole == [number for number in (1, 2, 3) if number != hit + 1]


@given(st.integers(0, 2 * (OVERHEAD_BYTES + 5)))
def test_a_torn_end_was_never_there(kept: int) -> None:
    data = pack(1, b"first") + pack(2, b"other")
    whole = [one.number for one in scan(data[:kept]) if one.whole]
    assert whole == list(range(1, kept // (OVERHEAD_BYTES + 5) + 1))


def test_records_outlive_the_log_in_their_order() -> None:
    disk = MemoryDisk()
    log = opened(disk)
    numbers = [log.append(b"%d" % n * 20, level=0) for n in range(20)]
    assert len(disk.files) > 1
    log.end(numbers[3])
    log.close()
    again = opened(disk, boot=2)
    assert list(again) == [number for number in numbers if number != numbers[3]]
    assert again.append(b"new", level=0) not in numbers
    assert bodies(again)[-1] == b"new"


def test_a_segment_goes_with_its_last_record() -> None:
    disk = MemoryDisk()
    log = opened(disk)
    numbers = [log.append(b"x" * 50, level=0) for _ in range(6)]
    for number in numbers:
        log.end(number)
    assert (len(log), log.size_bytes, disk.files) == (0, 0, {})
    assert repr(log) == "<SpoolLog waiting=0 segments=0 0 B>"


def test_victims_are_the_oldest_segment_of_the_lowest_level() -> None:
    log = opened(MemoryDisk())
    worth = [log.append(b"x" * 100, level=2) for _ in range(2)]
    cheap = [log.append(b"x" * 100, level=1) for _ in range(2)]
    assert log.victims(level=0) == ()
    assert log.victims(level=1) == (cheap[0],)
    for number in cheap:
        log.end(number)
    assert log.victims(level=1) == ()
    assert log.victims(level=3) == (worth[0],)


def test_nothing_is_taken_by_a_full_disk_and_nothing_is_lost() -> None:
    disk = MemoryDisk()
    log = opened(disk, segment_bytes=1000)
    kept = log.append(b"kept", level=0)
    disk.room_bytes = 10
    with pytest.raises(SpoolWriteError, match="No space left"):
        log.append(b"too much for it", level=0)
    with pytest.raises(SpoolWriteError):
        log.append(b"also in a new file", level=1)
    log.end(kept)  # ending needs no space
    assert disk.files == {}
    disk.room_bytes = None
    log.append(b"again", level=0)
    assert bodies(opened(disk, boot=2)) == [b"again"]


def test_a_torn_end_that_can_not_be_cut_off_stays_behind() -> None:
    class Stubborn(MemoryDisk):
        def cut(self, name: str, size: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

    disk = Stubborn()
    log = opened(disk, segment_bytes=1000)
    log.append(b"first", level=0)
    disk.room_bytes = 10
    with pytest.raises(SpoolWriteError):
        log.append(b"torn", level=0)
    disk.room_bytes = None
    log.append(b"second", level=0)
    assert len(disk.files) == 2
    assert bodies(opened(disk, boot=2)) == [b"first", b"second"]


def test_a_disk_that_can_not_be_told_gives_the_record_again() -> None:
    class Deaf(MemoryDisk):
        def put(self, name: str, at: int, value: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

    disk = Deaf()
    log = opened(disk)
    first, _ = log.append(b"first", level=0), log.append(b"second", level=0)
    log.end(first)
    assert bodies(log) == [b"second"]
    assert bodies(opened(disk, boot=2)) == [b"first", b"second"]


def test_a_segment_that_can_not_be_removed_counts_on() -> None:
    class Clinging(MemoryDisk):
        def remove(self, name: str) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

    log = opened(Clinging())
    log.end(log.append(b"x", level=0))
    assert len(log) == 0
    assert log.size_bytes == OVERHEAD_BYTES + 1
    assert log.victims(level=3) == ()


@pytest.mark.parametrize("at", [2, STATE_AT + 3])
def test_damage_is_counted_and_costs_one_record(at: int) -> None:
    disk = MemoryDisk()
    log = opened(disk)
    log.append(b"damaged", level=0)
    log.append(b"sound", level=0)
    (file,) = disk.files.values()
    file[at + (OVERHEAD_BYTES - STATE_AT if at > STATE_AT else 3)] ^= 1
    again = opened(disk, boot=2)
    assert again.damaged == 1
    assert bodies(again) == [b"sound"]


def test_damage_after_opening_is_an_error() -> None:
    disk = MemoryDisk()
    log = opened(disk)
    number = log.append(b"body", level=0)
    (file,) = disk.files.values()
    file[-1] ^= 1
    with pytest.raises(DamagedEntryError):
        log.read(number)


def test_a_file_of_someone_else_is_an_error() -> None:
    disk = MemoryDisk()
    disk.append("holiday", b"")
    with pytest.raises(SpoolError, match="holiday is no segment"):
        opened(disk)


@pytest.mark.parametrize(("sync", "synced"), [("entry", 3), ("segment", 1), ("never", 0)])
def test_how_often_the_disk_is_flushed(sync: str, synced: int) -> None:
    disk = MemoryDisk()
    log = SpoolLog(disk, boot=1, segment_bytes=1000, sync=sync)  # type: ignore[arg-type]
    first, _ = log.append(b"a", level=0), log.append(b"b", level=0)
    log.end(first)
    log.close()
    assert disk.synced == synced


def test_a_kill_in_a_write_costs_what_was_not_yet_taken() -> None:
    disk = MemoryDisk()
    log = opened(disk)
    log.append(b"first", level=0)
    disk.kill_in = 0
    with pytest.raises(Killed):
        log.append(b"second", level=0)
    disk.kill_in = None
    assert bodies(opened(disk, boot=2)) == [b"first"]


def test_a_folder_does_what_memory_does(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "spool"
    disk = FolderDisk(folder)
    log = SpoolLog(disk, boot=1, segment_bytes=200, sync="entry")
    numbers = [log.append(b"%d" % n * 40, level=n % 2) for n in range(8)]
    log.end(numbers[2])
    log.close()
    again_disk = FolderDisk(folder)
    again = SpoolLog(again_disk, boot=2, segment_bytes=200, sync="segment")
    assert sorted(again) == sorted(set(numbers) - {numbers[2]})
    assert again.read(numbers[5]) == b"5" * 40
    assert again.size_bytes == sum(file.stat().st_size for file in folder.glob("*.spool"))
    for number in tuple(again):
        again.end(number)
    again.close()
    assert not list(folder.glob("*.spool"))


def test_a_folder_cuts_and_puts(tmp_path: Path) -> None:
    disk = FolderDisk(tmp_path)
    disk.append("0000000001-0", b"abcdef")
    disk.put("0000000001-0", 1, ENDED)
    disk.cut("0000000001-0", 3)
    assert disk.read("0000000001-0") == b"a\x01c"
    assert disk.read("0000000001-0", 2, 5) == b"c"
    assert disk.names() == ["0000000001-0"]
    assert repr(disk) == f"<FolderDisk {tmp_path}>"
    disk.remove("0000000002-0")
    disk.close()


def test_a_real_file_that_may_not_grow_tears_nothing(tmp_path: Path) -> None:
    log = SpoolLog(FolderDisk(tmp_path), boot=1, segment_bytes=10_000, sync="never")
    kept = log.append(b"kept", level=0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    try:
        with pytest.raises(SpoolWriteError, match="File too large"):
            log.append(b"x" * 1000, level=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    (file,) = tmp_path.glob("*.spool")
    assert file.stat().st_size == log.size_bytes == OVERHEAD_BYTES + 4
    later = log.append(b"later", level=0)
    assert [log.read(number) for number in (kept, later)] == [b"kept", b"later"]
    log.close()


def test_a_folder_belongs_to_one_process(tmp_path: Path) -> None:
    first = FolderDisk(tmp_path)
    with pytest.raises(SpoolInUseError):
        FolderDisk(tmp_path)
    first.close()
    FolderDisk(tmp_path).close()


def test_a_folder_that_can_not_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="Not a directory"):
        FolderDisk(tmp_path / "file" / "spool")
