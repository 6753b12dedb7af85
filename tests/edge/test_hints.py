"""Whether what an edge says of its queue comes true, under load."""

from typing import get_args

import numpy as np
import pytest

from edge_simulation import EdgeSimulation, Traffic
from headtail_edge.mixing import MixedCuts
from headtail_models.bundle import Bundle


@pytest.mark.parametrize(("workers", "per_s"), [(1, 45.0), (1, 60.0), (2, 90.0), (2, 120.0)])
def test_what_is_said_of_the_queue_comes_true(specimen: Bundle, workers: int, per_s: float) -> None:
    simulation = EdgeSimulation(specimen, workers=workers, seed=workers)
    fates = simulation.run([Traffic(device="cam", per_s=per_s)], seconds=12.0)[100:]
    said = np.array([fate.said_s for fate in fates])
    waited = np.array([fate.waited_s for fate in fates])
    assert waited.mean() > 0.01
    # Off by less than half a batch on average, and not to one side.
    assert np.abs(said - waited).mean() < 0.030
    assert abs(said.mean() - waited.mean()) < 0.3 * waited.mean()


def test_an_idle_edge_says_that_there_is_no_queue(specimen: Bundle) -> None:
    fates = EdgeSimulation(specimen).run([Traffic(device="cam", per_s=1.0)], seconds=50.0)
    assert np.mean([fate.said_s for fate in fates]) < 0.002


@pytest.mark.parametrize("per_s", [14.0, 18.0, 22.0])
def test_where_cuts_share_batches_queues_are_shorter_and_told_as_well(
    specimen: Bundle, per_s: float
) -> None:
    cameras = [Traffic(device=cut, per_s=per_s, cut=cut) for cut in ("early", "late")]
    waited_s = {}
    for mixed_cuts in get_args(MixedCuts):
        simulation = EdgeSimulation(specimen, mixed_cuts=mixed_cuts, seed=1)
        fates = simulation.run(cameras, seconds=24.0)[50:]
        said = np.array([fate.said_s for fate in fates])
        waited = np.array([fate.waited_s for fate in fates])
        waited_s[mixed_cuts] = waited.mean()
        if mixed_cuts == "auto":
            assert np.abs(said - waited).mean() < 0.040
            assert abs(said.mean() - waited.mean()) < 0.3 * waited.mean()
    assert waited_s["auto"] < 0.9 * waited_s["never"]
