"""What a client knows of its link, from the traffic it carries anyway.

No probes but the heartbeats. Three quantities are kept, each as an exponentially weighted mean:

round trip   of small messages: heartbeats, with Karn's rule (nothing that was sent twice counts)
             and the smoothing of RFC 6298 (gains 1/8 and 1/4);
goodput      payload of requests over the time their bytes held the link. Requests overlap, so the
             link is taken as a queue: request i occupies it from the later of its own departure and
             the arrival of request i-1 at the server, until its own arrival, which is known from
             the answer: arrival = received - resident - rtt / 2. What was seen before counts
             half as much for every 10 s since: after a silence the next request tells;
loss         requests that had to be sent again over all that were sent.
"""

from dataclasses import dataclass
from typing import Final

_RTT_GAIN: Final = 1 / 8
_VARIATION_GAIN: Final = 1 / 4
_GOODPUT_MEMORY: Final = 0.8
_GOODPUT_HALF_LIFE_S: Final = 10.0
_LOSS_GAIN: Final = 1 / 32
_MIN_TRANSFER_BYTES: Final = 2048
_MIN_TRANSFER_S: Final = 20e-6
_CONFIDENT_SAMPLES: Final = 4.0
_CONFIDENCE_HALF_LIFE_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEstimate:
    """Round trip, goodput and loss with their confidence (0 nothing known .. 1 well known).

    None stands for never measured. `age_s` is the time since the last sample of any kind.
    """

    rtt_s: float | None = None
    rtt_variation_s: float | None = None
    goodput_bytes_s: float | None = None
    loss: float | None = None
    confidence: float = 0.0
    age_s: float | None = None


class LinkEstimator:
    """Feeds on what a client core sees; gives a `LinkEstimate` at any time."""

    def __init__(self) -> None:
        self._rtt_s: float | None = None
        self._variation_s = 0.0
        self._floor_s: float | None = None
        self._bytes = 0.0
        self._busy_s = 0.0
        self._carried_at = float("-inf")
        self._loss: float | None = None
        self._samples = 0
        self._sampled_at: float | None = None
        self._link_free_at = float("-inf")

    def __repr__(self) -> str:
        return f"LinkEstimator(rtt_s={self._rtt_s}, samples={self._samples})"

    def heartbeat_returned(self, rtt_s: float, now: float) -> None:
        """A small message went there and back in `rtt_s`, the server's own time deducted."""
        rtt_s = max(rtt_s, 1e-6)
        if self._rtt_s is None:
            self._rtt_s, self._variation_s = rtt_s, rtt_s / 2
        else:
            deviation = abs(self._rtt_s - rtt_s)
            self._variation_s += _VARIATION_GAIN * (deviation - self._variation_s)
            self._rtt_s += _RTT_GAIN * (rtt_s - self._rtt_s)
        self._floor_s = rtt_s if self._floor_s is None else min(self._floor_s * 1.01, rtt_s)
        self._sampled(now)

    def request_sent(self, *, again: bool) -> None:
        """A request left, for the first time or `again`."""
        lost = 1.0 if again else 0.0
        self._loss = lost if self._loss is None else self._loss + _LOSS_GAIN * (lost - self._loss)

    def request_answered(
        self, *, size_bytes: int, sent_at: float, received_at: float, resident_s: float
    ) -> None:
        """The only transmission of a request of `size_bytes` was answered."""
        half_trip_s = (self._floor_s or 0.0) / 2
        arrived_at = received_at - resident_s - half_trip_s
        started_at = max(sent_at + half_trip_s, self._link_free_at)
        self._link_free_at = max(self._link_free_at, arrived_at)
        if size_bytes < _MIN_TRANSFER_BYTES:
            return
        transfer_s = max(arrived_at - started_at, _MIN_TRANSFER_S)
        silence_s = max(0.0, received_at - self._carried_at)
        memory = _GOODPUT_MEMORY * 2 ** (-silence_s / _GOODPUT_HALF_LIFE_S)
        self._bytes = memory * self._bytes + size_bytes
        self._busy_s = memory * self._busy_s + transfer_s
        self._carried_at = received_at
        self._sampled(received_at)

    def link_lost(self) -> None:
        """The connection broke: what was learnt of the old route may not hold for the next."""
        self._floor_s = None
        self._samples //= 2
        self._link_free_at = float("-inf")

    def retry_after_s(self, attempt: int, resident_s: float) -> float:
        """How long to wait for an answer before sending again (RFC 6298, 2.3, doubled each
        time), given that the server lately took `resident_s` for one request."""
        rtt_s = 0.5 if self._rtt_s is None else self._rtt_s + 4 * self._variation_s
        transfer_s = self._busy_s / self._bytes * 1e6 if self._bytes else 0.0
        base_s = max(0.5, 2 * (rtt_s + resident_s) + min(transfer_s, 2.0))
        return float(min(base_s * 2 ** (attempt - 1), 30.0))

    def estimate(self, now: float) -> LinkEstimate:
        if self._sampled_at is None:
            return LinkEstimate(loss=self._loss)
        age_s = max(0.0, now - self._sampled_at)
        known = 1 - 2 ** (-self._samples / _CONFIDENT_SAMPLES)
        return LinkEstimate(
            rtt_s=self._rtt_s,
            rtt_variation_s=None if self._rtt_s is None else self._variation_s,
            goodput_bytes_s=self._bytes / self._busy_s if self._busy_s else None,
            loss=self._loss,
            confidence=float(known * 2 ** (-age_s / _CONFIDENCE_HALF_LIFE_S)),
            age_s=age_s,
        )

    def _sampled(self, now: float) -> None:
        self._samples += 1
        self._sampled_at = now
