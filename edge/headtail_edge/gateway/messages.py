"""What nodes and gateways say to each other: `firmware/headtail_mcu/messages.py` has the layout,
`tests/vectors/mcu-node-v1.json` freezes it for both.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from headtail_fabric.errors import PeerError

PROTOCOL: Final = 1
MAX_BYTES: Final = 65_536
MAX_NAME_BYTES: Final = 64
MAX_NOTE_BYTES: Final = 200

_HEADER: Final = struct.Struct("<BI")
_HELLO: Final = struct.Struct("<B3BIIIIB")
_RECORD: Final = struct.Struct("<III")
_TELEMETRY: Final = struct.Struct("<IIIHbBIIBBI")
_WORD: Final = struct.Struct("<I")
_WANT: Final = struct.Struct("<II")
_DECISION: Final = struct.Struct("<IHH")
_TOP_SCORE: Final = 65_535


class NodeMessageError(PeerError):
    """A node sent a message that breaks the format. Check that its firmware and this gateway are
    of versions that belong together."""


class Wake(IntEnum):
    """Why a node started."""

    POWER_ON = 0
    DEEP_SLEEP = 1
    WATCHDOG = 2
    RESET = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A node is there. `head`: the CRC-32 at the end of its head's blob; `log`: the number of its
    record log, of which all up to `acked` are settled."""

    boot: int
    firmware: tuple[int, int, int]
    head: int
    release: int
    log: int
    acked: int
    wake: Wake
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of the node's log; `previous` is the one before that it still has, and `time_s`
    seconds since 1970, 0 for not known."""

    boot: int
    sequence: int
    previous: int
    time_s: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """The next piece of an update, please."""

    boot: int
    release: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye:
    """The node will not speak, nor listen, for so long."""

    boot: int
    silence_s: int


NodeMessage = Hello | Record | Want | Bye


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The board answered by itself; `score` 0 to 1, 0 where it can't tell."""

    head: int
    answer: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What crosses to the tail."""

    head: int
    levels: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """How the node is: `firmware/headtail_mcu/telemetry.py`."""

    uptime_s: int
    heap_free: int
    heap_least: int
    battery_mv: int
    rssi_dbm: int
    wake: Wake
    lost: int
    inference_us: int
    crashes: int
    failures: int
    release: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something for a person to read."""

    text: str


Payload = Decision | Features | Telemetry | Note


class Status(IntEnum):
    """What became of features that were sent."""

    ANSWERED = 0
    FAILED = 1


def decode(data: bytes) -> NodeMessage:
    """Raises NodeMessageError, whatever comes."""
    if not _HEADER.size <= len(data) <= MAX_BYTES:
        raise NodeMessageError(f"a message of {len(data)} bytes")
    kind, boot = _HEADER.unpack_from(data)
    read = _READERS.get(kind)
    if read is None:
        raise NodeMessageError(f"a message of kind {kind}")
    try:
        return read(boot, data[_HEADER.size :])
    except (struct.error, ValueError) as error:
        raise NodeMessageError(f"a message of kind {kind}: {error}") from None


def decode_payload(payload: bytes) -> Payload:
    """What a record holds. Raises NodeMessageError, whatever comes."""
    read = _PAYLOADS.get(payload[0]) if payload else None
    if read is None:
        raise NodeMessageError(f"a record of kind {payload[:1].hex() or 'none'}")
    try:
        return read(payload[1:])
    except (struct.error, ValueError) as error:
        raise NodeMessageError(f"a record of kind {payload[0]}: {error}") from None


def welcome(boot: int, unix_s: float) -> bytes:
    """With the time of day."""
    milliseconds = round(unix_s * 1000)
    return struct.pack("<BIIH", 129, boot, milliseconds // 1000, milliseconds % 1000)


def ack(boot: int, sequence: int) -> bytes:
    """All up to that record is settled."""
    return struct.pack("<BII", 130, boot, sequence)


def answer(boot: int, sequence: int, status: Status, best: int, score: float) -> bytes:
    """What the tail made of a record; `score` 0 to 1."""
    level = round(max(0.0, min(1.0, score)) * _TOP_SCORE)
    return struct.pack("<BIIBHH", 131, boot, sequence, status, best, level)


def offer(boot: int, release: int, size_bytes: int) -> bytes:
    """An update that the node may ask for."""
    return struct.pack("<BIII", 132, boot, release, size_bytes)


def piece(boot: int, release: int, offset: int, data: bytes) -> bytes:
    """A part of the update."""
    return struct.pack("<BIII", 133, boot, release, offset) + data


def refused(boot: int, reason: str) -> bytes:
    """The node is not wanted."""
    return _HEADER.pack(134, boot) + reason.encode()[:MAX_NOTE_BYTES]


def stranger(boot: int) -> bytes:
    """Say HELLO first."""
    return _HEADER.pack(135, boot)


def _hello(boot: int, body: bytes) -> Hello:
    protocol, *firmware, head, release, log, acked, wake = _HELLO.unpack_from(body)
    name = body[_HELLO.size :]
    if protocol != PROTOCOL:
        raise ValueError(f"protocol {protocol}, this gateway speaks {PROTOCOL}")
    if not 0 < len(name) <= MAX_NAME_BYTES:
        raise ValueError(f"a name of {len(name)} bytes")
    return Hello(
        boot=boot,
        firmware=(firmware[0], firmware[1], firmware[2]),
        head=head,
        release=release,
        log=log,
        acked=acked,
        wake=Wake(wake),
        name=name.decode(),
    )


def _record(boot: int, body: bytes) -> Record:
    sequence, previous, time_s = _RECORD.unpack_from(body)
    if previous >= sequence:
        raise ValueError(f"record {sequence} behind record {previous}")
    return Record(
        boot=boot,
        sequence=sequence,
        previous=previous,
        time_s=time_s,
        payload=body[_RECORD.size :],
    )


def _want(boot: int, body: bytes) -> Want:
    release, offset = _WANT.unpack(body)
    return Want(boot=boot, release=release, offset=offset)


def _bye(boot: int, body: bytes) -> Bye:
    return Bye(boot=boot, silence_s=_WORD.unpack(body)[0])


def _decision(body: bytes) -> Decision:
    head, best, score = _DECISION.unpack(body)
    return Decision(head=head, answer=best, score=score / _TOP_SCORE)


def _features(body: bytes) -> Features:
    (head,) = _WORD.unpack_from(body)
    return Features(head=head, levels=body[_WORD.size :])


def _telemetry(body: bytes) -> Telemetry:
    uptime, free, least, battery, rssi, wake, lost, inference, crashes, failures, release = (
        _TELEMETRY.unpack(body)
    )
    return Telemetry(
        uptime_s=uptime,
        heap_free=free,
        heap_least=least,
        battery_mv=battery,
        rssi_dbm=rssi,
        wake=Wake(wake),
        lost=lost,
        inference_us=inference,
        crashes=crashes,
        failures=failures,
        release=release,
    )


def _note(body: bytes) -> Note:
    text = body[:MAX_NOTE_BYTES].decode("utf-8", "replace")
    return Note(text="".join(c if c.isprintable() else "?" for c in text))


_READERS: Final[dict[int, Callable[[int, bytes], NodeMessage]]] = {
    1: _hello,
    2: _record,
    3: _want,
    4: _bye,
}
_PAYLOADS: Final[dict[int, Callable[[bytes], Payload]]] = {
    1: _decision,
    2: _features,
    3: _telemetry,
    4: _note,
}
