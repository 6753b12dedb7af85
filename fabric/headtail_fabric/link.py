"""What a client knows of its link, from the traffic it carries anyway."""

from dataclasses import dataclass


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
