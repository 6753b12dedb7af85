"""What an operator writes, and the source it means."""

from pathlib import Path
from typing import get_args

import cv2
import pytest

from device_doubles import picture, write_video
from headtail_device.config import Pace
from headtail_device.mqtt import BadMqttAddressError, MqttError
from headtail_device.source import Frame, Source, SourceOpener
from headtail_device.source.errors import CameraError, NoSuchSourceError
from headtail_device.source.opening import WrongKindError
from headtail_device.source.pictures import PictureFolderSource
from headtail_device.source.video import VideoSource
from headtail_fabric.clock import FakeClock
from headtail_fabric.errors import ConfigError
from headtail_models.bundle.manifest import LogMel, Preparation, Preprocess, Signal

CLOCK = FakeClock()
SEES = Preprocess(kind="letterbox", width=32, height=32)
HEARS = LogMel()
FEELS = Signal(rate_hz=50, window=4, hop=2, offset=(0.0, 0.0), scale=(1.0, 1.0))


def opened(spec: str | Path, takes: Preparation = SEES, *, pace: Pace = "fast") -> Source:
    return SourceOpener(pace=pace, deadline_s=1, clock=CLOCK).open(str(spec), takes)


def test_a_file_is_a_video(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mp4", frames=2)
    for pace in get_args(Pace):
        with opened(path, pace=pace) as source:
            assert isinstance(source, VideoSource)
            assert source.live is (pace == "realtime")


def test_a_picture_and_a_folder_are_pictures(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), picture())
    for spec in (tmp_path, tmp_path / "a.png"):
        with opened(spec) as source:
            assert isinstance(source, PictureFolderSource)
            assert len(list(source)) == 1


def test_pictures_have_no_real_time(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pace must be 'fast'"):
        opened(tmp_path, pace="realtime")


@pytest.mark.parametrize(
    ("spec", "takes"),
    [
        ("", SEES),
        ("nosuch.mp4", SEES),
        ("nosuch/folder", SEES),
        ("nosuch.wav", HEARS),
        ("nosuch.csv", FEELS),
        ("serial:/dev/nosuch", FEELS),
        ("serial:@9600", FEELS),
        ("serial:/dev/null@fast", FEELS),
    ],
)
def test_what_is_not_there_says_so(spec: str, takes: Preparation) -> None:
    with pytest.raises(NoSuchSourceError) as caught:
        opened(spec, takes)
    assert "folder of pictures" in caught.value.advice


@pytest.mark.parametrize("spec", ["98", "/dev/video98"])
def test_a_number_or_device_is_a_camera(spec: str) -> None:
    with pytest.raises(CameraError):
        opened(spec)


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("a.wav", SEES),
        ("-", SEES),
        ("mic:", SEES),
        ("serial:/dev/null", SEES),
        ("a.png", HEARS),
        ("0", HEARS),
        ("a.wav", FEELS),
        ("a.png", FEELS),
    ],
)
def test_what_gives_something_else_is_told(tmp_path: Path, name: str, takes: Preparation) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    spec = tmp_path / name if "." in name else name
    with pytest.raises(WrongKindError, match="gives no"):
        opened(spec, takes)


@pytest.mark.parametrize(
    "spec", ["mqtt://", "mqtt://host", "mqtt://host/", "mqtt://host:99999/a", "mqtts:///a"]
)
def test_a_topic_that_is_none_is_told(spec: str) -> None:
    with pytest.raises(BadMqttAddressError):
        opened(spec)


def test_a_broker_that_is_not_there_is_told() -> None:
    with pytest.raises(MqttError, match=r"mqtt://127\.0\.0\.1:1/a"):
        opened("mqtt://user:secret@127.0.0.1:1/a")


def test_a_text_file_has_readings(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "".join(f"{n},{-n}\n" for n in range(7)))
    with opened(path, FEELS) as source:
        items = list(source)
        assert (source.live, source.rate_hz, source.name) == (False, 25.0, "a.csv")
    frames = [item for item in items if isinstance(item, Frame)]
    assert [frame.data[:, 0].tolist() for frame in frames] == [[0, 1, 2, 3], [2, 3, 4, 5]]
    assert frames[0].data[:, 1].tolist() == [0, -1, -2, -3]
    assert frames[0].picture is None
