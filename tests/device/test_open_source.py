"""What an operator writes, and the source it means."""

from pathlib import Path
from typing import get_args

import cv2
import pytest

from device_doubles import picture, write_video
from headtail_device.config import Pace
from headtail_device.source import open_source
from headtail_device.source.errors import CameraError, NoSuchSourceError
from headtail_device.source.pictures import PictureFolderSource
from headtail_device.source.video import VideoSource
from headtail_fabric.clock import FakeClock
from headtail_fabric.errors import ConfigError

CLOCK = FakeClock()


def test_a_file_is_a_video(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mp4", frames=2)
    for pace in get_args(Pace):
        with open_source(str(path), pace=pace, deadline_s=1, clock=CLOCK) as source:
            assert isinstance(source, VideoSource)
            assert source.live is (pace == "realtime")


def test_a_picture_and_a_folder_are_pictures(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), picture())
    for spec in (tmp_path, tmp_path / "a.png"):
        with open_source(str(spec), pace="fast", deadline_s=1, clock=CLOCK) as source:
            assert isinstance(source, PictureFolderSource)
            assert len(list(source)) == 1


def test_pictures_have_no_real_time(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pace must be 'fast'"):
        open_source(str(tmp_path), pace="realtime", deadline_s=1, clock=CLOCK)


@pytest.mark.parametrize("spec", ["", "nosuch.mp4", "nosuch/folder"])
def test_what_is_not_there_says_so(spec: str) -> None:
    with pytest.raises(NoSuchSourceError, match="no such source") as caught:
        open_source(spec, pace="fast", deadline_s=1, clock=CLOCK)
    assert "folder of pictures" in caught.value.advice


@pytest.mark.parametrize("spec", ["98", "/dev/video98"])
def test_a_number_or_device_is_a_camera(spec: str) -> None:
    with pytest.raises(CameraError):
        open_source(spec, pace="fast", deadline_s=1, clock=CLOCK)
