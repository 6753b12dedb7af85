"""How soon a device finds back to the edge once an outage is over."""

import pytest

from controlled_world import LOCAL, SPLIT, OutageWorld
from headtail_device.controller import Controller
from headtail_device.controller.drift import Drift

_PHASES_S = [0.0, 0.2, 0.4, 0.6, 0.8]


def back_s(rate: float, slower: float, phase_s: float) -> float:
    """From the end of an outage of 2 s to the last frame that stays on the device for it."""
    gone_at, back_at = 30.0 + phase_s, 32.0 + phase_s
    world = OutageWorld(
        rate_bytes_s=lambda _now: rate,
        slower=slower,
        deadline_s=2.0,
        outage_s=(gone_at, back_at),
    )
    controller = Controller((LOCAL, SPLIT))
    before = world.run(controller, gone_at - 1)
    assert all(decision.needs_edge for decision in before[-10:])
    after = world.run(controller, 90.0)
    return max([0.0, *(one.decided_at - back_at for one in after if not one.needs_edge)])


@pytest.mark.parametrize("phase_s", _PHASES_S)
@pytest.mark.parametrize("slower", [2.0, 4.0, 4.5])
def test_on_a_good_link_one_stall_sends_nobody_home_for_long(slower: float, phase_s: float) -> None:
    assert back_s(4e5, slower, phase_s) <= 4.0  # 7 to 11 s were it counted twice


@pytest.mark.parametrize("phase_s", _PHASES_S)
@pytest.mark.parametrize("slower", [2.0, 4.0, 4.5])
def test_on_a_middling_link_a_few_tries_tell(slower: float, phase_s: float) -> None:
    assert back_s(1e5, slower, phase_s) <= 7.0  # 9 to 15 s


def test_what_the_expectation_has_learnt_itself_is_no_drift_any_more() -> None:
    drift = Drift(half_life_s=8.0, least_gain=0.05)
    drift.observe("way", 5.0, 0.0)
    factor = drift.factor("way", 0.0)
    own = 1.2
    assert factor > 4
    drift.absorbed(2.0)
    assert drift.factor("way", 0.0) == pytest.approx(factor / 2)
    drift.absorbed(100.0)
    assert drift.factor("way", 0.0) == pytest.approx(own)


def test_an_expectation_that_has_got_better_leaves_the_drift_alone() -> None:
    drift = Drift(half_life_s=8.0, least_gain=0.05)
    drift.observe("way", 5.0, 0.0)
    factor = drift.factor("way", 0.0)
    drift.absorbed(0.5)
    assert drift.factor("way", 0.0) == factor
