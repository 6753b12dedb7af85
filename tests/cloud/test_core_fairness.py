from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_cloud.core.fairness import FairShare


@dataclass(frozen=True)
class Owned:
    tenant: str
    number: int = 0


def lines(**counts: int) -> dict[str, list[Owned]]:
    return {tenant: [Owned(tenant, n) for n in range(count)] for tenant, count in counts.items()}


def shares_of(*tenants: str, weights: dict[str, float] | None = None) -> FairShare:
    shares = FairShare(weights)
    for tenant in tenants:
        shares.enter(tenant)
    return shares


def order(shares: FairShare, costs_s: dict[str, float], **counts: int) -> str:
    taken = ""
    for job in shares.turns(lines(**counts)):
        taken += job.tenant
        shares.charge(job.tenant, costs_s[job.tenant])
    return taken


def test_equal_tenants_take_turns() -> None:
    assert order(shares_of("a", "b"), {"a": 1, "b": 1}, a=3, b=3) == "ababab"


def test_who_costs_more_comes_less_often() -> None:
    assert order(shares_of("a", "b"), {"a": 3, "b": 1}, a=2, b=6) == "abbbabbb"


def test_a_larger_share_comes_more_often() -> None:
    shares = shares_of("a", "b", weights={"b": 2})
    assert order(shares, {"a": 1, "b": 1}, a=2, b=4) == "abbabb"


def test_idling_saves_nothing_up() -> None:
    shares = shares_of("a")
    shares.charge("a", 10)
    shares.enter("b")
    assert shares.counter("b") == shares.counter("a") == 10


def test_leaving_does_not_clear_a_debt() -> None:
    shares = shares_of("a", "b")
    shares.charge("a", 10)
    shares.leave("a")
    shares.enter("a")
    assert shares.counter("a") == 10
    assert repr(shares) == "<FairShare a: 10.000, b: 0.000>"


def test_who_never_came_stands_where_the_least_stands() -> None:
    shares = shares_of("a")
    shares.charge("a", 3)
    assert shares.counter("stranger") == 3
    assert shares.count("stranger") == 0


def test_a_share_is_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        FairShare({"a": 0.0})


def test_a_flood_of_names_is_forgotten() -> None:
    shares = shares_of("steady")
    for number in range(9000):
        name = f"one-time-{number}"
        shares.enter(name)
        shares.charge(name, 1.0)
        shares.leave(name)
    assert len(shares._counters) < 8200
    assert shares.count("steady") == 1


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0.01, 1.0), min_size=60, max_size=60),
    st.lists(st.booleans(), min_size=60, max_size=60),
)
def test_backlogged_tenants_get_the_same_within_the_bound(
    costs_s: list[float], comes_and_goes: list[bool]
) -> None:
    """While both wait what they got differs by at most twice the largest charge, whatever a third
    does."""
    shares = shares_of("a", "b")
    got = {"a": 0.0, "b": 0.0, "c": 0.0}
    here = False
    for cost_s, toggle in zip(costs_s, comes_and_goes, strict=True):
        if toggle:
            (shares.leave if here else shares.enter)("c")
            here = not here
        waiting = lines(a=1, b=1, c=1) if here else lines(a=1, b=1)
        job = next(shares.turns(waiting))
        shares.charge(job.tenant, cost_s)
        got[job.tenant] += cost_s
        assert abs(got["a"] - got["b"]) <= 2 * max(costs_s) + 1e-9
