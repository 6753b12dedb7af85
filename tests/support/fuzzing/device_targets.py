"""Parsers of what a device keeps on disk, and of what boards send and keep."""

import importlib
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

from fuzzing.framing import join, split
from fuzzing.target import Target
from headtail_device.spool import record
from headtail_device.spool.entry import SpoolEntry, from_bytes, to_bytes
from micropython_runner import FIRMWARE
from wire_samples import DIGEST, TENSOR

sys.path.insert(0, str(FIRMWARE))
_serial: Any = importlib.import_module("headtail_mcu.serial_link")
_zmtp: Any = importlib.import_module("headtail_mcu.zmtp")
_mechanisms: Any = importlib.import_module("headtail_mcu.mechanisms")
_ring: Any = importlib.import_module("headtail_mcu.ring")
_errors: Any = importlib.import_module("headtail_mcu.errors")


def run_spool(data: bytes) -> None:
    """A segment file after whatever happened to it, and each body that is found whole."""
    for found in record.scan(data):
        body = record.unpack(data[found.at : found.at + found.size])
        if body is not None:
            from_bytes(body)


def spool_corpus() -> list[bytes]:
    bodies = [
        to_bytes(
            SpoolEntry(
                index=number,
                origin="camera",
                captured_unix=1.7e9,
                bundle=DIGEST,
                cut="L7",
                codec="q8",
                tensors=(TENSOR,),
                payloads=(b"payload",),
                geometry=None,
                head_s=0.01,
                level=3,
            )
        )
        for number in range(3)
    ]
    records = [record.pack(number, body) for number, body in enumerate(bodies, start=1)]
    return [records[0], b"".join(records)]


def mend_spool(data: bytes) -> bytes:
    """Both checksums of the first record, as far as it is there."""
    if len(data) < record.OVERHEAD_BYTES:
        return data
    length = min(struct.unpack_from("<I", data, 4)[0], len(data) - record.OVERHEAD_BYTES)
    number = struct.unpack_from("<Q", data, 8)[0]
    end = record.OVERHEAD_BYTES + length
    return record.pack(number, data[record.OVERHEAD_BYTES : end]) + data[end:]


def run_serial(data: bytes) -> None:
    """Noise on a serial line costs packets, and never what comes behind it."""
    decoder = _serial.Decoder(max_bytes=512)
    for at in range(0, len(data), 7):
        decoder.receive(data[at : at + 7])
    assert decoder.receive(_serial.encode(b"whole"))[-1] == b"whole"


def serial_corpus() -> list[bytes]:
    packets = [b"", b"packet", bytes(300), b"\x01" * 254]
    return [_serial.encode(packet) for packet in packets]


def run_ring(data: bytes) -> None:
    """The file of records that wait, after whatever happened to it."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        Path(file.name).write_bytes(data)
        log = _ring.RingLog(file.name, slots=4, record_bytes=32)
        log.append(1, b"more")
        log.unacknowledged(8)
        log.close()


def ring_corpus() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/ring"
        log = _ring.RingLog(path, slots=4, record_bytes=32)
        for number in range(6):
            log.append(number, b"record")
        log.acknowledge(3)
        log.flush()
        log.close()
        return [Path(path).read_bytes()]


def run_zmtp(data: bytes) -> None:
    """What a server says to a board, in pieces."""
    session = _zmtp.Session(_mechanisms.Null(), max_bytes=4096, heartbeat_ms=100)
    for now, piece in enumerate(split(data)):
        session.receive(piece, now)
        session.to_send()
        session.next_message()
        session.on_timer(now)


def zmtp_corpus() -> list[bytes]:
    greeting = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
    ready = b"\x05READY\x0bSocket-Type" + (6).to_bytes(4) + b"ROUTER"
    command = bytes([4, len(ready)]) + ready
    message = b"\x01\x05hello" + b"\x00\x05world"
    ping = b"\x04\x07\x04PING\x00\x01"
    return [join([greeting, command, message, ping]), join([greeting + command + message])]


_NODE_ERRORS: tuple[type[Exception], ...] = (_errors.NodeError,)

TARGETS = (
    Target(
        name="spool",
        what="segment files of the spool",
        parsers=(run_spool,),
        corpus=spool_corpus,
        mend=mend_spool,
    ),
    Target(
        name="serial", what="COBS packets on a line", parsers=(run_serial,), corpus=serial_corpus
    ),
    Target(
        name="ring",
        what="a board's ring of records",
        parsers=(run_ring,),
        corpus=ring_corpus,
        errors=_NODE_ERRORS,
    ),
    Target(
        name="zmtp",
        what="ZMTP as a board reads it",
        parsers=(run_zmtp,),
        corpus=zmtp_corpus,
        errors=_NODE_ERRORS,
    ),
)
