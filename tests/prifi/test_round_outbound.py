"""What a client has to say: order, confirmation, repetition, priority."""

import pytest

from headtail_prifi.core.errors import BacklogFullError
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.messages import ECHO_BYTES, Report
from headtail_prifi.crypto.cipher import default_cipher
from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.round.cell import Cell, CellKind, open_cell
from headtail_prifi.round.outbound import Outbound

GEOMETRY = Geometry(clients=3, cell_bytes=128, sub_slots=2)


def outbound(limit: int = 10) -> Outbound:
    return Outbound(
        geometry=GEOMETRY,
        cipher=default_cipher(),
        entropy=SeededEntropy(b"o"),
        max_waiting=limit,
        retain=5,
    )


def report(round_: int, *cells: Cell) -> Report:
    echoes = b"".join(cell.echo for cell in cells)
    return Report(round=round_, echoes=echoes.ljust(2 * ECHO_BYTES, b"\0"), reservations=b"")


def body_of(cell: Cell) -> bytes:
    return open_cell(default_cipher(), cell.payload.tobytes(), cell.key.tobytes()).body


def backlog_of(cell: Cell) -> int:
    return open_cell(default_cipher(), cell.payload.tobytes(), cell.key.tobytes()).backlog


def test_cells_go_out_in_order_and_are_confirmed() -> None:
    queue = outbound()
    ids = [queue.add(CellKind.DATA, b"%d" % number) for number in range(5)]
    assert queue.stock == 5
    first, second = queue.take(True, 0), queue.take(True, 1)
    assert [body_of(first), body_of(second)] == [b"0", b"1"]
    assert backlog_of(first) == 0  # sealed when nothing waited behind it
    queue.settle(7)
    assert queue.stock == 3
    assert queue.confirm(report(7, first, second)) == (ids[:2], [])
    assert queue.confirm(report(7, first, second)) == ([], [])


def test_a_silent_turn_is_watched_too() -> None:
    queue = outbound()
    silence = queue.take(True, 1)
    cover = queue.take(False, 0)
    assert not silence.payload.any()
    assert not cover.key.any()
    queue.settle(0)
    arrived, spoilt = queue.confirm(report(0))
    assert arrived == []
    assert [(each.round, each.sub_slot) for each in spoilt] == [(0, 1)]


def test_a_spoilt_cell_goes_again_first_under_a_new_key() -> None:
    queue = outbound()
    for number in range(4):
        queue.add(CellKind.DATA, b"%d" % number)
    cells = [queue.take(True, 0), queue.take(True, 1)]
    queue.settle(0)
    _, spoilt = queue.confirm(report(0, cells[0]))
    assert [each.sub_slot for each in spoilt] == [1]
    again = queue.take(True, 0)
    assert body_of(again) == b"1"
    assert again.key.tobytes() != cells[1].key.tobytes()


def test_accusations_go_first() -> None:
    queue = outbound()
    queue.add(CellKind.DATA, b"data")
    assert not queue.accusing
    queue.add(CellKind.ACCUSATION, b"accusation")
    assert queue.accusing
    cell = queue.take(True, 0)
    assert body_of(cell) == b"accusation"
    queue.settle(0)
    assert queue.accusing
    assert queue.confirm(report(0, cell)) == ([], [])
    assert not queue.accusing


def test_abandoned_rounds_are_said_again_in_order() -> None:
    queue = outbound()
    for number in range(4):
        queue.add(CellKind.DATA, b"%d" % number)
    for round_ in (3, 4):
        queue.take(True, 0)
        queue.settle(round_)
    queue.abandon(4)
    assert body_of(queue.take(True, 0)) == b"0"
    queue.settle(5)
    queue.add(CellKind.ACCUSATION, b"!")
    assert [item.body for item in queue.drain()] == [b"0", b"1", b"2", b"3"]
    assert queue.stock == 0
    assert queue.drain() == []


def test_a_full_queue_says_so() -> None:
    queue = outbound(limit=2)
    for _ in range(4):
        queue.add(CellKind.DATA, b"")
    with pytest.raises(BacklogFullError):
        queue.add(CellKind.DATA, b"")
    queue.add(CellKind.ACCUSATION, b"")


def test_items_of_another_epoch_keep_their_ids() -> None:
    old, new = outbound(), outbound()
    ids = [old.add(CellKind.DATA, b"%d" % number) for number in range(3)]
    own = new.add(CellKind.DATA, b"own")
    assert own in ids
    new.adopt(old.drain())
    assert new.add(CellKind.DATA, b"later") > max(ids)
    assert body_of(new.take(True, 0)) == b"0"
