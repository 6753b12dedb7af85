"""A serial port as a stream of bytes."""

from typing import Any, Final

from headtail_device.source.errors import NoSuchSourceError
from headtail_device.source.stream import LOOK_UP_S
from headtail_fabric.errors import ConfigError

_BAUD: Final = 115_200
_PIECE: Final = 4096


class SerialStream:
    """`/dev/ttyUSB0`, or `/dev/ttyUSB0@9600` with its speed. Needs the extra `serial`.

    Raises ConfigError without it, NoSuchSourceError when the port can't be opened.
    """

    def __init__(self, spec: str) -> None:
        try:
            import serial
        except ImportError:
            raise ConfigError(
                "a serial port needs pyserial: pip install 'headtail[serial]'"
            ) from None
        path, _, speed = spec.partition("@")
        if not path or (speed and not (speed.isascii() and speed.isdigit() and int(speed) > 0)):
            raise NoSuchSourceError(f"{spec!r} is no serial port: /dev/ttyUSB0@115200 is one")
        try:
            self._port: Any = serial.Serial(
                path, int(speed or _BAUD), timeout=LOOK_UP_S, exclusive=True
            )
        except (OSError, ValueError) as error:
            raise NoSuchSourceError(f"serial port {path} can't be opened: {error}") from None
        self.name = path

    def read(self) -> bytes | None:
        """Pyserial's own errors are OSErrors."""
        piece: bytes = self._port.read(min(_PIECE, self._port.in_waiting or 1))
        return piece or None

    def close(self) -> None:
        self._port.close()
