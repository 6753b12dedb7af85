"""When an answer is good enough: one seam for branch exits, layer exits and answer probes.

After a segment, a token or a probe the engine reports evidence; the request's own policy says
whether to stop there. A policy belongs to one request and may remember what it saw.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of an answer so far.

    `confidence` is calibrated, 0 to 1: of a branch's logits, or the share of the probability that
    the answer's tokens had. `answer` is what a probe would answer now, None where there is none.
    `token` is the one that a text has just said.
    """

    confidence: float = 0.0
    answer: Hashable | None = None
    token: int | None = None


class ExitPolicy(Protocol):
    def observe(self, evidence: Evidence) -> bool:
        """Whether to stop here, with the answer as it is."""
        ...


class NeverExit:
    """Goes on to the end."""

    def observe(self, evidence: Evidence) -> bool:
        return False


class ConfidentExit:
    """Stops at the first branch that is sure enough (BranchyNet's rule, with a calibrated
    confidence in place of the entropy)."""

    def __init__(self, threshold: float) -> None:
        if not 0 <= threshold <= 1:
            raise ValueError("a confidence lies between 0 and 1")
        self._threshold = threshold

    def observe(self, evidence: Evidence) -> bool:
        return evidence.confidence >= self._threshold


class AgreeingExit:
    """Stops when the last `window` probes gave the same answer, each with some confidence.

    The rule of Dynasor's certaindex: answers that no longer change will not. A probe without an
    answer, or one that disagrees, begins the count again.
    """

    def __init__(self, window: int, *, least_confidence: float = 0.0) -> None:
        if window < 2:
            raise ValueError("one probe agrees with nothing")
        self._least_confidence = least_confidence
        self._recent: deque[Hashable] = deque(maxlen=window)

    def observe(self, evidence: Evidence) -> bool:
        if evidence.answer is None or evidence.confidence < self._least_confidence:
            self._recent.clear()
            return False
        if self._recent and self._recent[-1] != evidence.answer:
            self._recent.clear()
        self._recent.append(evidence.answer)
        return len(self._recent) == self._recent.maxlen
