import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_fabric.link import LinkEstimate, LinkEstimator


def answer(
    link: LinkEstimator, *, size: int, sent_at: float, arrived_at: float, rtt_s: float = 0.1
) -> None:
    """Request of `size` bytes that reached the server at `arrived_at`, answered 30 ms later."""
    link.request_sent(again=False)
    link.request_answered(
        size_bytes=size,
        sent_at=sent_at,
        received_at=arrived_at + 0.03 + rtt_s / 2,
        resident_s=0.03,
    )


def beat(link: LinkEstimator, rtt_s: float, times: int = 8, now: float = 0.0) -> None:
    for number in range(times):
        link.heartbeat_returned(rtt_s, now + number)


def test_nothing_is_known_at_first() -> None:
    assert LinkEstimator().estimate(5.0) == LinkEstimate()


def test_round_trip_follows_heartbeats() -> None:
    link = LinkEstimator()
    beat(link, 0.1)
    estimate = link.estimate(8.0)
    assert estimate.rtt_s == pytest.approx(0.1)
    assert estimate.rtt_variation_s == pytest.approx(0.0, abs=0.01)
    beat(link, 0.3, times=30, now=8.0)
    assert link.estimate(38.0).rtt_s == pytest.approx(0.3, rel=0.05)


def test_goodput_of_single_requests_is_their_size_by_their_transfer_time() -> None:
    link = LinkEstimator()
    beat(link, 0.1)
    for number in range(10):
        sent_at = 10.0 + number
        # One way is 50 ms; 50,000 bytes at 1 MB/s take another 50.
        answer(link, size=50_000, sent_at=sent_at, arrived_at=sent_at + 0.05 + 0.05)
    assert link.estimate(20.0).goodput_bytes_s == pytest.approx(1e6, rel=0.05)


def test_after_a_silence_the_next_request_tells_the_goodput() -> None:
    link = LinkEstimator()
    beat(link, 0.1)
    for number in range(10):
        answer(link, size=50_000, sent_at=10.0 + number, arrived_at=10.1 + number)
    assert link.estimate(20.0).goodput_bytes_s == pytest.approx(1e6, rel=0.05)
    # A tenth of the rate a minute later; without the silence it would hardly count.
    answer(link, size=50_000, sent_at=80.0, arrived_at=80.0 + 0.05 + 0.5)
    assert link.estimate(81.0).goodput_bytes_s == pytest.approx(1e5, rel=0.1)
    answer(link, size=50_000, sent_at=81.0, arrived_at=81.0 + 0.05 + 0.05)
    assert link.estimate(82.0).goodput_bytes_s == pytest.approx(2e5, rel=0.2)


def test_requests_that_queue_behind_each_other_do_not_make_the_link_look_slower() -> None:
    link = LinkEstimator()
    beat(link, 0.1)
    for burst in range(5):
        sent_at = 10.0 + burst
        for place in range(1, 5):
            # Four leave at once; each arrives when the one before it has got through.
            answer(link, size=50_000, sent_at=sent_at, arrived_at=sent_at + 0.05 + place * 0.05)
    assert link.estimate(20.0).goodput_bytes_s == pytest.approx(1e6, rel=0.05)


def test_small_requests_say_nothing_about_goodput() -> None:
    link = LinkEstimator()
    beat(link, 0.1)
    answer(link, size=200, sent_at=10.0, arrived_at=10.2)
    assert link.estimate(11.0).goodput_bytes_s is None


def test_loss_is_the_share_of_repetitions() -> None:
    link = LinkEstimator()
    chance = random.Random(3)
    for _ in range(500):
        link.request_sent(again=chance.random() < 0.2)
    assert link.estimate(0.0).loss == pytest.approx(0.2, abs=0.12)


def test_confidence_grows_with_samples_and_fades_with_age() -> None:
    link = LinkEstimator()
    link.heartbeat_returned(0.1, 0.0)
    one = link.estimate(0.0).confidence
    beat(link, 0.1, times=20)
    many = link.estimate(19.0)
    assert one < 0.3 < 0.9 < many.confidence <= 1
    assert link.estimate(19.0 + 30.0).confidence == pytest.approx(many.confidence / 2)
    assert link.estimate(49.0).age_s == 30.0


def test_a_broken_link_makes_what_was_known_less_certain() -> None:
    link = LinkEstimator()
    beat(link, 0.1)
    before = link.estimate(8.0).confidence
    link.link_lost()
    assert link.estimate(8.0).confidence < before
    assert link.estimate(8.0).rtt_s is not None


def test_retries_wait_for_more_than_a_round_trip_and_double() -> None:
    link = LinkEstimator()
    assert link.retry_after_s(1, 0.0) == pytest.approx(1.0)
    beat(link, 0.4, times=30)
    first = link.retry_after_s(1, 0.2)
    assert first > 0.4 + 0.2
    assert link.retry_after_s(2, 0.2) == pytest.approx(2 * first)
    assert link.retry_after_s(20, 0.2) == 30.0


@given(st.lists(st.tuples(st.floats(0, 2), st.integers(1, 10**6)), max_size=30))
def test_estimates_are_finite_and_in_range_whatever_is_fed(
    samples: list[tuple[float, int]],
) -> None:
    link = LinkEstimator()
    now = 0.0
    for delay_s, size in samples:
        now += delay_s
        link.heartbeat_returned(delay_s - 0.5, now)
        link.request_sent(again=size % 7 == 0)
        link.request_answered(
            size_bytes=size, sent_at=now - delay_s, received_at=now, resident_s=delay_s / 2
        )
    estimate = link.estimate(now)
    assert 0 <= estimate.confidence <= 1
    assert estimate.rtt_s is None or estimate.rtt_s > 0
    assert estimate.goodput_bytes_s is None or 0 < estimate.goodput_bytes_s < 1e12
    assert estimate.loss is None or 0 <= estimate.loss <= 1
