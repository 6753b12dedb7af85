"""Sealed packets: frozen ones, replays, forgeries, restarts, damage."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_edge.gateway.envelope import DOWN, UP, EnvelopeError, Opener, Sealer, Window
from headtail_edge.gateway.node_book import NodeEntry, Roster
from headtail_edge.gateway.vault import StateDamagedError, StateFileError, Vault

PSK = bytes(range(32))
ROSTER = Roster({"field-7": NodeEntry(psk=PSK.hex(), psk_id=7)})
VECTORS = json.loads(
    (Path(__file__).parents[1] / "vectors" / "mcu-envelope-v1.json").read_text(encoding="utf-8")
)


def node_sealer(boot: int) -> Sealer:
    return Sealer(PSK, key_id=7, boot=boot, direction=UP)


def test_frozen_packets_of_both_directions() -> None:
    psk = bytes.fromhex(VECTORS["psk"])
    for direction, way in ((UP, "up"), (DOWN, "down")):
        opener = Opener(psk, window=Window(), direction=direction)
        sealer = Sealer(psk, key_id=VECTORS["key_id"], boot=VECTORS["boot"], direction=direction)
        for case in VECTORS[way]:
            payload, packet = bytes.fromhex(case["payload"]), bytes.fromhex(case["packet"])
            assert sealer.seal(payload) == packet
            assert opener.open(packet) == payload


@given(st.lists(st.integers(0, 200), min_size=1, max_size=60))
def test_no_number_is_taken_twice(numbers: list[int]) -> None:
    window = Window()
    taken: set[int] = set()
    for number in numbers:
        try:
            window = window.with_number(number)
        except EnvelopeError:
            assert number in taken or number <= max(taken) - 64
        else:
            assert number not in taken
            taken.add(number)


def test_a_packet_opens_once_even_after_a_restart(tmp_path: Path) -> None:
    sealer = node_sealer(boot=3)
    packets = [sealer.seal(b"%d" % n) for n in range(5)]
    vault = Vault(tmp_path)
    assert vault.open(packets[3], ROSTER) == ("field-7", b"3")
    assert vault.open(packets[1], ROSTER) == ("field-7", b"1")
    again = Vault(tmp_path)
    for packet in (packets[3], packets[1]):
        with pytest.raises(EnvelopeError, match="came before"):
            again.open(packet, ROSTER)
    assert again.open(packets[2], ROSTER) == ("field-7", b"2")
    assert again.open(node_sealer(boot=4).seal(b"next"), ROSTER) == ("field-7", b"next")
    with pytest.raises(EnvelopeError, match="came before"):
        again.open(packets[4], ROSTER)


def test_forgeries_and_strangers(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    packet = node_sealer(boot=1).seal(b"payload")
    for at in range(len(packet)):
        forged = bytearray(packet)
        forged[at] ^= 1
        with pytest.raises(EnvelopeError):
            vault.open(bytes(forged), ROSTER)
    for noise in (b"", b"\x01", packet[:25]):
        with pytest.raises(EnvelopeError):
            vault.open(noise, ROSTER)
    with pytest.raises(EnvelopeError, match="no node has"):
        vault.open(packet, Roster({}))
    assert vault.open(packet, ROSTER) == ("field-7", b"payload")


def test_a_node_with_a_new_key_begins_anew(tmp_path: Path) -> None:
    Vault(tmp_path).open(node_sealer(boot=9).seal(b"old"), ROSTER)
    other = bytes(32)
    roster = Roster({"field-7": NodeEntry(psk=other.hex(), psk_id=7)})
    packet = Sealer(other, key_id=7, boot=1, direction=UP).seal(b"new")
    assert Vault(tmp_path).open(packet, roster) == ("field-7", b"new")


def test_numbers_downwards_are_never_used_twice(tmp_path: Path) -> None:
    packets = {Vault(tmp_path).seal("field-7", b"same", ROSTER) for _ in range(3)}
    vault = Vault(tmp_path)
    packets |= {vault.seal("field-7", b"same", ROSTER) for _ in range(3)}
    headers = {packet[:10] for packet in packets if packet is not None}
    assert len(headers) == 6
    assert vault.seal("nobody", b"x", ROSTER) is None


def test_damaged_state_takes_nothing(tmp_path: Path) -> None:
    packet = node_sealer(boot=1).seal(b"x")
    Vault(tmp_path).open(packet, ROSTER)
    (tmp_path / "field-7.window").write_bytes(b"damaged")
    with pytest.raises(StateDamagedError, match=r"field-7\.window is damaged"):
        Vault(tmp_path).open(packet, ROSTER)
    (tmp_path / "boot").write_text("many")
    with pytest.raises(StateDamagedError, match="no number"):
        Vault(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StateFileError):
        Vault(tmp_path / "file")
