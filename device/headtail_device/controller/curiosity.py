"""When to try what is not known well enough: rarely, and never at a frame's risk."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_WORTH_IT: Final = 0.95
_OPEN_TRIES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """At most `frames_share` of all frames are tries, besides one, and what they cost stays below
    `time_share` of all time, besides `allowance_s`. Tries are `soonest_s` apart, twice as long
    after each that changed nothing, up to `longest_s`. A frame's deadline must leave `headroom`
    times what is feared; or with `rescued`, which says that a late frame is answered on the device
    just in time, `headroom` times what that takes. Then the first try of all may cost what it
    will: without it nothing would ever be known."""

    frames_share: float = 0.05
    time_share: float = 0.02
    allowance_s: float = 0.2
    soonest_s: float = 4.0
    longest_s: float = 60.0
    headroom: float = 1.2
    rescued: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An option that might be tried: what it costs the goal at best, and a frame in time;
    `device_s` of it before anything is sent."""

    name: str
    hope: float
    device_s: float
    latency_s: float
    feared_s: float


class Curiosity:
    """Told of each decision, says which option to try instead, or None."""

    def __init__(self, caution: Caution | None = None) -> None:
        self._caution = caution or Caution()
        self._frames = 0
        self._tries = 0
        self._time_s = 0.0
        self._spent_s = 0.0
        self._reckoned: deque[float] = deque(maxlen=_OPEN_TRIES)
        self._wait_s = self._caution.soonest_s
        self._tried_at: float | None = None

    def __repr__(self) -> str:
        return f"Curiosity(tries={self._tries} of {self._frames}, spent_s={self._spent_s:.3f})"

    @property
    def tries(self) -> int:
        return self._tries

    def charged(self, extra_s: float) -> None:
        """A try took so much longer than the usual way; that replaces what was reckoned with."""
        reckoned_s = self._reckoned.popleft() if self._reckoned else 0.0
        self._spent_s = max(0.0, self._spent_s + extra_s - reckoned_s)

    def rewarded(self) -> None:
        """Something has changed: look again soon."""
        self._wait_s = self._caution.soonest_s

    def pick(
        self,
        candidates: Sequence[Candidate],
        *,
        chosen_amount: float,
        chosen_s: float,
        chosen_upper_s: float,
        remaining_s: float,
        now: float,
    ) -> str | None:
        """Of those that could turn out better than what was chosen the soonest, if it may be. What
        was chosen is computed on the device, and so it is what rescues a frame."""
        caution = self._caution
        self._frames += 1
        self._time_s += chosen_s
        if self._tried_at is not None and now < self._tried_at + self._wait_s:
            return None
        if self._tries + 1 > 1 + caution.frames_share * self._frames:
            return None
        hopeful = [
            one
            for one in candidates
            if one.hope < _WORTH_IT * chosen_amount
            and self._needs_s(one, chosen_upper_s) * caution.headroom <= remaining_s
        ]
        if not hopeful:
            return None
        best = min(hopeful, key=lambda one: (one.latency_s, one.name))
        lasts_s = min(best.latency_s, remaining_s) if caution.rescued else best.latency_s
        extra_s = max(0.0, lasts_s - chosen_s)
        first = caution.rescued and self._tried_at is None
        may_cost_s = caution.allowance_s + caution.time_share * self._time_s
        if not first and self._spent_s + extra_s > may_cost_s:
            return None
        if self._tried_at is not None:
            self._wait_s = min(self._wait_s * 2, caution.longest_s)
        self._tried_at = now
        self._tries += 1
        self._spent_s += extra_s
        self._reckoned.append(extra_s)
        return best.name

    def _needs_s(self, one: Candidate, chosen_upper_s: float) -> float:
        """What the deadline must leave."""
        if not self._caution.rescued:
            return one.feared_s
        return min(one.feared_s, one.device_s + chosen_upper_s)
