"""The link, the edge and the deadline at one moment."""

from dataclasses import dataclass
from typing import Final

from headtail_device.placement import Observation

ASSUMED_RATE_BYTES_S: Final = 125_000.0
"""1 Mbit/s: of a link that has carried nothing yet."""
ASSUMED_RTT_S: Final = 0.05
_HINT_HALF_LIFE_S: Final = 5.0
_BOUND_S: Final = 10.0
_RESEND_S: Final = 0.5
"""The least that a lost request waits before it is sent again (`LinkEstimator.retry_after_s`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLink:
    """The anonymous network, as far as a placement goes: every request is padded to
    `payload_bytes` and leaves at the slots' rate, whatever the link could carry. Cover traffic is
    sent where there is no request, so no choice changes how much is sent."""

    payload_bytes: int
    rate_bytes_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """`rate_known` is False while `rate_bytes_s` is an assumption. `heard_s`: how long ago a
    request was last answered, which is the age of all that is known of the link's rate and of the
    edge; infinity for never. `queue_s`: waiting at the edge by its own account. Of this device's
    requests under way, `backlog_s`: until the link has sent them, or for as long again as the first
    of them is overdue; `edge_busy_s`: until the edge has served them."""

    edge_usable: bool
    remaining_s: float
    rate_bytes_s: float
    rate_known: bool
    rtt_s: float
    rtt_variation_s: float
    queue_s: float
    backlog_s: float
    edge_busy_s: float = 0.0
    heard_s: float
    slots: SlotLink | None = None


def conditions(
    seen: Observation,
    *,
    heard_s: float,
    backlog_s: float,
    edge_busy_s: float = 0.0,
    wire_s: float | None = None,
    carried_bytes: int = 0,
    slots: SlotLink | None = None,
) -> Conditions:
    """What an observation means for a forecast. The edge's queue is as it said with its last
    answer, halved every 5 s that this is past.

    `wire_s`: what the last answered request, of `carried_bytes`, spent on the link. For 10 s that
    bounds the round trip, whose mean over the heartbeats follows a change slowly, and the rate,
    whose mean remembers a stall.
    """
    link = seen.link
    rtt_s = ASSUMED_RTT_S if link.rtt_s is None else link.rtt_s
    if wire_s is not None and heard_s < _BOUND_S:
        rtt_s = min(rtt_s, wire_s)
    rate_bytes_s, known = link.goodput_bytes_s or ASSUMED_RATE_BYTES_S, bool(link.goodput_bytes_s)
    if known and wire_s and heard_s < _BOUND_S:
        rate_bytes_s = max(rate_bytes_s, carried_bytes / wire_s)
    if slots is not None:
        rate_bytes_s, known = slots.rate_bytes_s, True
    queue_s = 0.0
    if seen.hints is not None:
        queue_s = seen.hints.queue_ms / 1000 * 2 ** (-heard_s / _HINT_HALF_LIFE_S)
    return Conditions(
        edge_usable=seen.edge_usable,
        remaining_s=seen.remaining_s,
        rate_bytes_s=rate_bytes_s,
        rate_known=known,
        rtt_s=rtt_s + (link.loss or 0.0) * (_RESEND_S + 2 * rtt_s),
        rtt_variation_s=link.rtt_variation_s or 0.0,
        queue_s=queue_s,
        backlog_s=backlog_s,
        edge_busy_s=edge_busy_s,
        heard_s=heard_s,
        slots=slots,
    )
