"""Whether head and tail together are the whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from headtail_fabric.codec.base import Array
from headtail_models.splitting.errors import UnequalError

TOLERANCE: Final = 1e-4
"""Of the largest value of an output: a runtime fuses operators, and not across a cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """`difference`: the largest of any output, over that output's largest value."""

    runs: int
    difference: float


class Runnable(Protocol):
    """A whole model or a part of one."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        """Outputs by name; inputs that it does not have are passed over."""
        ...


def compare(
    whole: Runnable, head: Runnable, tail: Runnable, inputs: Sequence[Mapping[str, Array]]
) -> Agreement:
    """Run both ways on each of the `inputs`. Raises UnequalError, RefusedModelError."""
    worst = 0.0
    for given in inputs:
        expected = whole.run(given)
        crossing = head.run(given)
        found = {**crossing, **tail.run({**given, **crossing})}
        for name, value in expected.items():
            worst = max(worst, _difference(name, value, found[name]))
    return Agreement(runs=len(inputs), difference=worst)


def agreement_by_frame(
    together: Mapping[str, Array], alone: Runnable, inputs: Mapping[str, Array]
) -> Agreement:
    """Hold outputs (n, ...) of n frames against those of each frame `alone`. Raises UnequalError,
    RefusedModelError."""
    frames = len(next(iter(inputs.values())))
    worst = 0.0
    for at in range(frames):
        expected = alone.run({name: array[at : at + 1] for name, array in inputs.items()})
        for name, value in expected.items():
            worst = max(worst, _difference(name, value, together[name][at : at + 1]))
    return Agreement(runs=frames, difference=worst)


def _difference(name: str, expected: Any, found: Any) -> float:
    if not isinstance(expected, np.ndarray):
        return max(
            (_difference(name, *pair) for pair in zip(expected, found, strict=True)), default=0.0
        )
    if expected.shape != found.shape or expected.dtype != found.dtype:
        raise UnequalError(f"output {name!r} is {found.shape} behind a cut, not {expected.shape}")
    if expected.dtype.kind != "f":
        if not np.array_equal(expected, found):
            raise UnequalError(f"output {name!r} differs behind a cut", output=name)
        return 0.0
    if not np.array_equal(np.isfinite(expected), np.isfinite(found)):
        raise UnequalError(f"output {name!r} has other infinite values behind a cut", output=name)
    finite = np.isfinite(expected)
    if not finite.any():
        return 0.0
    left, right = expected[finite].astype(np.float64), found[finite].astype(np.float64)
    difference = float(np.abs(left - right).max()) / max(float(np.abs(left).max()), 1e-6)
    if difference > TOLERANCE:
        raise UnequalError(
            f"output {name!r} differs behind a cut by {difference:.2g} of its largest value",
            output=name,
            difference=difference,
        )
    return difference
