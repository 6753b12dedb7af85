"""The gateway's end of the node's messages, against frozen bytes and against noise."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_edge.gateway import messages
from headtail_edge.gateway.messages import (
    Bye,
    Decision,
    Features,
    Hello,
    NodeMessageError,
    Note,
    Record,
    Status,
    Telemetry,
    Wake,
    Want,
)

VECTORS = json.loads(
    (Path(__file__).parents[1] / "vectors" / "mcu-node-v1.json").read_text(encoding="utf-8")
)


def test_what_nodes_say() -> None:
    read = [messages.decode(bytes.fromhex(case["bytes"])) for case in VECTORS["node"][:5]]
    assert read == [
        Hello(
            boot=7,
            firmware=(0, 1, 0),
            head=0xDEADBEEF,
            release=3,
            log=0x01020304,
            acked=41,
            wake=Wake.WATCHDOG,
            name="door-1",
        ),
        Record(boot=7, sequence=42, previous=41, time_s=1796065588, payload=b"\x01\x02"),
        Record(boot=7, sequence=2**32 - 1, previous=0, time_s=0, payload=b""),
        Want(boot=7, release=3, offset=1024),
        Bye(boot=7, silence_s=900),
    ]


def test_what_records_hold() -> None:
    decision, features, note = (
        messages.decode_payload(bytes.fromhex(case["bytes"])) for case in VECTORS["node"][5:]
    )
    assert decision == Decision(head=0xDEADBEEF, answer=2, score=60000 / 65535)
    assert features == Features(head=0xDEADBEEF, levels=b"\x00\xff\x10")
    assert note == Note(text="crashed: MemoryError")


def test_telemetry() -> None:
    data = bytes.fromhex(
        "03 3c000000 40420f00 a0860100 740e c3 01 05000000 10270000 02 03 04000000"
    )
    assert messages.decode_payload(data) == Telemetry(
        uptime_s=60,
        heap_free=1_000_000,
        heap_least=100_000,
        battery_mv=3700,
        rssi_dbm=-61,
        wake=Wake.DEEP_SLEEP,
        lost=5,
        inference_us=10_000,
        crashes=2,
        failures=3,
        release=4,
    )


def test_what_gateways_say() -> None:
    made = [
        messages.welcome(7, 1796065588.25),
        messages.ack(7, 41),
        messages.answer(7, 42, Status.ANSWERED, 2, 0.5),
        messages.answer(7, 42, Status.FAILED, 0, 0.0),
        messages.offer(7, 3, 30_000),
        messages.piece(7, 3, 1024, b"\0\1"),
        messages.refused(7, "no"),
        messages.stranger(7),
    ]
    assert [data.hex() for data in made] == [case["bytes"] for case in VECTORS["gateway"]]


def test_a_score_stays_within_its_field() -> None:
    assert messages.answer(1, 1, Status.ANSWERED, 0, 7.0)[-2:] == b"\xff\xff"
    assert messages.answer(1, 1, Status.ANSWERED, 0, -1.0)[-2:] == b"\0\0"


def test_texts_of_nodes_are_harmless_on_a_terminal() -> None:
    note = messages.decode_payload(b"\x04a\x1b[31m\xff" + b"x" * 500)
    assert isinstance(note, Note)
    assert note.text.isprintable()
    assert len(note.text) <= messages.MAX_NOTE_BYTES


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("", "0 bytes"),
        ("0907000000", "kind 9"),
        ("0207000000 2a000000 2a000000 00000000", "record 42 behind record 42"),
        ("0107000000 02 000100 00000000 00000000 00000000 00000000 00 61", "protocol 2"),
        ("0107000000 01 000100 00000000 00000000 00000000 00000000 00", "a name of 0 bytes"),
        ("0107000000 01 000100 00000000 00000000 00000000 00000000 09 61", "9"),
        ("0107000000 01 000100 00000000 00000000 00000000 00000000 00 ff", "codec"),
        ("0307000000 0000", "kind 3"),
    ],
)
def test_what_breaks_the_format_is_named(data: str, told: str) -> None:
    with pytest.raises(NodeMessageError, match=told):
        messages.decode(bytes.fromhex(data))


@given(st.binary(max_size=80), st.integers(0, 5))
def test_noise_raises_nothing_else(data: bytes, kind: int) -> None:
    for read in (messages.decode, messages.decode_payload):
        try:
            read(bytes([kind]) + data)
        except NodeMessageError:
            continue
