"""What failed is left alone for a while."""

from headtail_device.controller.penalties import Penalties


def test_a_second_and_twice_as_long_each_time() -> None:
    penalties, now = Penalties(), 0.0
    for lasts_s in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0):
        penalties.told("a", fault=True, now=now)
        assert penalties.bars("a", now + 0.99 * lasts_s)
        assert not penalties.bars("a", now + lasts_s)
        now += lasts_s
    assert not penalties.bars("b", now)
    assert repr(penalties) == "Penalties(a)"


def test_what_failed_at_the_same_time_counts_once() -> None:
    penalties = Penalties()
    for _ in range(5):
        penalties.told("a", fault=True, now=0.0)
    assert not penalties.bars("a", 1.0)


def test_a_frame_that_works_forgives_all() -> None:
    penalties = Penalties()
    penalties.told("a", fault=True, now=0.0)
    penalties.told("a", fault=False, now=1.0)
    penalties.told("a", fault=True, now=2.0)
    assert not penalties.bars("a", 3.0)
