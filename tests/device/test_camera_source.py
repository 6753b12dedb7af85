"""A camera, played by a script."""

import numpy as np
import pytest

from device_doubles import ScriptedCapture, picture
from headtail_device.source import Frame
from headtail_device.source.camera import CameraSource
from headtail_device.source.errors import CameraError
from headtail_fabric.clock import FakeClock


def camera(capture: ScriptedCapture, *, name: int | str = 0) -> CameraSource:
    return CameraSource(name, deadline_s=1, clock=FakeClock(3.0), open_capture=lambda _: capture)


def test_pictures_come_with_the_time_at_which_they_were_taken() -> None:
    with camera(ScriptedCapture([True, True])) as source:
        assert (source.live, source.rate_hz, source.frame_count) == (True, 30, None)
        frames = iter(source)
        item = next(frames)
        assert isinstance(item, Frame)
        assert (item.index, item.captured_at, item.origin) == (0, 3.0, "camera 0#0")
        assert np.array_equal(item.data, picture())
        assert next(frames).index == 1


def test_an_unplugged_camera_is_an_error() -> None:
    capture = ScriptedCapture([True])
    with camera(capture) as source, pytest.raises(CameraError, match="camera 0 gives no more"):
        list(source)
    assert capture.released


def test_a_few_failed_reads_are_forgiven() -> None:
    capture = ScriptedCapture([True, False, False, False, True])
    with camera(capture) as source:
        frames = iter(source)
        assert [next(frames).index, next(frames).index] == [0, 1]


def test_a_camera_that_does_not_open_says_which() -> None:
    with pytest.raises(CameraError, match=r"/dev/video7 can't be opened"):
        camera(ScriptedCapture([], opened=False), name="/dev/video7")


def test_no_camera_is_there() -> None:
    with pytest.raises(CameraError):
        CameraSource(99, deadline_s=1, clock=FakeClock())


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("rtsp://user:secret@host:554/a", "rtsp://host:554/a"),
        ("rtsp://host/a@b", "rtsp://host/a@b"),
        ("rtsp://u:p@ss@host/a", "rtsp://host/a"),
    ],
)
def test_a_streams_password_is_never_shown(address: str, shown: str) -> None:
    assert camera(ScriptedCapture([]), name=address).name == shown


def test_closing_ends_the_iteration() -> None:
    with camera(ScriptedCapture([True, False])) as source:
        frames = iter(source)
        next(frames)
        source.close()
        assert list(frames) == []


class Cameras:
    """What opening gives, time after time; then nothing opens."""

    def __init__(self, *captures: ScriptedCapture) -> None:
        self._captures = list(captures)
        self.opened = 0

    def __call__(self, _: int | str) -> ScriptedCapture:
        self.opened += 1
        return self._captures.pop(0) if self._captures else ScriptedCapture([], opened=False)


def test_a_camera_that_comes_back_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    clock, first = FakeClock(), ScriptedCapture([True])
    cameras = Cameras(first, ScriptedCapture([], opened=False), ScriptedCapture([True]))
    with CameraSource(
        0, deadline_s=1, clock=clock, patience_s=60, open_capture=cameras, wait=clock.advance
    ) as source:
        frames = iter(source)
        assert [next(frames).index, next(frames).index] == [0, 1]
    assert first.released
    assert clock.now() == 0.5 + 1.0
    warnings = [one.message for one in caplog.records if one.levelname == "WARNING"]
    assert warnings == ["the camera is gone; trying again"]


def test_patience_ends(caplog: pytest.LogCaptureFixture) -> None:
    clock, cameras = FakeClock(), Cameras(ScriptedCapture([True]))
    with (
        CameraSource(
            0, deadline_s=1, clock=clock, patience_s=100, open_capture=cameras, wait=clock.advance
        ) as source,
        pytest.raises(CameraError, match="gives no more"),
    ):
        list(source)
    # after 0.5, 1, 2, 4, 8, 16, 30, 30, 30 seconds
    assert cameras.opened == 1 + 9
    assert len([one for one in caplog.records if one.levelname == "WARNING"]) == 1


def test_waiting_for_a_camera_ends_when_it_is_closed() -> None:
    clock = FakeClock()
    source = CameraSource(
        0,
        deadline_s=1,
        clock=clock,
        patience_s=100,
        open_capture=Cameras(ScriptedCapture([True])),
        wait=lambda _: source.close(),
    )
    with source:
        assert len(list(source)) == 1
