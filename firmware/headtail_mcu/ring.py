"""A log of records that waits for acknowledgement, in one file of fixed size.

    header   magic "HTR2", slots u16, record bytes u16, id u32, crc32; two places for
             (mark, acked, lost, crc32)
    slots    sequence u32, timestamp u32, length u16, payload, crc32 at the end of the slot

Record `seq` lies in slot `seq % slots`, so the newest overwrite the oldest. A write that is torn
costs the one record being written (and the one it was to replace); opening finds the newest whole
record and goes on behind it. What was overwritten before it was acknowledged is counted in `lost`.
Each flush writes flash: 100,000 erase cycles and a 256-byte record a minute last for decades, a
record a second for a few years; append several, then flush.
"""

import binascii
import os
import struct

from .errors import StoreError

_MAGIC = b"HTR2"
_HEADER_BYTES = 16
_MARKS_AT = 16
_MARK_BYTES = 16
_SLOTS_AT = _MARKS_AT + 2 * _MARK_BYTES
_RECORD = "<IIH"
_RECORD_BYTES = 10
_CRC_BYTES = 4


class RingLog:
    """Sequence numbers begin at 1. `id` is drawn when the file is made, so that whoever counts
    them knows that they begin anew. Raises StoreError where the file is of another geometry."""

    def __init__(self, path, slots=256, record_bytes=128):
        if not 2 <= slots < 65536 or not 16 <= record_bytes < 65536:
            raise ValueError("2 to 65,535 slots of 16 to 65,535 bytes")
        self._slots = slots
        self._bytes = record_bytes
        self.capacity = record_bytes - _RECORD_BYTES - _CRC_BYTES
        self._file, self.id = _opened(path, slots, record_bytes)
        self._mark, self.acked, self._lost = self._read_marks()
        self._newest = max(self.acked, self._scan())

    @property
    def newest(self):
        """The number of the newest record."""
        return self._newest

    @property
    def lost(self):
        """Records that were overwritten before they were acknowledged, ever."""
        return self._lost + max(0, self._oldest() - self.acked - 1)

    @property
    def waiting(self):
        """Records that are still to be acknowledged."""
        return self._newest - max(self.acked, self._oldest() - 1)

    def append(self, timestamp, payload):
        """The record's sequence number. It is safe after the next flush."""
        if len(payload) > self.capacity:
            raise ValueError(f"{len(payload)} bytes, a record holds {self.capacity}")
        self._newest += 1
        record = struct.pack(_RECORD, self._newest, timestamp & 0xFFFFFFFF, len(payload))
        record += payload + bytes(self.capacity - len(payload))
        self._file.seek(self._place(self._newest))
        self._file.write(record + _crc(record))
        return self._newest

    def flush(self):
        """Onto the medium."""
        self._file.flush()

    def unacknowledged(self, limit, after=0):
        """Up to `limit` of (sequence, timestamp, payload) behind number `after`, the oldest
        first."""
        found = []
        sequence = max(self.acked + 1, after + 1, self._oldest())
        while sequence <= self._newest and len(found) < limit:
            record = self._read(sequence)
            if record is not None and record[0] == sequence:
                found.append(record)
            sequence += 1
        return found

    def acknowledge(self, sequence):
        """All up to `sequence` have arrived. Safe at once; impossible numbers do nothing."""
        if not self.acked < sequence <= self._newest:
            return
        self._lost += max(0, min(sequence, self._oldest() - 1) - self.acked)
        self.acked = sequence
        self._mark += 1
        mark = struct.pack("<III", self._mark, self.acked, self._lost)
        self._file.seek(_MARKS_AT + self._mark % 2 * _MARK_BYTES)
        self._file.write(mark + _crc(mark))
        self.flush()

    def close(self):
        self._file.close()

    def _oldest(self):
        """The oldest number that may still be there."""
        return max(1, self._newest - self._slots + 1)

    def _place(self, sequence):
        return _SLOTS_AT + sequence % self._slots * self._bytes

    def _read(self, sequence):
        """What the slot of that number holds, or None."""
        self._file.seek(self._place(sequence))
        data = self._file.read(self._bytes)
        if len(data) < self._bytes or _crc(data[:-_CRC_BYTES]) != data[-_CRC_BYTES:]:
            return None
        found, timestamp, size = struct.unpack_from(_RECORD, data)
        if not found or size > self.capacity:
            return None
        return found, timestamp, data[_RECORD_BYTES : _RECORD_BYTES + size]

    def _scan(self):
        newest = 0
        for slot in range(self._slots):
            record = self._read(slot)
            if record is not None and record[0] % self._slots == slot:
                newest = max(newest, record[0])
        return newest

    def _read_marks(self):
        """The newer whole mark; a torn one leaves the other."""
        best = (0, 0, 0)
        for at in (_MARKS_AT, _MARKS_AT + _MARK_BYTES):
            self._file.seek(at)
            data = self._file.read(_MARK_BYTES)
            if len(data) == _MARK_BYTES and _crc(data[:12]) == data[12:]:
                best = max(best, struct.unpack_from("<III", data))
        return best


def _opened(path, slots, record_bytes):
    """(file, id)."""
    geometry = struct.pack("<4sHH", _MAGIC, slots, record_bytes)
    try:
        with open(path, "rb") as file:
            found = file.read(_HEADER_BYTES)
    except OSError:
        found = geometry + os.urandom(4)
        found += _crc(found)
        _create(path, found, _SLOTS_AT + slots * record_bytes)
    if found[:8] != geometry or _crc(found[:12]) != found[12:]:
        raise StoreError(f"{path} is no log of {slots} x {record_bytes} bytes: delete it")
    return open(path, "r+b"), int.from_bytes(found[8:12], "little")


def _create(path, header, size):
    """Whole or not at all: written aside and renamed."""
    aside = path + ".new"
    with open(aside, "wb") as file:
        file.write(header)
        left = size - len(header)
        while left:
            left -= file.write(bytes(min(left, 256)))
        file.flush()
    os.rename(aside, path)


def _crc(data):
    return binascii.crc32(data).to_bytes(_CRC_BYTES, "little")
