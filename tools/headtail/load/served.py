"""What a crowd of clients saw."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """`batch` is the mean number of requests computed together, where the server tells it."""

    requests: int
    seconds: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    batch: float | None = None

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


def served(latencies_s: Sequence[float], *, seconds: float, batch: float | None = None) -> Served:
    """Sum up a run; raises ValueError when nothing was answered."""
    if not latencies_s:
        raise ValueError("not one request was answered")
    p50, p95, p99 = 1000 * np.percentile(np.asarray(latencies_s), (50, 95, 99))
    return Served(
        requests=len(latencies_s),
        seconds=seconds,
        p50_ms=float(p50),
        p95_ms=float(p95),
        p99_ms=float(p99),
        batch=batch,
    )
