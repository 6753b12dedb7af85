"""From what an operator writes to a source."""

import os
import sys
from pathlib import Path
from typing import Final

from headtail_device.config import Pace
from headtail_device.mqtt import MqttAddress, MqttLink
from headtail_device.mqtt.address import SCHEMES as MQTT
from headtail_device.source.camera import CameraSource
from headtail_device.source.errors import NoSuchSourceError
from headtail_device.source.frame import Source
from headtail_device.source.lines import LineSource
from headtail_device.source.microphone import MicrophoneStream
from headtail_device.source.mqtt import MqttPictureSource, MqttStream
from headtail_device.source.pictures import SUFFIXES, PictureFolderSource
from headtail_device.source.serial_port import SerialStream
from headtail_device.source.sound import SoundFileSource
from headtail_device.source.sound_stream import SoundStreamSource
from headtail_device.source.stream import ByteStream, DescriptorStream
from headtail_device.source.video import VideoSource
from headtail_device.source.watched import WatchedFolderSource
from headtail_fabric.clock import Clock
from headtail_fabric.errors import ConfigError
from headtail_models.bundle.manifest import LogMel, Preparation, Preprocess, Signal

STANDARD_INPUT: Final = "-"
_SOUND: Final = ".wav"
_WATCH: Final = "watch:"
_MICROPHONE: Final = "mic:"
_SERIAL: Final = "serial:"
_STREAMS: Final = ("rtsp://", "rtsps://", "rtmp://", "http://", "https://", "udp://", "tcp://")


class WrongKindError(ConfigError):
    """The source does not give what the bundle takes. A bundle that sees wants a video, pictures or
    a camera, one that hears a WAV file, mic: or sound on standard input, one that feels (readings
    of sensors) a text file, serial:/dev/... or lines on standard input; mqtt:// is for all."""


class SourceOpener:
    """Opens sources for one device."""

    def __init__(
        self, *, pace: Pace, deadline_s: float, clock: Clock, patience_s: float = 0.0
    ) -> None:
        """`patience_s`: how long a camera that is gone is waited for."""
        self._pace = pace
        self._deadline_s = deadline_s
        self._clock = clock
        self._patience_s = patience_s

    def open(self, spec: str, takes: Preparation) -> Source:
        """The source that `spec` names, for a bundle that takes what `takes` prepares. A camera,
        microphone, serial port or broker runs at its own pace, whatever was asked for.

        Raises NoSuchSourceError, SourceError or one of its kinds, the errors of WAV files,
        BadMqttAddressError, MqttError, WrongKindError, and ConfigError when an extra is missing or
        pictures are asked for in real time.
        """
        if not spec:
            raise NoSuchSourceError("no source is named")
        if isinstance(takes, LogMel):
            return self._sound(spec, takes)
        if isinstance(takes, Signal):
            return self._readings(spec, takes)
        assert isinstance(takes, Preprocess), "there are three ways"
        return self._pictures(spec)

    @property
    def _realtime(self) -> bool:
        return self._pace == "realtime"

    def _pictures(self, spec: str) -> Source:
        deadline_s, clock = self._deadline_s, self._clock
        if spec.isascii() and spec.isdigit():
            return self._camera(int(spec))
        if spec.startswith(("/dev/video", *_STREAMS)):
            return self._camera(spec)
        if spec.startswith(MQTT):
            return MqttPictureSource(_subscribe(spec), deadline_s=deadline_s, clock=clock)
        watch, path = spec.startswith(_WATCH), Path(spec.removeprefix(_WATCH)).expanduser()
        if spec == STANDARD_INPUT or spec.startswith((_MICROPHONE, _SERIAL)) or _hears(path):
            raise WrongKindError(f"{spec!r} gives no pictures", source=spec)
        _check_there(path, spec)
        if watch and not path.is_dir():
            raise NoSuchSourceError(f"{path} is no folder to watch", source=spec)
        is_picture = path.suffix.lower() in SUFFIXES
        if not path.is_dir() and not is_picture:
            return VideoSource(path, deadline_s=deadline_s, clock=clock, realtime=self._realtime)
        if self._realtime:
            raise ConfigError(f"{spec}: pictures have no frame rate, so pace must be 'fast'")
        if watch:
            return WatchedFolderSource(path, deadline_s=deadline_s, clock=clock)
        if path.is_dir():
            return PictureFolderSource.of_folder(path, deadline_s=deadline_s, clock=clock)
        return PictureFolderSource([path], name=path.name, deadline_s=deadline_s, clock=clock)

    def _camera(self, camera: int | str) -> Source:
        return CameraSource(
            camera,
            deadline_s=self._deadline_s,
            clock=self._clock,
            patience_s=self._patience_s,
        )

    def _sound(self, spec: str, takes: LogMel) -> Source:
        front = takes.front()
        stream: ByteStream
        if spec.startswith(_MICROPHONE):
            device = spec.removeprefix(_MICROPHONE)
            name, stream = spec, MicrophoneStream(device, rate=front.rate)
        elif spec.startswith(MQTT):
            link = _subscribe(spec)
            name, stream = link.name, MqttStream(link, end=b"")
        elif spec == STANDARD_INPUT:
            name, stream = "standard input", DescriptorStream(sys.stdin.fileno(), own=False)
        else:
            path = Path(spec).expanduser()
            if not _hears(path):
                raise WrongKindError(f"{spec!r} gives no sound", source=spec)
            _check_there(path, spec)
            return SoundFileSource(
                path,
                front=front,
                deadline_s=self._deadline_s,
                clock=self._clock,
                realtime=self._realtime,
            )
        return SoundStreamSource(
            stream,
            name=name,
            front=front,
            deadline_s=self._deadline_s,
            clock=self._clock,
            live=self._realtime or spec != STANDARD_INPUT,
        )

    def _readings(self, spec: str, takes: Signal) -> Source:
        stream: ByteStream
        live = True
        if spec.startswith(_SERIAL):
            port = SerialStream(spec.removeprefix(_SERIAL))
            name, stream = port.name, port
        elif spec.startswith(MQTT):
            link = _subscribe(spec)
            name, stream = link.name, MqttStream(link, end=b"\n")
        elif spec == STANDARD_INPUT:
            name, stream = "standard input", DescriptorStream(sys.stdin.fileno(), own=False)
            live = self._realtime
        else:
            path, live = Path(spec).expanduser(), False
            if _hears(path) or path.is_dir() or path.suffix.lower() in SUFFIXES:
                raise WrongKindError(f"{spec!r} gives no readings", source=spec)
            name, stream = path.name, DescriptorStream(_opened(path, spec), own=True)
        return LineSource(
            stream,
            name=name,
            signal=takes,
            deadline_s=self._deadline_s,
            clock=self._clock,
            live=live,
        )


def _hears(path: Path) -> bool:
    return path.suffix.lower() == _SOUND


def _check_there(path: Path, spec: str) -> None:
    if not path.exists():
        raise NoSuchSourceError(f"no such source: {spec!r}", source=spec)


def _opened(path: Path, spec: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise NoSuchSourceError(f"{spec!r}: {error.strerror}", source=spec) from None


def _subscribe(spec: str) -> MqttLink:
    return MqttLink(MqttAddress.parse(spec, wildcards=True), subscribe=True)
