"""Pads are seekable, the same in batches and alone, and cancel between clients and guards."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_prifi.core.errors import FrameError
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.crypto.cipher import PadStream, cipher_named
from headtail_prifi.round.pads import PadBank, batch_rounds, combined, single
from headtail_prifi.round.stock import PadStock


def streams(count: int, name: str = "cryptography") -> list[PadStream]:
    return [cipher_named(name).stream(bytes([index]) * 32) for index in range(count)]


@settings(max_examples=30, deadline=None)
@given(
    cell_bytes=st.integers(128, 300),
    first=st.integers(0, 2**31),
    count=st.integers(1, 5),
    name=st.sampled_from(["cryptography", "pycryptodome"]),
)
def test_a_batch_is_the_xor_of_single_rounds(
    cell_bytes: int, first: int, count: int, name: str
) -> None:
    geometry = Geometry(clients=3, cell_bytes=cell_bytes)
    rows = combined(streams(3, name), geometry, first, count)
    for offset in range(count):
        parts = [single(stream, geometry, first + offset) for stream in streams(3)]
        wanted = np.bitwise_xor.reduce([np.frombuffer(part, np.uint8) for part in parts])
        assert (rows[offset] == wanted).all()


def test_all_pads_cancel() -> None:
    geometry = Geometry(clients=4, cell_bytes=200)
    pairs = [
        [cipher_named("cryptography").stream(bytes([c, g]) * 16) for g in range(3)]
        for c in range(4)
    ]
    total = np.zeros((2, geometry.stream_bytes), np.uint8)
    for row in pairs:
        total ^= combined(row, geometry, 7, 2)
    for column in zip(*pairs, strict=True):
        total ^= combined(column, geometry, 7, 2)
    assert not total.any()


@pytest.mark.parametrize("prepared", [True, False])
def test_a_bank_hands_out_every_round_whether_prepared_or_not(prepared: bool) -> None:
    geometry = Geometry(clients=2, cell_bytes=4096)
    count = batch_rounds(geometry)
    assert 1 < count < 64
    bank = PadBank(streams(2), geometry, 5)
    rounds = [*range(5, 5 + 3 * count), 5 + 10 * count, 5 + 11 * count + 3]
    for round_ in rounds:
        wanted = combined(streams(2), geometry, round_, 1)[0]
        assert (bank.take(round_) == wanted).all()
        if prepared:
            bank.prepare(round_)


def test_stock_grants_ahead_and_no_more() -> None:
    geometry = Geometry(clients=2, cell_bytes=128, window=2)
    stock = PadStock(geometry=geometry, guards=2, ahead_batches=1, first_round=10)
    assert stock.wanted(10) == [(0, 10, 64), (1, 10, 64)]
    assert stock.wanted(11) == []
    assert stock.wanted(74) == [(0, 74, 64), (1, 74, 64)]
    assert stock.again(1, 12) == (1, 12, 64)
    assert stock.again(1, 136) == (1, 136, 2)


def test_stock_takes_what_was_granted_in_order() -> None:
    geometry = Geometry(clients=2, cell_bytes=128)
    stock = PadStock(geometry=geometry, guards=2, ahead_batches=1, first_round=10)
    stock.wanted(10)
    rows = np.arange(4 * geometry.stream_bytes, dtype=np.uint8).reshape(4, -1)
    for first, count in ((9, 4), (72, 4), (100, 4)):
        with pytest.raises(FrameError):
            stock.store(0, first, rows[:count])
    stock.store(0, 10, rows)
    assert stock.lacking(10) == [1]
    stock.store(1, 10, rows)
    assert stock.lacking(10) == []
    assert len(stock.take(10)) == 2
    stock.store(1, 10, rows)
    assert stock.lacking(10) == [0, 1]
    assert stock.lacking(11) == []
