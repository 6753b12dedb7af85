"""Device and edge killed at random points: every frame has one final outcome."""

import logging
from collections import Counter
from typing import get_args

import pytest

from headtail_device.config import Drop
from headtail_device.ledger import Outcome
from spool_world import KillWorld

WORLDS = 10
KILLS_IN_EACH = 25


@pytest.mark.parametrize("drop", get_args(Drop))
def test_kills_leave_each_frame_one_final_outcome(
    drop: Drop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="headtail_device")
    kills = edge_kills = lost = fed = 0
    seen: Counter[Outcome] = Counter()
    for seed in range(WORLDS):
        world = KillWorld(seed, drop=drop)
        while world.device_kills < KILLS_IN_EACH:
            for _ in range(world.draw.randrange(30)):
                world.step()
            world.arm()
            for _ in range(20):
                world.step()
            world.edge_kills += 1
            world.start_edge()
        world.settle()
        world.check()
        seen += world.check_outcomes()
        kills += world.device_kills
        edge_kills += world.edge_kills
        fed += len(world.fed)
        lost += len(world.lost)
    assert kills + edge_kills >= 500  # and as many with the other policy
    assert set(seen) >= {Outcome.EDGE, Outcome.DEGRADED, Outcome.DROPPED}
    assert lost < fed / 10
    assert Outcome.SPOOLED not in seen
