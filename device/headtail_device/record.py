"""What is told about one frame, once it has its outcome."""

from dataclasses import dataclass, replace

from headtail_device.decision import Decision
from headtail_device.ledger import Latency, Outcome
from headtail_fabric.peer.events import Answered
from headtail_models.head_chain import Verdict
from headtail_models.task import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a frame took of this device; `macs` are multiply-adds."""

    seconds: float = 0.0
    macs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRecord:
    """One frame's end. Byte counts are of the messages, framing included; `payload_bytes` is what
    of them the tensors took on the way up. `macs` is what was computed for it here. `gate` is where
    it ended early, `verdicts` what the gates said that it met. `reason` says why a frame has no
    better outcome. `decision`: where it was to be computed, and why; None for one that nothing was
    decided on.

    `spool` is the key of a frame that waits in the spool, or has waited there; its final outcome
    comes `late`, as a second record, and is `inherited` when an earlier run took the frame."""

    index: int
    origin: str
    outcome: Outcome
    captured_at: float | None = None
    decision: Decision | None = None
    cut: str | None = None
    codec: str | None = None
    attempts: int = 0
    latency: Latency | None = None
    bytes_up: int = 0
    bytes_down: int = 0
    payload_bytes: int = 0
    macs: int = 0
    gate: str = ""
    verdicts: tuple[Verdict, ...] = ()
    answer: Answer | None = None
    reason: str = ""
    spool: str = ""
    late: bool = False
    inherited: bool = False


def by_edge(
    record: FrameRecord, event: Answered, *, head_s: float, answer: Answer, now: float
) -> FrameRecord:
    """A record of what was sent, with what the edge answered."""
    assert record.captured_at is not None, "what was sent was captured"
    timings = event.timings
    latency = Latency(
        head_s=head_s,
        wire_s=event.wire_s,
        queue_s=timings.queue_us / 1e6,
        tail_s=(timings.decode_us + timings.compute_us + timings.post_us) / 1e6,
        total_s=now - record.captured_at,
    )
    return replace(
        record,
        outcome=Outcome.EDGE,
        attempts=event.attempts,
        latency=latency,
        bytes_up=event.bytes_up,
        bytes_down=event.bytes_down,
        answer=answer,
    )
