"""A link's conditions over time, piece by piece."""

import bisect
import itertools
from dataclasses import dataclass, field
from typing import Final, Self

from headtail_fabric.emulator.conditions import LinkConditions, LinkConditionsError
from headtail_fabric.emulator.quantity import TIME

MAX_STEPS: Final = 10_000
_MIN_STEP_S: Final = 0.1
_MAX_STEP_S: Final = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """Conditions that hold until `end_s` after the trace's beginning."""

    conditions: LinkConditions
    end_s: float


@dataclass(frozen=True, slots=True)
class TraceStep:
    """Conditions, and for how long: 0.1 s to a week. Raises LinkConditionsError."""

    lasting_s: float
    conditions: LinkConditions

    def __post_init__(self) -> None:
        if not _MIN_STEP_S <= self.lasting_s <= _MAX_STEP_S:
            raise LinkConditionsError(
                f"a step of {self.lasting_s:g} s: it lasts {_MIN_STEP_S:g} s to a week"
            )

    def __str__(self) -> str:
        return f"{TIME.text(self.lasting_s)} {self.conditions}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTrace:
    """Steps from time 0 on; after the last one it begins again, or the last one goes on for good.

    Raises LinkConditionsError for no steps or more than 10,000, and for a repetition that is all
    outage.
    """

    steps: tuple[TraceStep, ...]
    repeats: bool = False
    label: str = field(default="", compare=False)
    """What a person called it."""
    _ends_s: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.steps) <= MAX_STEPS:
            raise LinkConditionsError(f"a trace has 1 to {MAX_STEPS} steps, not {len(self.steps)}")
        if self.repeats and all(step.conditions.outage for step in self.steps):
            raise LinkConditionsError("a trace that repeats an outage alone")
        ends_s = itertools.accumulate(step.lasting_s for step in self.steps)
        object.__setattr__(self, "_ends_s", tuple(ends_s))

    @classmethod
    def constant(cls, conditions: LinkConditions, *, label: str = "") -> Self:
        """The same at all times."""
        return cls(steps=(TraceStep(_MAX_STEP_S, conditions),), label=label)

    @classmethod
    def interrupted(
        cls, conditions: LinkConditions, outage: LinkConditions, *, lasting_s: float, every_s: float
    ) -> Self:
        """`conditions` with an `outage` at the end of each period of `every_s`.

        Raises LinkConditionsError for an outage that leaves less than 0.1 s of the period.
        """
        if every_s - lasting_s < _MIN_STEP_S:
            raise LinkConditionsError(f"an outage of {lasting_s:g} s in each {every_s:g} s")
        up = TraceStep(every_s - lasting_s, conditions)
        return cls(steps=(up, TraceStep(lasting_s, outage)), repeats=True)

    def at(self, since_s: float) -> Stretch:
        """What holds at `since_s` (at least 0), which is before the stretch's end."""
        period_s = self._ends_s[-1]
        begun_s = since_s // period_s * period_s if self.repeats else 0.0
        place = bisect.bisect_right(self._ends_s, since_s - begun_s)
        # Twice: division and sum of floats may round a time at a boundary back before it.
        for _ in range(2):
            if place == len(self.steps):
                if not self.repeats:
                    return Stretch(self.steps[-1].conditions, float("inf"))
                place, begun_s = 0, begun_s + period_s
            end_s = begun_s + self._ends_s[place]
            if end_s > since_s:
                break
            place += 1
        if not self.repeats and place == len(self.steps) - 1:
            end_s = float("inf")
        return Stretch(self.steps[place].conditions, end_s)

    def __str__(self) -> str:
        """As `parse_link` reads it."""
        if len(self.steps) == 1:
            return str(self.steps[0].conditions)
        return "; ".join([*map(str, self.steps), *(["repeat"] if self.repeats else [])])

    @property
    def summary(self) -> str:
        """The label, if there is one, and what it stands for."""
        text = str(self)
        return f"{self.label} ({text})" if self.label and self.label != text else text
