"""Packets on a line: what either end writes, the other reads."""

import importlib

from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_edge.gateway.cobs import Decoder, encode

node = importlib.import_module("headtail_mcu.serial_link")

packets = st.binary(max_size=700) | st.sampled_from(
    [bytes(254), b"\x01" * 254, b"\x01" * 250, b"\x01" * 508, b""]
)


@settings(deadline=None)
@given(packets)
def test_both_ends_write_the_same(packet: bytes) -> None:
    assert encode(packet) == node.encode(packet)


@settings(deadline=None)
@given(st.lists(packets, max_size=4), st.binary(max_size=40), st.integers(1, 300))
def test_packets_come_whole_after_noise(sent: list[bytes], noise: bytes, step: int) -> None:
    line = noise + b"".join(map(encode, sent))
    decoder = Decoder(max_bytes=1000)
    came = [p for at in range(0, len(line), step) for p in decoder.receive(line[at : at + step])]
    assert came[len(came) - len(sent) :] == sent


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=300), st.data())
def test_damage_is_noticed(packet: bytes, data: st.DataObject) -> None:
    line = bytearray(encode(packet))
    at = data.draw(st.integers(1, len(line) - 2))
    line[at] ^= data.draw(st.integers(1, 255))
    decoder = Decoder(max_bytes=1000)
    assert packet not in list(decoder.receive(bytes(line)))
    assert decoder.damaged >= 1


def test_too_long_a_packet_costs_itself_only() -> None:
    decoder = Decoder(max_bytes=100)
    line = b"\x01" * 100_000 + encode(b"short") + encode(bytes(101)) + encode(b"again")
    assert list(decoder.receive(line)) == [b"short", b"again"]
    assert decoder.damaged == 2
