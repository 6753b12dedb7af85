"""Where frames and events meet."""

import threading

from device_doubles import frame
from headtail_device.inbox import Inbox, SourceEnded
from headtail_device.source import Dropped, Frame, Unreadable
from headtail_device.source.errors import CameraError
from headtail_fabric.clock import FakeClock
from headtail_fabric.peer.events import Expired


def take(inbox: Inbox, *, want_frame: bool = True) -> object:
    return inbox.take(want_frame=want_frame, timeout_s=0)


def test_events_come_before_frames() -> None:
    inbox = Inbox(live=False, clock=FakeClock())
    inbox.put_frame(frame(0))
    inbox.put_event(Expired(id=1))
    assert take(inbox) == Expired(id=1)
    assert isinstance(take(inbox), Frame)
    assert take(inbox) is None


def test_frames_stay_until_they_are_wanted() -> None:
    inbox = Inbox(live=False, clock=FakeClock())
    inbox.put_frame(frame(0))
    assert take(inbox, want_frame=False) is None
    assert repr(inbox) == "<Inbox events=0 frames=1>"
    assert isinstance(take(inbox), Frame)


def test_a_files_frame_is_captured_when_it_is_taken() -> None:
    clock = FakeClock(1.0)
    inbox = Inbox(live=False, clock=clock)
    inbox.put_frame(frame(0, captured_at=1.0))
    clock.advance(5)
    taken = take(inbox)
    assert isinstance(taken, Frame)
    assert taken.captured_at == 6.0


def test_a_live_frame_keeps_its_time() -> None:
    inbox = Inbox(live=True, clock=FakeClock(9.0))
    inbox.put_frame(frame(0, captured_at=1.0))
    taken = take(inbox)
    assert isinstance(taken, Frame)
    assert taken.captured_at == 1.0


def test_of_a_live_source_the_newest_frame_wins() -> None:
    inbox = Inbox(live=True, clock=FakeClock())
    for index in range(3):
        inbox.put_frame(frame(index))
    assert take(inbox) == Dropped(index=0, origin="test#0")
    assert take(inbox) == Dropped(index=1, origin="test#1")
    newest = take(inbox)
    assert isinstance(newest, Frame)
    assert newest.index == 2


def test_what_could_not_be_read_is_never_dropped() -> None:
    inbox = Inbox(live=True, clock=FakeClock())
    broken = Unreadable(index=0, origin="test#0", reason="broken")
    inbox.put_frame(broken)
    inbox.put_frame(frame(1))
    assert take(inbox) == broken


def test_the_end_comes_after_the_last_frame() -> None:
    inbox = Inbox(live=True, clock=FakeClock())
    error = CameraError("gone")
    inbox.put_frame(frame(0))
    inbox.end(error)
    assert isinstance(take(inbox), Frame)
    assert take(inbox) == SourceEnded(error=error)


def test_a_files_reader_waits_while_two_frames_wait() -> None:
    inbox = Inbox(live=False, clock=FakeClock())
    inbox.put_frame(frame(0))
    inbox.put_frame(frame(1))
    put: list[bool] = []
    reader = threading.Thread(target=lambda: put.append(inbox.put_frame(frame(2))))
    reader.start()
    assert repr(inbox) == "<Inbox events=0 frames=2>"
    take(inbox)
    reader.join()
    assert put == [True]
    assert repr(inbox) == "<Inbox events=0 frames=2>"


def test_closing_lets_the_reader_go() -> None:
    inbox = Inbox(live=False, clock=FakeClock())
    inbox.put_frame(frame(0))
    inbox.put_frame(frame(1))
    put: list[bool] = []
    reader = threading.Thread(target=lambda: put.append(inbox.put_frame(frame(2))))
    reader.start()
    inbox.close()
    reader.join()
    assert put == [False]
    assert inbox.put_frame(frame(3)) is False


def test_one_of_every_few_frames_is_taken() -> None:
    inbox = Inbox(live=True, clock=FakeClock(), every=3)
    for index in range(5):
        inbox.put_frame(frame(index))
    taken = [take(inbox) for _ in range(5)]
    assert [isinstance(one, Frame) for one in taken] == [False, False, False, True, False]
    assert isinstance(taken[0], Dropped)
    assert taken[0].reason == "a newer frame came first"
    assert isinstance(taken[1], Dropped)
    assert taken[1].reason == "not one of every 3"
