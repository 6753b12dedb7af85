"""One node on a serial line: COBS packets, sealed or as they are."""

import logging
import time
from collections.abc import Hashable, Iterator
from typing import Any, Final

import zmq

from headtail_edge.gateway.cobs import Decoder, encode
from headtail_edge.gateway.config import SerialConfig
from headtail_edge.gateway.envelope import OVERHEAD
from headtail_edge.gateway.links.link import Incoming
from headtail_edge.gateway.links.sealed import Sealed
from headtail_edge.gateway.messages import MAX_BYTES
from headtail_fabric.errors import ConfigError, ResourceError
from headtail_fabric.logs import fields

_RETRY_S: Final = 2.0

log = logging.getLogger(__name__)


class SerialMissingError(ConfigError):
    """Serial links need the package pyserial. Install it with `pip install 'headtail[serial]'`."""


class SerialLineError(ResourceError):
    """The serial line can't be opened. Check that the device is there, that this user may use it
    (on Debian: the group dialout), and that no other program has it open."""


class SerialLink:
    """A `Link`. A line that breaks, as when the board is unplugged, is opened again and again.

    Raises SerialMissingError, SerialLineError.
    """

    def __init__(self, config: SerialConfig, sealed: Sealed) -> None:
        try:
            import serial
        except ImportError:
            raise SerialMissingError("there is no pyserial") from None
        self._serial = serial
        self._config = config
        self._sealed = sealed
        self._decoder = Decoder(max_bytes=MAX_BYTES + OVERHEAD)
        self._poller: zmq.Poller | None = None
        self._try_at = 0.0
        self.endpoint = f"serial:{config.device}"
        self._line: Any = None
        try:
            self._open()
        except OSError as error:
            raise SerialLineError(f"{config.device}: {error}", device=config.device) from None

    def watch(self, poller: zmq.Poller) -> None:
        self._poller = poller
        poller.register(self._line.fileno(), zmq.POLLIN)

    def read(self) -> Iterator[Incoming]:
        for packet in self._decoder.receive(self._take()):
            if self._config.node is not None:
                yield Incoming(self._config.device, self._config.node, packet)
            elif (opened := self._sealed.open(packet)) is not None:
                yield Incoming(self._config.device, *opened)

    def send(self, address: Hashable, node: str, data: bytes) -> None:
        packet = data if self._config.node is not None else self._sealed.seal(node, data)
        if packet is None or self._line is None:
            return
        try:
            self._line.write(encode(packet))
        except OSError as error:
            self._broke(error)

    def close(self) -> None:
        if self._line is not None:
            self._line.close()

    def _open(self) -> None:
        self._line = self._serial.Serial(
            self._config.device, self._config.baud, timeout=0, write_timeout=1.0, exclusive=True
        )

    def _take(self) -> bytes:
        try:
            if self._line is not None:
                return bytes(self._line.read(4096))
            if time.monotonic() >= self._try_at:
                self._try_at = time.monotonic() + _RETRY_S
                self._open()
                if self._poller is not None:
                    self.watch(self._poller)
                log.info("serial line is back", extra=fields(device=self._config.device))
        except OSError as error:
            self._broke(error)
        return b""

    def _broke(self, error: OSError) -> None:
        if self._line is None:
            return
        log.warning(
            "serial line broke", extra=fields(device=self._config.device, reason=str(error))
        )
        if self._poller is not None:
            self._poller.unregister(self._line.fileno())
        self._line.close()
        self._line = None
