"""What is told about one frame, once it has its outcome."""

from dataclasses import dataclass

from headtail_device.ledger import Latency, Outcome
from headtail_models.task import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRecord:
    """One frame's end. Byte counts are of the messages, framing included; `payload_bytes` is what
    of them the tensors took on the way up. `reason` says why a frame has no better outcome."""

    index: int
    origin: str
    outcome: Outcome
    captured_at: float | None = None
    cut: str | None = None
    codec: str | None = None
    attempts: int = 0
    latency: Latency | None = None
    bytes_up: int = 0
    bytes_down: int = 0
    payload_bytes: int = 0
    answer: Answer | None = None
    reason: str = ""
