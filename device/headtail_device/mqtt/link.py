"""One connection to a broker, kept up by paho-mqtt's own thread."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from headtail_device.mqtt.address import MqttAddress
from headtail_fabric.errors import ConfigError, ResourceError

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

_CONNECT_S: Final = 10.0
_LONGEST_RETRY_S: Final = 30
_KEPT: Final = 256
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024


class MqttError(ResourceError):
    """The MQTT broker can't be reached or refuses this device. Check its address, the user and
    password, and that it lets this user at the topic."""


class MqttLink:
    """Subscribed to `address.topic`, or with `subscribe` false only able to publish there.

    Comes back by itself after a lost connection. A broker that refuses the user is an error, at
    once or, when it changes its mind later, from the next call on. Raises MqttError, ConfigError
    without the extra.
    """

    def __init__(self, address: MqttAddress, *, subscribe: bool) -> None:
        try:
            from paho.mqtt import client as paho
            from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
        except ImportError:
            raise ConfigError("MQTT needs paho-mqtt: pip install 'headtail[mqtt]'") from None
        self._address = address
        self._subscribe = subscribe
        self._changed = threading.Condition()
        self._messages: deque[bytes] = deque(maxlen=_KEPT)
        self._fate: str | None = None
        self._up = False
        self._closed = False
        self.lost = 0
        """Messages that came faster than they were taken, and those too large."""
        self._done = MQTTErrorCode.MQTT_ERR_SUCCESS
        self._client: Client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_message = self._on_message
        self._client.reconnect_delay_set(1, _LONGEST_RETRY_S)
        if address.user is not None:
            self._client.username_pw_set(address.user, address.password)
        if address.tls:
            self._client.tls_set()
        self._client.connect_timeout = _CONNECT_S
        try:
            self._client.connect(address.host, address.port)
        except (OSError, ValueError) as error:
            raise MqttError(f"{address.name}: {error}") from None
        self._client.loop_start()
        with self._changed:
            self._changed.wait_for(lambda: self._up or self._fate is not None, _CONNECT_S)
            fate = self._fate or (None if self._up else "the broker does not answer")
        if fate is not None:
            self.close()
            raise MqttError(f"{address.name}: {fate}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        return self._address.name

    def take(self, timeout_s: float) -> bytes | None:
        """The next message, None when none came in time. Raises MqttError."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._messages or self._closed or self._fate is not None, timeout_s
            )
            if self._messages:
                return self._messages.popleft()
            if self._fate is not None and not self._closed:
                raise MqttError(f"{self.name}: {self._fate}")
            return None

    def publish(self, messages: Sequence[bytes], timeout_s: float) -> None:
        """Each at least once (QoS 1). Raises MqttError when the broker has not taken all in time;
        it may have some of them, and may still get others."""
        sent = [self._client.publish(self._address.topic, message, qos=1) for message in messages]
        try:
            for one in sent:
                one.wait_for_publish(timeout_s)
        except (RuntimeError, ValueError) as error:
            raise MqttError(f"{self.name}: the broker does not take messages: {error}") from None
        if not all(one.is_published() for one in sent):
            raise MqttError(f"{self.name}: the broker does not take messages")

    def close(self) -> None:
        """Messages that were not taken are gone."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._client.disconnect()
        self._client.loop_stop()

    def _on_connect(
        self, client: "Client", data: Any, flags: Any, reason: Any, properties: Any
    ) -> None:
        fate: str | None = None
        if reason.is_failure:
            fate = f"the broker refuses this device: {reason}"
        elif self._subscribe:
            client.subscribe(self._address.topic, qos=1)
        with self._changed:
            self._fate = fate
            self._up = fate is None
            self._changed.notify_all()

    def _on_disconnect(
        self, client: "Client", data: Any, flags: Any, reason: Any, properties: Any
    ) -> None:
        with self._changed:
            self._up = False

    def _on_message(self, client: "Client", data: Any, message: "MQTTMessage") -> None:
        with self._changed:
            if len(message.payload) > MAX_MESSAGE_BYTES:
                self.lost += 1
                return
            self.lost += len(self._messages) == _KEPT
            self._messages.append(bytes(message.payload))
            self._changed.notify_all()
