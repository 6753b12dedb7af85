"""More is asked of an edge than it can compute: who is refused, who is served, and who pays."""

import pytest

from edge_simulation import EdgeSimulation, Fate, Traffic
from headtail_models.bundle import Bundle


def in_time(fates: list[Fate], device: str = "") -> float:
    """The share of the requests, of all or of one device, that were answered in time."""
    wanted = [fate for fate in fates if device in ("", fate.device)]
    return sum(fate.in_time for fate in wanted) / len(wanted)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("devices", "kept"), [(1, 0.98), (4, 0.85)])
@pytest.mark.parametrize("load", [1.3, 4.0])
def test_what_is_accepted_is_in_time_and_much_more_of_it_than_without_admission(
    specimen: Bundle, load: float, devices: int, kept: float, seed: int
) -> None:
    """Of several devices some are overtaken, after they were accepted, by others that are owed."""
    traffic = [
        Traffic(device=f"cam-{number}", per_s=load * 66 / devices, deadline_s=0.25)
        for number in range(devices)
    ]
    admitted = EdgeSimulation(specimen, seed=seed).run(traffic, seconds=8.0)
    accepted = [fate for fate in admitted if not fate.refused]
    assert in_time(accepted) > kept
    everyone = EdgeSimulation(specimen, admission=False, seed=seed).run(traffic, seconds=8.0)
    assert in_time(admitted) > 2 * in_time(everyone)
    # Refusing costs the machine nothing: it does nearly all that it can.
    assert in_time(admitted) > 0.85 / load


def test_an_edge_that_is_large_enough_refuses_next_to_nobody(specimen: Bundle) -> None:
    traffic = [Traffic(device="cam", per_s=40.0, deadline_s=0.5)]
    fates = EdgeSimulation(specimen).run(traffic, seconds=20.0)
    assert in_time(fates) > 0.99


@pytest.mark.parametrize("slack_s", [0.0, 0.1])
def test_a_flood_takes_from_itself(specimen: Bundle, slack_s: float) -> None:
    quiet = [Traffic(device=f"cam-{n}", per_s=5.0, deadline_s=0.6) for n in range(4)]
    flood = Traffic(device="flood", per_s=400.0, deadline_s=0.3)
    fates = EdgeSimulation(specimen, slack_s=slack_s).run([*quiet, flood], seconds=8.0)
    for one in quiet:
        assert in_time(fates, one.device) > 0.97
    # What the quiet ones leave of 66 a second is used, though some of it in vain: what it had
    # accepted of the flood was overtaken.
    assert in_time(fates, "flood") * 400.0 > 0.4 * (66 - 20)
    unfair = EdgeSimulation(specimen, slack_s=1e9).run([*quiet, flood], seconds=8.0)
    assert in_time(unfair, "cam-0") < 0.8


def test_shares_go_by_weight_when_everybody_wants_more(specimen: Bundle) -> None:
    traffic = [
        Traffic(device="heavy", per_s=100.0, deadline_s=0.4, weight=3.0),
        Traffic(device="light", per_s=100.0, deadline_s=0.4, weight=1.0),
    ]
    fates = EdgeSimulation(specimen).run(traffic, seconds=20.0)
    assert 2.0 < in_time(fates, "heavy") / in_time(fates, "light") < 5.0
