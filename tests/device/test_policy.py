"""Policies that have nothing to weigh."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_device.placement import Local, Observation, Offload, Split
from headtail_device.policy import FixedPolicy, LocalPolicy

SPLIT = Split(cut="a", codec="q8+zstd")
GOOD = Observation(
    now=0.0, edge_ready=True, free_window=2, in_flight=1, retry_in_s=0.0, remaining_s=1.0
)


def test_the_edge_is_used_while_it_can_be_had() -> None:
    assert FixedPolicy(remote=SPLIT).place(GOOD).placement == SPLIT
    offload = Offload(codec="webp", quality=80)
    assert FixedPolicy(remote=offload).place(GOOD).placement == offload
    assert offload.cut == "input"


@pytest.mark.parametrize(
    "seen",
    [
        replace(GOOD, edge_ready=False),
        replace(GOOD, free_window=0),
        replace(GOOD, retry_in_s=0.1),
        replace(GOOD, remaining_s=0.0),
    ],
)
def test_else_the_device_answers_degraded(seen: Observation) -> None:
    assert FixedPolicy(remote=SPLIT).place(seen).placement == Local(degraded=True)


@given(st.booleans(), st.integers(0, 9), st.floats(0, 9), st.floats(-9, 9))
def test_local_stays_local(ready: bool, window: int, retry_in_s: float, remaining_s: float) -> None:
    observation = Observation(
        now=0.0,
        edge_ready=ready,
        free_window=window,
        in_flight=0,
        retry_in_s=retry_in_s,
        remaining_s=remaining_s,
    )
    assert LocalPolicy().place(observation).placement == Local(degraded=False)
