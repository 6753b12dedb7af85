"""Vouchers and receipts: who sent what, provably, and nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headtail_prifi.core.seat import client_seat, guard_seat
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.round.voucher import (
    CipherLog,
    Receipt,
    Span,
    cipher_digest,
    closes_window,
    window_start,
)

KEY = SigningKey(b"k" * 32)
OTHER = SigningKey(b"o" * 32)
SEAT = client_seat(3)


def log_of(rounds: range, retain: int = 200) -> CipherLog:
    log = CipherLog(
        epoch_id=b"e" * 32, version=1, seat=SEAT, first_round=rounds.start, retain=retain
    )
    for round_ in rounds:
        log.add(round_, b"cipher %d" % round_)
    return log


def span(first: int, count: int, seat: object = SEAT, version: int = 1) -> Span:
    assert isinstance(seat, type(SEAT))
    return Span(b"e" * 32, version, seat, first, count)


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 80), data=st.data())
def test_a_receipt_proves_one_cipher(count: int, data: st.DataObject) -> None:
    log = log_of(range(10, 10 + count))
    offset = data.draw(st.integers(0, count - 1))
    log.accept(10, count, log.sign(10, count, KEY), KEY.verify_key)
    receipt = log.receipt(10 + offset)
    assert receipt.digest == cipher_digest(b"cipher %d" % (10 + offset))
    receipt.verify(span(10, count), 10 + offset, KEY.verify_key)
    others = [10 + (offset + 1) % count, 10 + count, 9]
    for round_ in others:
        if round_ != 10 + offset:
            with pytest.raises(SignatureError):
                receipt.verify(span(10, count), round_, KEY.verify_key)


def test_a_receipt_binds_everything() -> None:
    log = log_of(range(6))
    log.accept(0, 6, log.sign(0, 6, KEY), KEY.verify_key)
    receipt = log.receipt(2)
    bad: list[tuple[Receipt, Span, bytes]] = [
        (receipt, span(0, 6), OTHER.verify_key),
        (receipt, span(0, 6, seat=client_seat(2)), KEY.verify_key),
        (receipt, span(0, 6, seat=guard_seat(3)), KEY.verify_key),
        (receipt, span(0, 6, version=2), KEY.verify_key),
        (receipt, span(0, 5), KEY.verify_key),
        (receipt, span(0, 7), KEY.verify_key),
        (receipt, span(1, 6), KEY.verify_key),
    ]
    for changed in (
        replace(receipt, digest=bytes(32)),
        replace(receipt, path=receipt.path[:-1]),
        replace(receipt, path=(*receipt.path, bytes(32))),
        replace(receipt, path=receipt.path[::-1]),
        replace(receipt, voucher=bytes(64)),
    ):
        bad.append((changed, span(0, 6), KEY.verify_key))
    for receipt_, span_, key in bad:
        with pytest.raises(SignatureError):
            receipt_.verify(span_, 2, key)


def test_a_relay_accepts_vouchers_only_for_what_it_received() -> None:
    sender, relay = log_of(range(8)), log_of(range(8))
    relay._digests[5] = cipher_digest(b"something else")
    with pytest.raises(SignatureError):
        relay.accept(0, 8, sender.sign(0, 8, KEY), KEY.verify_key)
    assert not relay.vouched(3)
    with pytest.raises(KeyError):
        relay.receipt(3)
    relay.accept(0, 5, sender.sign(0, 5, KEY), KEY.verify_key)
    assert relay.vouched(4)
    assert not relay.vouched(5)


def test_a_log_keeps_the_first_cipher_and_forgets_old_ones() -> None:
    log = log_of(range(10))
    log.add(3, b"another")
    assert log.sign(3, 1, KEY) == log_of(range(10)).sign(3, 1, KEY)
    short = log_of(range(300), retain=100)
    with pytest.raises(KeyError):
        short.sign(0, 10, KEY)
    short.sign(250, 10, KEY)


def test_windows_are_aligned_and_begin_with_the_membership() -> None:
    assert [round_ for round_ in range(200) if closes_window(round_)] == [63, 127, 191]
    assert window_start(70, 0) == 64
    assert window_start(70, 66) == 66
    assert window_start(63, 66) == 66
