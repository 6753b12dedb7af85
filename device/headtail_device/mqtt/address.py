"""A broker and a topic as one word."""

from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import unquote, urlsplit

from headtail_fabric.errors import ConfigError

SCHEMES: Final = ("mqtt://", "mqtts://")
_PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
_LONGEST_TOPIC: Final = 65_535


class BadMqttAddressError(ConfigError):
    """The address of an MQTT topic is none. Give one such as mqtt://broker.local/line/1/camera,
    mqtts:// for TLS, with user:password@ before the host where the broker asks for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttAddress:
    """`mqtt[s]://[user[:password]@]host[:port]/topic`, percent-encoded where a part needs it."""

    host: str
    port: int
    topic: str
    tls: bool
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str, *, wildcards: bool) -> Self:
        """`wildcards`: whether the topic may be a filter (`+`, `#`). Raises BadMqttAddressError."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise BadMqttAddressError(f"not an address: {error}") from None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise BadMqttAddressError(f"{parts.scheme or text[:32]!r} is no mqtt:// or mqtts://")
        # What looks like a fragment is the wildcard of all that follows.
        path = parts.path.removeprefix("/") + ("#" + parts.fragment if "#" in text else "")
        topic = unquote(path)
        if not topic or "\0" in topic or len(topic.encode()) > _LONGEST_TOPIC:
            raise BadMqttAddressError(f"{parts.hostname} without a topic behind it")
        if not wildcards and set(topic) & {"+", "#"}:
            raise BadMqttAddressError(f"one topic is asked for, {topic!r} stands for many")
        return cls(
            host=parts.hostname,
            port=port or _PORTS[parts.scheme],
            topic=topic,
            tls=parts.scheme == "mqtts",
            user=None if parts.username is None else unquote(parts.username),
            password=None if parts.password is None else unquote(parts.password),
        )

    @property
    def name(self) -> str:
        """As it may be logged: without user and password."""
        return f"{'mqtts' if self.tls else 'mqtt'}://{self.host}:{self.port}/{self.topic}"
