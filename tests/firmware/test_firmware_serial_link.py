"""COBS packets on a line with noise."""

import importlib
import runpy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from micropython_runner import SCRIPTS, run

serial_link = importlib.import_module("headtail_mcu.serial_link")

packets = st.lists(
    st.binary(max_size=700) | st.sampled_from([bytes(254), b"\x01" * 254, b"\x01" * 253, b""]),
    max_size=5,
)


@settings(deadline=None)
@given(packets, st.integers(1, 300))
def test_packets_in_pieces(sent: list[bytes], step: int) -> None:
    line = b"".join(serial_link.encode(packet) for packet in sent)
    decoder = serial_link.Decoder()
    came = [p for at in range(0, len(line), step) for p in decoder.receive(line[at : at + step])]
    assert came == sent
    assert decoder.damaged == 0


@settings(deadline=None)
@given(st.binary(max_size=600))
def test_no_zero_inside_and_little_overhead(packet: bytes) -> None:
    stuffed = serial_link.encode(packet)
    assert 0 not in stuffed[1:-1]
    assert len(stuffed) <= len(packet) + 4 + 3 + (len(packet) + 4) // 254


@settings(deadline=None)
@given(st.binary(max_size=200), st.binary(min_size=1, max_size=300))
def test_after_noise_the_next_packet_is_whole(noise: bytes, packet: bytes) -> None:
    decoder = serial_link.Decoder()
    came = decoder.receive(noise + serial_link.encode(packet))
    assert came[-1] == packet


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=300), st.data())
def test_damage_is_noticed_and_counted(packet: bytes, data: st.DataObject) -> None:
    line = bytearray(serial_link.encode(packet))
    at = data.draw(st.integers(1, len(line) - 2))
    line[at] ^= data.draw(st.integers(1, 255))
    decoder = serial_link.Decoder()
    came = decoder.receive(bytes(line))
    assert packet not in came
    assert decoder.damaged >= 1


def test_too_long_a_packet_costs_itself_only() -> None:
    decoder = serial_link.Decoder(max_bytes=100)
    long, short = serial_link.encode(bytes(101)), serial_link.encode(b"short")
    assert decoder.receive(b"\x01" * 10_000 + short + long + short) == [b"short", b"short"]
    assert decoder.damaged == 2
    assert decoder.receive(serial_link.encode(b"\x05" * 100)) == [b"\x05" * 100]


@pytest.mark.system
def test_on_micropython() -> None:
    assert run("serial_vectors.py") == "passed\n"


def test_the_same_script_on_cpython(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(SCRIPTS / "serial_vectors.py"))
    assert capsys.readouterr().out == "passed\n"
