"""What an option costs, and which of many are worth knowing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_models.planner import (
    EnergyModel,
    Link,
    Option,
    energy_j,
    fastest,
    fastest_by_rate,
    latency_s,
    pareto,
    worth_showing,
)

LINK = Link(rate_bps=2e6, rtt_s=0.03)
LOCAL = Option(kind="local", name="local", device_s=0.5, device_macs=1000)
OFFLOAD = Option(
    kind="offload",
    name="offload",
    codec="jpeg90",
    payload_bytes=100_000,
    server_s=0.07,
    device_s=0.01,
)


def split(device_s: float, payload_bytes: float, server_s: float, name: str = "cut") -> Option:
    return Option(
        kind="split",
        name=name,
        codec="q8",
        device_s=device_s,
        payload_bytes=payload_bytes,
        server_s=server_s,
    )


def test_latency_is_device_payload_round_trip_server() -> None:
    assert latency_s(split(0.1, 25_000, 0.05), LINK) == pytest.approx(0.1 + 0.1 + 0.03 + 0.05)
    assert latency_s(LOCAL, LINK) == 0.5


def test_energy_counts_work_bytes_and_waiting() -> None:
    model = EnergyModel(joules_per_mac=1e-3, joules_per_byte=1e-6, idle_w=2.0)
    assert energy_j(LOCAL, LINK, model) == pytest.approx(1.0)
    option = split(0.1, 25_000, 0.05)
    assert energy_j(option, LINK, model) == pytest.approx(0.025 + 2.0 * 0.18)


def test_what_another_beats_in_everything_goes() -> None:
    good, worse, other = split(0.1, 10, 0.1), split(0.1, 11, 0.1), split(0.2, 5, 0.1)
    assert pareto([worse, other, good]) == (good, other)


def test_of_equals_one_stays() -> None:
    first, second = split(0.1, 10, 0.1, "first"), split(0.1, 10, 0.1, "second")
    assert pareto([first, second]) == (first,)


def test_local_stays_whatever_beats_it() -> None:
    better = split(0.0, 0, 0.0)
    assert LOCAL in pareto([better, LOCAL])


def test_a_chain_of_layers_is_shown_where_it_leads_to_something() -> None:
    chain = [split(0.1 * at, 1000, 0.4 - 0.01 * at, f"layer{at}") for at in range(1, 4)]
    assert pareto([*chain, LOCAL]) == (*chain, LOCAL)
    assert worth_showing([*chain, LOCAL], LINK) == (chain[0], LOCAL)


def test_what_differs_by_noise_is_not_shown_unless_it_is_the_fastest() -> None:
    small, large = split(0.102, 10, 0.1), split(0.100, 1000, 0.1)
    slow, quick = Link(rate_bps=1e4, rtt_s=0.0), Link(rate_bps=1e9, rtt_s=0.0)
    assert worth_showing([small, large, LOCAL], slow) == (small, LOCAL)
    assert fastest([small, large, LOCAL], quick) == large
    assert worth_showing([small, large, LOCAL], quick) == (large, small, LOCAL)


def test_the_rate_decides() -> None:
    cut = split(0.2, 10_000, 0.05)
    assert fastest_by_rate([LOCAL, OFFLOAD, cut], [1e4, 1e6, 1e9], 0.0) == (LOCAL, cut, OFFLOAD)


def test_nothing_to_choose_from() -> None:
    with pytest.raises(ValueError, match="empty"):
        fastest([], LINK)


costs = st.floats(0, 10)
anything = st.builds(split, costs, costs.map(lambda size: size * 1e5), costs)


@given(st.lists(anything, min_size=1, max_size=20), st.floats(1e3, 1e9), st.floats(0, 1))
def test_the_front_has_the_fastest_of_every_link(
    options: list[Option], rate: float, rtt_s: float
) -> None:
    link = Link(rate_bps=rate, rtt_s=rtt_s)
    best = latency_s(fastest(options, link), link)
    assert latency_s(fastest(pareto(options), link), link) == best


@given(st.lists(anything, max_size=20))
def test_nothing_on_the_front_beats_another(options: list[Option]) -> None:
    front = pareto(options)
    for one in front:
        for other in front:
            if one != other:
                assert (
                    one.device_s > other.device_s
                    or one.payload_bytes > other.payload_bytes
                    or one.server_s > other.server_s
                )


@given(st.lists(anything, min_size=1, max_size=20), st.floats(1e3, 1e9))
def test_what_is_shown_has_the_fastest(options: list[Option], rate: float) -> None:
    link = Link(rate_bps=rate, rtt_s=0.01)
    assert fastest(options, link) in worth_showing(options, link)
