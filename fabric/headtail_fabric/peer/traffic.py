"""Running counts of the messages that one shell moved."""

from headtail_fabric.peer.ports import TrafficCount


class MessageCount:
    """Messages and their bytes, ZMTP framing included, seen from the shell that counts."""

    def __init__(self) -> None:
        self._sent = self._received = 0
        self._bytes_sent = self._bytes_received = 0

    def left(self, size_bytes: int) -> None:
        self._sent += 1
        self._bytes_sent += size_bytes

    def came(self, size_bytes: int) -> None:
        self._received += 1
        self._bytes_received += size_bytes

    def traffic_at_client(
        self, socket_bytes: tuple[int, int] | None, *, retries: int
    ) -> TrafficCount:
        """`socket_bytes` are those sent and received at the socket; a client sends "up"."""
        sent, received = socket_bytes or (None, None)
        return TrafficCount(
            messages_up=self._sent,
            messages_down=self._received,
            message_bytes_up=self._bytes_sent,
            message_bytes_down=self._bytes_received,
            socket_bytes_up=sent,
            socket_bytes_down=received,
            retries=retries,
        )

    def traffic_at_server(self, socket_bytes: tuple[int, int] | None) -> TrafficCount:
        """`socket_bytes` are those sent and received at the socket; a server receives "up"."""
        sent, received = socket_bytes or (None, None)
        return TrafficCount(
            messages_up=self._received,
            messages_down=self._sent,
            message_bytes_up=self._bytes_received,
            message_bytes_down=self._bytes_sent,
            socket_bytes_up=received,
            socket_bytes_down=sent,
        )
