"""Finished frames leave in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_device.delivery import Checkout, Finished, InOrder
from headtail_device.ledger import Ledger, LedgerError, Outcome
from headtail_device.record import FrameRecord
from headtail_fabric.clock import FakeClock


def record(index: int, outcome: Outcome = Outcome.EDGE) -> FrameRecord:
    return FrameRecord(index=index, origin="test", outcome=outcome, bytes_up=7)


def test_a_frame_waits_for_those_before_it() -> None:
    order = InOrder()
    for index in (3, 4, 5):
        order.expect(index)
    assert list(order.finish(Finished(record=record(4), picture=None))) == []
    assert repr(order) == "<InOrder expected=[3, 4, 5] waiting=[4]>"
    left = order.finish(Finished(record=record(3), picture=None))
    assert [finished.record.index for finished in left] == [3, 4]


@given(st.permutations(list(range(12))))
def test_all_leave_in_order_whatever_the_order_of_their_ends(ends: list[int]) -> None:
    clock, ledger = FakeClock(), Ledger()
    left: list[int] = []
    checkout = Checkout(
        ledger=ledger, deliver=lambda done: left.append(done.record.index), clock=clock
    )
    for index in range(12):
        checkout.accept(index)
    for index in ends:
        checkout.leave(record(index), None)
    assert left == list(range(12))
    assert ledger.open_count == 0
    assert ledger.totals().bytes_up == 84


def test_the_busy_time_runs_from_the_first_frame_to_the_last_outcome() -> None:
    clock = FakeClock(1.0)
    checkout = Checkout(ledger=Ledger(), deliver=lambda _: None, clock=clock)
    assert checkout.busy_s == 0.0
    clock.advance(1)
    checkout.accept(0)
    clock.advance(2)
    checkout.leave(record(0), None)
    clock.advance(4)
    assert checkout.busy_s == 2.0


def test_nothing_leaves_twice() -> None:
    left: list[Finished] = []
    checkout = Checkout(ledger=Ledger(), deliver=left.append, clock=FakeClock())
    checkout.accept(0)
    checkout.leave(record(0), None)
    with pytest.raises(LedgerError):
        checkout.leave(record(0, Outcome.DEGRADED), None)
    assert len(left) == 1
