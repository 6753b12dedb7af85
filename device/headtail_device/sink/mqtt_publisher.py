"""Lines as messages of one MQTT topic."""

from collections.abc import Sequence
from typing import Final

from headtail_device.mqtt import MqttError, MqttLink
from headtail_device.sink.remote import NotCarriedError, Refusal

_TIMEOUT_S: Final = 10.0


class MqttPublisher:
    """A message a line, at least once (QoS 1)."""

    def __init__(self, link: MqttLink) -> None:
        self._link = link

    @property
    def name(self) -> str:
        return self._link.name

    def carry(self, lines: Sequence[bytes]) -> Refusal | None:
        try:
            self._link.publish([line.rstrip(b"\n") for line in lines], _TIMEOUT_S)
        except MqttError as error:
            raise NotCarriedError(error.message) from None
        return None

    def close(self) -> None:
        self._link.close()
