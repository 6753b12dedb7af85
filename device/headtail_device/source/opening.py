"""From what an operator writes to a source."""

from pathlib import Path
from typing import Final

from headtail_device.config import Pace
from headtail_device.source.camera import CameraSource
from headtail_device.source.errors import NoSuchSourceError
from headtail_device.source.frame import Source
from headtail_device.source.pictures import SUFFIXES, PictureFolderSource
from headtail_device.source.sound import SoundFileSource
from headtail_device.source.video import VideoSource
from headtail_device.source.watched import WatchedFolderSource
from headtail_fabric.clock import Clock
from headtail_fabric.errors import ConfigError
from headtail_models.audio.log_mel import LogMel

_SOUND: Final = ".wav"
_WATCH: Final = "watch:"
_STREAMS: Final = ("rtsp://", "rtsps://", "rtmp://", "http://", "https://", "udp://", "tcp://")


class WrongKindError(ConfigError):
    """The bundle takes sounds and the source gives pictures, or the other way round. Name a WAV
    file for a bundle that hears, and anything else for one that sees."""


def open_source(
    spec: str, *, pace: Pace, deadline_s: float, clock: Clock, front: LogMel | None = None
) -> Source:
    """The source that `spec` names: a camera's number or /dev/videoN, a stream's address, a video
    file, a picture, a folder of pictures, or `watch:` and a folder to watch. With `front`, how a
    bundle hears: a WAV file.

    A camera or stream runs at its own pace, whatever `pace` says. Raises NoSuchSourceError,
    SourceError or one of its kinds, the errors of WAV files, WrongKindError, and ConfigError when
    pictures are asked for in real time.
    """
    if (Path(spec).suffix.lower() == _SOUND) is (front is None):
        raise WrongKindError(f"{spec!r} is not what the bundle takes", source=spec)
    if spec.isascii() and spec.isdigit():
        return CameraSource(int(spec), deadline_s=deadline_s, clock=clock)
    if spec.startswith(("/dev/video", *_STREAMS)):
        return CameraSource(spec, deadline_s=deadline_s, clock=clock)
    watch, path = spec.startswith(_WATCH), Path(spec.removeprefix(_WATCH)).expanduser()
    if not spec or not path.exists():
        raise NoSuchSourceError(f"no such source: {spec!r}", source=spec)
    if watch and not path.is_dir():
        raise NoSuchSourceError(f"{path} is no folder to watch", source=spec)
    if front is not None:
        return SoundFileSource(
            path, front=front, deadline_s=deadline_s, clock=clock, realtime=pace == "realtime"
        )
    is_picture = path.suffix.lower() in SUFFIXES
    if not path.is_dir() and not is_picture:
        return VideoSource(path, deadline_s=deadline_s, clock=clock, realtime=pace == "realtime")
    if pace == "realtime":
        raise ConfigError(f"{spec}: pictures have no frame rate, so pace must be 'fast'")
    if watch:
        return WatchedFolderSource(path, deadline_s=deadline_s, clock=clock)
    if path.is_dir():
        return PictureFolderSource.of_folder(path, deadline_s=deadline_s, clock=clock)
    return PictureFolderSource([path], name=path.name, deadline_s=deadline_s, clock=clock)
