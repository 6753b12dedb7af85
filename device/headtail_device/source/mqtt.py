"""What comes over MQTT: pictures, stretches of sound, lines of readings."""

from collections.abc import Iterator

from headtail_device.mqtt import MqttLink
from headtail_device.source.closing import ClosingSource
from headtail_device.source.frame import Captured
from headtail_device.source.pictures import decoded_picture
from headtail_device.source.stream import LOOK_UP_S
from headtail_fabric.clock import Clock


class MqttPictureSource(ClosingSource):
    """A message a frame: a picture file of any kind that OpenCV reads. Anything else is yielded as
    Unreadable."""

    def __init__(self, link: MqttLink, *, deadline_s: float, clock: Clock) -> None:
        super().__init__(deadline_s=deadline_s, clock=clock)
        self._link = link

    @property
    def name(self) -> str:
        return self._link.name

    @property
    def live(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Captured]:
        index = 0
        while not self._closing.is_set():
            message = self._link.take(LOOK_UP_S)
            if message is None:
                continue
            yield decoded_picture(
                message,
                index=index,
                origin=f"{self.name}#{index}",
                deadline_s=self._deadline_s,
                clock=self._clock,
            )
            index += 1

    def _release(self) -> None:
        self._link.close()


class MqttStream:
    """The messages joined to a stream of bytes, with `end` after each."""

    def __init__(self, link: MqttLink, *, end: bytes) -> None:
        self._link = link
        self._end = end

    def read(self) -> bytes | None:
        """Raises MqttError."""
        message = self._link.take(LOOK_UP_S)
        return None if message is None else message + self._end

    def close(self) -> None:
        self._link.close()
