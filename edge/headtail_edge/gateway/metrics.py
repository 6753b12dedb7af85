"""What a gateway counts of itself."""

from enum import StrEnum

from headtail_fabric.metrics import Metrics


class Dropped(StrEnum):
    """Why a message went no further."""

    UNKNOWN = "unknown"
    FORGED = "forged"
    MALFORMED = "malformed"
    IMPOSTOR = "impostor"
    QUOTA = "quota"
    STRANGER = "stranger"


class GatewayMetrics:
    """The gateway's instruments. Safe to use from any thread."""

    def __init__(self, metrics: Metrics) -> None:
        self._sessions = metrics.gauge("gateway_sessions", "Nodes heard lately")
        self._waiting = metrics.gauge("gateway_waiting", "Records that wait for the edge")
        self._records = metrics.counter("gateway_records", "Records settled", ["kind"])
        self._dropped = metrics.counter(
            "gateway_dropped", "Messages that went no further", ["reason"]
        )
        self._pieces = metrics.counter("gateway_update_bytes", "Bytes of updates sent to nodes")
        self._answers = metrics.counter(
            "gateway_answers_forgotten", "Answers that gave way to newer ones before they were told"
        )

    def settled(self, kind: str) -> None:
        """A record was settled; `kind` is a line's."""
        self._records.add(kind=kind)

    def dropped(self, reason: Dropped, count: int = 1) -> None:
        """Messages went no further."""
        if count:
            self._dropped.add(count, reason=reason.value)

    def load(self, *, sessions: int, waiting: int) -> None:
        """As it is now."""
        self._sessions.set(sessions)
        self._waiting.set(waiting)

    def update_sent(self, size_bytes: int) -> None:
        """A piece of an update left."""
        self._pieces.add(size_bytes)

    def answer_forgotten(self) -> None:
        """A sleeping node's answers outgrew what is kept."""
        self._answers.add()
