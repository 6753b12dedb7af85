"""The log on disk: segment files of records, one chain of them for each level.

A segment takes records until it is full, and its file goes when the last of them has ended.
Records of one level lie together, so that room is made by removing a whole file, and nothing is
ever copied.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from headtail_device.config import Sync
from headtail_device.spool import record
from headtail_device.spool.disk import Disk
from headtail_device.spool.errors import DamagedEntryError, SpoolError, SpoolWriteError

_NAME: Final = re.compile(r"(\d{10})-([0-3])")
LEVELS: Final = 4
"""What is dropped last is of level 3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    segment: str
    at: int
    size: int


@dataclass(slots=True, kw_only=True)
class _Segment:
    """`numbers`: the records in it that wait, in the order of their coming."""

    level: int
    size: int = 0
    numbers: dict[int, None] = field(default_factory=dict)


class SpoolLog:
    """Records under numbers that never come twice: `boot` (32 bits, new at each opening) and a
    count.

    A record that is here when it is opened is either whole or counted in `damaged`: one that a
    kill, or a full disk, cut off was never told to have been taken.
    """

    def __init__(self, disk: Disk, *, boot: int, segment_bytes: int, sync: Sync) -> None:
        """Reads every segment. Raises SpoolError."""
        self._disk = disk
        self._next = (boot << 32) + 1
        self._segment_bytes = segment_bytes
        self._sync = sync
        self._segments: dict[str, _Segment] = {}
        self._places: dict[int, _Place] = {}
        self._growing: dict[int, str] = {}
        self._serial = 0
        self.damaged = 0
        try:
            for name in disk.names():
                self._load(name)
        except OSError as error:
            raise SpoolError(f"{disk!r}: {error.strerror}") from error

    def __repr__(self) -> str:
        return f"<SpoolLog waiting={len(self)} segments={len(self._segments)} {self.size_bytes} B>"

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[int]:
        """The numbers of what waits, oldest segment first."""
        return iter(tuple(self._places))

    @property
    def size_bytes(self) -> int:
        """On disk, what has ended but shares a file with what waits included."""
        return sum(segment.size for segment in self._segments.values())

    def append(self, body: bytes, *, level: int) -> int:
        """Take a record; returns its number. Raises SpoolWriteError, with nothing taken."""
        number, data = self._next, record.pack(self._next, body)
        name = self._growing_segment(level, len(data))
        segment = self._segments.setdefault(name, _Segment(level=level))
        try:
            self._disk.append(name, data)
            if self._sync == "entry":
                self._disk.sync(name)
        except OSError as error:
            self._undo(name, segment)
            raise SpoolWriteError(f"the spool: {error.strerror}") from error
        self._next += 1
        self._places[number] = _Place(segment=name, at=segment.size, size=len(data))
        segment.numbers[number] = None
        segment.size += len(data)
        return number

    def read(self, number: int) -> bytes:
        """The body of a record that waits. Raises DamagedEntryError."""
        place = self._places[number]
        try:
            body = record.unpack(self._disk.read(place.segment, place.at, place.size))
        except OSError as error:
            raise DamagedEntryError(f"the spool: {error.strerror}") from error
        if body is None:
            raise DamagedEntryError("a spooled frame is damaged", number=number)
        return body

    def end(self, number: int) -> None:
        """A record waits no more. A disk that can't even be told so will give it again at the
        next opening."""
        place = self._places.pop(number)
        segment = self._segments[place.segment]
        del segment.numbers[number]
        self._mark(place.segment, place.at)
        if not segment.numbers:
            self._remove(place.segment)

    def victims(self, *, level: int) -> tuple[int, ...]:
        """What must end to make room for a record of that level: all of the oldest segment of the
        lowest level, none when everything is worth more."""
        lowest = min(
            (segment.level, name)
            for name, segment in (*self._segments.items(), ("", _Segment(level=LEVELS)))
        )
        return tuple(self._segments[lowest[1]].numbers) if lowest[0] <= level else ()

    def close(self) -> None:
        """Everything is on disk, as far as `sync` asks for it."""
        for name in tuple(self._growing.values()):
            self._full(name)
        self._disk.close()

    def _load(self, name: str) -> None:
        serial, level = _parts(name)
        self._serial = max(self._serial, serial)
        data = self._disk.read(name)
        segment = self._segments[name] = _Segment(level=level, size=len(data))
        for found in record.scan(data):
            if found.state != record.WAITING:
                continue
            if not found.whole:
                self.damaged += 1
                if found.number:
                    self._mark(name, found.at)
                continue
            self._places[found.number] = _Place(segment=name, at=found.at, size=found.size)
            segment.numbers[found.number] = None
        if not segment.numbers:
            self._remove(name)

    def _mark(self, name: str, at: int) -> None:
        with contextlib.suppress(OSError):
            self._disk.put(name, at + record.STATE_AT, record.ENDED)
            if self._sync == "entry":
                self._disk.sync(name)

    def _growing_segment(self, level: int, size: int) -> str:
        name = self._growing.get(level)
        if name is not None and self._segments[name].size + size > self._segment_bytes:
            self._full(name)
            name = None
        if name is None:
            self._serial += 1
            name = self._growing[level] = f"{self._serial:010d}-{level}"
        return name

    def _full(self, name: str) -> None:
        del self._growing[self._segments[name].level]
        if self._sync == "segment":
            with contextlib.suppress(OSError):
                self._disk.sync(name)

    def _undo(self, name: str, segment: _Segment) -> None:
        try:
            self._disk.cut(name, segment.size)
        except OSError:
            self._full(name)  # the torn end stays; what follows goes elsewhere
        if not segment.numbers:
            self._remove(name)

    def _remove(self, name: str) -> None:
        segment = self._segments[name]
        if self._growing.get(segment.level) == name:
            del self._growing[segment.level]
        try:
            self._disk.remove(name)
        except OSError:
            return  # it is counted on as long as it is there
        del self._segments[name]


def _parts(name: str) -> tuple[int, int]:
    """A segment's serial number and level."""
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise SpoolError(f"{name[:64]} is no segment of a spool")
    return int(parts[1]), int(parts[2])
