"""An output in a thread of its own: nothing is lost, out of order or silent."""

import threading

import numpy as np
import pytest

from headtail_device.background import BackgroundSink, OutputBrokenError
from headtail_device.delivery import Finished
from headtail_device.ledger import Outcome
from headtail_device.record import FrameRecord
from headtail_device.sink import SinkBoard, SinkError


def finished(index: int) -> Finished:
    record = FrameRecord(index=index, origin="", outcome=Outcome.LOCAL)
    return Finished(record=record, picture=np.zeros((2, 2, 3), dtype=np.uint8))


class Recorder:
    path = "somewhere"

    def __init__(self, error: Exception | None = None) -> None:
        self.written: list[int] = []
        self.closed = False
        self.threads: set[int] = set()
        self.gate = threading.Event()
        self.gate.set()
        self._error = error

    def write(self, finished: Finished) -> None:
        self.gate.wait()
        self.threads.add(threading.get_ident())
        if self._error is not None:
            raise self._error
        self.written.append(finished.record.index)

    def close(self) -> None:
        self.closed = True


def test_all_is_written_in_order_by_another_thread() -> None:
    inner = Recorder()
    sink = BackgroundSink(inner)
    for index in range(50):
        sink.write(finished(index))
    sink.close()
    assert inner.written == list(range(50))
    assert inner.closed
    assert threading.get_ident() not in inner.threads
    assert sink.path == "somewhere"


def test_whoever_writes_does_not_wait_for_a_slow_output() -> None:
    inner = Recorder()
    inner.gate.clear()
    sink = BackgroundSink(inner)
    for index in range(8):
        sink.write(finished(index))  # would hang if it waited
    assert not inner.written
    inner.gate.set()
    sink.close()
    assert inner.written == list(range(8))


@pytest.mark.parametrize(
    ("error", "kind"),
    [(SinkError("full", path="somewhere"), SinkError), (KeyError("?"), OutputBrokenError)],
)
def test_what_goes_wrong_comes_up_at_the_board(error: Exception, kind: type[SinkError]) -> None:
    inner = Recorder(error)
    board = SinkBoard()
    board.add(BackgroundSink(inner))
    for index in range(50):
        board.write(finished(index))
    board.close()
    (failure,) = board.failures
    assert isinstance(failure, kind)
    assert inner.closed
    assert not inner.written
    assert board.paths == ()
