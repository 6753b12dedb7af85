"""One frame as one line of JSON."""

from datetime import UTC, datetime, timedelta

import msgspec

from headtail_device.decision import Decision, Forecast
from headtail_device.ledger import Latency
from headtail_device.record import FrameRecord


class FrameLines:
    """`started_at` and `started` are the same moment, on the frames' clock and on the calendar:
    steps of the machine's clock during the run don't show."""

    def __init__(self, *, started_at: float, started: datetime) -> None:
        self._started_at = started_at
        self._started = started

    def line(self, record: FrameRecord) -> bytes:
        """With its end."""
        return msgspec.json.encode(self._facts(record)) + b"\n"

    def _facts(self, record: FrameRecord) -> dict[str, object]:
        line: dict[str, object] = {
            "frame": record.index,
            "origin": record.origin,
            "outcome": record.outcome.value,
        }
        if record.captured_at is not None:
            offset_s = record.captured_at - self._started_at
            line["captured_s"] = round(offset_s, 6)
            line["captured"] = _calendar(self._started + timedelta(seconds=offset_s))
        if record.decision is not None and record.decision.forecast is not None:
            line["placed"] = _placed(record.decision, record.decision.forecast)
        if record.cut is not None:
            line["cut"] = record.cut
        if record.gate:
            line["gate"] = record.gate
        if record.verdicts:
            line["confidence"] = {
                verdict.gate.name: round(verdict.confidence, 4) for verdict in record.verdicts
            }
        if record.codec is not None:
            line |= {"codec": record.codec, "attempts": record.attempts}
            line["bytes"] = {
                "up": record.bytes_up,
                "down": record.bytes_down,
                "payload": record.payload_bytes,
            }
        if record.latency is not None:
            line["ms"] = _milliseconds(record.latency)
        if record.macs:
            line["macs"] = record.macs
        if record.answer is not None:
            line["answer"] = record.answer.to_json()
        if record.reason:
            line["reason"] = record.reason
        if record.spool:
            line |= {"spool": record.spool, "final": record.late}
        if record.inherited:
            line["inherited"] = True
        return line


def _placed(decision: Decision, forecast: Forecast) -> dict[str, object]:
    """What was decided and why, and what was expected of it; `by_ms` is what 95 % keep to."""
    return {
        "way": decision.option,
        "why": decision.reason.value,
        "ms": round(forecast.latency_s * 1000, 3),
        "by_ms": round(forecast.upper_s * 1000, 3),
        "bytes": round(forecast.sent_bytes),
        "drop": round(forecast.drop, 5),
    }


def _calendar(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(latency: Latency) -> dict[str, float]:
    return {
        part: round(getattr(latency, f"{part}_s") * 1000, 3)
        for part in ("total", "head", "wire", "queue", "tail", "wait")
    }
