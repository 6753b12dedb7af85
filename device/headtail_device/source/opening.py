"""From what an operator writes to a source."""

from pathlib import Path
from typing import Final

from headtail_device.config import Pace
from headtail_device.source.camera import CameraSource
from headtail_device.source.errors import NoSuchSourceError
from headtail_device.source.frame import Source
from headtail_device.source.pictures import SUFFIXES, PictureFolderSource
from headtail_device.source.video import VideoSource
from headtail_fabric.clock import Clock
from headtail_fabric.errors import ConfigError

_STREAMS: Final = ("rtsp://", "rtsps://", "rtmp://", "http://", "https://", "udp://", "tcp://")


def open_source(spec: str, *, pace: Pace, deadline_s: float, clock: Clock) -> Source:
    """The source that `spec` names: a camera's number or /dev/videoN, a stream's address, a video
    file, a picture, or a folder of pictures.

    A camera or stream runs at its own pace, whatever `pace` says. Raises NoSuchSourceError,
    SourceError or one of its kinds, and ConfigError when pictures are asked for in real time.
    """
    if spec.isascii() and spec.isdigit():
        return CameraSource(int(spec), deadline_s=deadline_s, clock=clock)
    if spec.startswith(("/dev/video", *_STREAMS)):
        return CameraSource(spec, deadline_s=deadline_s, clock=clock)
    path = Path(spec).expanduser()
    if not spec or not path.exists():
        raise NoSuchSourceError(f"no such source: {spec!r}", source=spec)
    is_picture = path.suffix.lower() in SUFFIXES
    if not path.is_dir() and not is_picture:
        return VideoSource(path, deadline_s=deadline_s, clock=clock, realtime=pace == "realtime")
    if pace == "realtime":
        raise ConfigError(f"{spec}: pictures have no frame rate, so pace must be 'fast'")
    if path.is_dir():
        return PictureFolderSource.of_folder(path, deadline_s=deadline_s, clock=clock)
    return PictureFolderSource([path], name=path.name, deadline_s=deadline_s, clock=clock)
