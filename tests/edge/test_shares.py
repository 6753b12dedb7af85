"""The counters of service."""

import pytest

from headtail_edge.shares import Shares


def test_nobody_is_ahead_within_the_slack() -> None:
    shares = Shares(slack_s=0.5)
    shares.enter("a", 1.0)
    shares.enter("b", 1.0)
    shares.charge("a", 0.5)
    assert shares.ahead() == frozenset()
    shares.charge("a", 0.1)
    assert shares.ahead() == {"a"}
    assert shares.lead_s("a") == pytest.approx(0.6)


def test_the_only_one_is_never_ahead() -> None:
    shares = Shares(slack_s=0.0)
    shares.enter("a", 1.0)
    shares.charge("a", 100.0)
    assert shares.ahead() == frozenset()


def test_who_comes_late_has_saved_nothing_and_owes_nothing() -> None:
    shares = Shares(slack_s=0.0)
    shares.enter("a", 1.0)
    shares.charge("a", 100.0)
    shares.enter("b", 1.0)
    shares.charge("b", 1.0)
    assert shares.ahead() == {"b"}


def test_a_lead_is_not_forgiven_by_leaving_for_a_moment() -> None:
    shares = Shares(slack_s=0.0)
    shares.enter("a", 1.0)
    shares.enter("b", 1.0)
    shares.charge("a", 5.0)
    shares.leave("a")
    shares.enter("a", 1.0)
    assert shares.lead_s("a") == pytest.approx(5.0)


def test_a_weight_divides_what_is_charged() -> None:
    shares = Shares(slack_s=0.0)
    shares.enter("a", 4.0)
    shares.enter("b", 1.0)
    shares.charge("a", 4.0)
    assert shares.lead_s("a") == pytest.approx(1.0)


def test_how_much_of_another_comes_before_is_bounded_both_ways() -> None:
    shares = Shares(slack_s=0.5)
    shares.enter("flood", 2.0)
    assert shares.before_s("newcomer", own_s=1.0) == {"flood": (1.0, 3.0)}
    shares.enter("newcomer", 1.0)
    shares.charge("flood", 2.0)
    assert shares.before_s("newcomer", own_s=1.0)["flood"] == (0.0, 1.0)
    shares.charge("flood", 20.0)
    assert shares.before_s("newcomer", own_s=1.0)["flood"] == (0.0, 0.0)
    shares.charge("newcomer", 30.0)
    assert shares.before_s("newcomer", own_s=1.0)["flood"] == (39.0, 41.0)


def test_counters_of_the_gone_do_not_pile_up() -> None:
    shares = Shares(slack_s=0.0)
    for number in range(5000):
        shares.enter(f"device {number}", 1.0)
        shares.charge(f"device {number}", 1.0)
        shares.leave(f"device {number}")
    assert len(shares._idle) < 1000


def test_repr_shows_who_waits() -> None:
    shares = Shares(slack_s=0.0)
    assert repr(shares) == "<Shares nobody waits>"
    shares.enter("a", 1.0)
    assert repr(shares) == "<Shares 'a': 0.000 s>"
