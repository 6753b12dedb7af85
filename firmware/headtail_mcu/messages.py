"""What a node and its gateway say to each other, over any link; little-endian.

    kind u8 | boot u32 | fields

`boot` is the node's number of this start: an answer that names another one is old, and is dropped.

    node     HELLO    protocol u8, firmware 3 x u8, head u32, release u32, log u32, acked u32,
                      wake u8, name
             RECORD   sequence u32, previous u32, time u32, payload
             WANT     release u32, offset u32
             BYE      seconds until it speaks again u32
    gateway  WELCOME  time u32, milliseconds u16
             ACK      sequence u32: all up to it are settled
             ANSWER   sequence u32, status u8, class u16, score u16 (of 65535)
             OFFER    release u32, bytes u32
             PIECE    release u32, offset u32, bytes of the update
             REFUSED  reason
             STRANGER (say HELLO)

    payloads DECISION   head u32, class u16, score u16
             FEATURES   head u32, packed levels
             TELEMETRY  see `telemetry`
             NOTE       text

`head` is the CRC-32 at the end of a head's blob. `previous` is the record before that the node
still has, so that a record that is lost leaves no gap to wait for. Time is seconds since 1970, 0
for not known. `tests/vectors/mcu-node-v1.json` freezes all of it.
"""

import struct

from .errors import LinkError

PROTOCOL = 1
HELLO, RECORD, WANT, BYE = 1, 2, 3, 4
WELCOME, ACK, ANSWER, OFFER, PIECE, REFUSED, STRANGER = 129, 130, 131, 132, 133, 134, 135
DECISION, FEATURES, TELEMETRY, NOTE = 1, 2, 3, 4
ANSWERED, FAILED = 0, 1
WAKES = ("power-on", "deep-sleep", "watchdog", "reset")

_HEADER = "<BI"
_HEADER_BYTES = 5
_FIELDS = {WELCOME: "<IH", ACK: "<I", ANSWER: "<IBHH", OFFER: "<II", PIECE: "<II"}


def hello(boot, firmware, head, release, log, acked, wake, name):
    """`firmware`: three numbers; `wake`: one of WAKES."""
    fields = struct.pack(
        "<BIB3BIIIIB",
        *(HELLO, boot, PROTOCOL),
        *firmware,
        *(head, release, log, acked, WAKES.index(wake)),
    )
    return fields + name.encode()


def record(boot, sequence, previous, time, payload):
    return struct.pack("<BIIII", RECORD, boot, sequence, previous, time) + payload


def want(boot, release, offset):
    return struct.pack("<BIII", WANT, boot, release, offset)


def bye(boot, seconds):
    return struct.pack("<BII", BYE, boot, seconds)


def decision(head, answer, score):
    return struct.pack("<BIHH", DECISION, head, answer, score)


def features(head, levels):
    return struct.pack("<BI", FEATURES, head) + levels


def note(text):
    return bytes((NOTE,)) + text.encode()


def decode(data):
    """(kind, boot, fields) of what a gateway said; bytes that follow are the last field.

    Raises LinkError.
    """
    if len(data) < _HEADER_BYTES:
        raise LinkError(f"a message of {len(data)} bytes")
    kind, boot = struct.unpack_from(_HEADER, data)
    form = _FIELDS.get(kind)
    if form is None:
        if kind not in (REFUSED, STRANGER):
            raise LinkError(f"a message of kind {kind}: update the firmware")
        return kind, boot, (bytes(data[_HEADER_BYTES:]),)
    end = _HEADER_BYTES + struct.calcsize(form)
    if len(data) < end or (kind != PIECE and len(data) > end):
        raise LinkError(f"a message of kind {kind} with {len(data)} bytes")
    fields = list(struct.unpack_from(form, data, _HEADER_BYTES))
    if kind == PIECE:
        fields.append(bytes(data[end:]))
    return kind, boot, fields
