"""Holding head and tail against the whole."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from headtail_fabric.codec.base import Array
from headtail_models.splitting.agreement import agreement_by_frame, compare
from headtail_models.splitting.errors import UnequalError

ONE = np.ones((2, 3), np.float32)


class FixedPart:
    """A part that gives the same whatever comes."""

    def __init__(self, **outputs: Any) -> None:
        self._outputs = outputs

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        return dict(self._outputs)


def difference(whole: Any, parts: Any) -> float:
    head, tail = FixedPart(), FixedPart(y=parts)
    return compare(FixedPart(y=whole), head, tail, [{}]).difference


def test_rounding_is_no_difference() -> None:
    assert difference(ONE, ONE + np.float32(1e-6)) == pytest.approx(1e-6, rel=0.1)
    assert difference(ONE * 0, ONE * 0) == 0
    assert difference([ONE, ONE], [ONE, ONE]) == 0
    assert difference([], []) == 0
    assert difference(ONE * np.nan, ONE * np.inf) == 0
    assert difference(np.array(["a"]), np.array(["a"])) == 0


@pytest.mark.parametrize(
    ("whole", "parts", "told"),
    [
        (ONE, ONE * 1.01, "by 0.01 of its largest"),
        (ONE, ONE[:1], r"is \(1, 3\)"),
        (ONE, ONE.astype(np.float64), "is"),
        (ONE.astype(np.int64), ONE.astype(np.int64) * 2, "differs"),
        (ONE, ONE * np.nan, "infinite"),
        ([ONE], [ONE * 2], "differs"),
    ],
)
def test_differences(whole: Any, parts: Any, told: str) -> None:
    with pytest.raises(UnequalError, match=told):
        difference(whole, parts)


def test_an_output_of_the_head_counts() -> None:
    head, tail = FixedPart(early=ONE), FixedPart(y=ONE)
    assert compare(FixedPart(early=ONE, y=ONE), head, tail, [{}, {}]).runs == 2


def test_frame_by_frame() -> None:
    frames = {"x": np.zeros((3, 1), np.float32)}
    row = np.ones((1, 2), np.float32)
    together = {"y": np.ones((3, 2), np.float32)}
    assert agreement_by_frame(together, FixedPart(y=row), frames).runs == 3
    with pytest.raises(UnequalError):
        agreement_by_frame(together, FixedPart(y=row * 2), frames)
