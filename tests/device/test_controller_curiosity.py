"""Trying what is not known: rarely, and never at a frame's risk."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_device.controller.curiosity import Candidate, Caution, Curiosity

GOOD = Candidate(name="edge", hope=0.1, device_s=0.2, latency_s=1.1, feared_s=1.0)


def pick(
    curiosity: Curiosity, now: float, *candidates: Candidate, remaining_s: float = 9.0
) -> str | None:
    return curiosity.pick(
        candidates or (GOOD,),
        chosen_amount=1.0,
        chosen_s=1.0,
        chosen_upper_s=1.1,
        remaining_s=remaining_s,
        now=now,
    )


def test_what_could_be_better_is_tried_once_and_then_later() -> None:
    curiosity = Curiosity()
    assert pick(curiosity, 0.0) == "edge"
    assert pick(curiosity, 1.0) is None
    assert curiosity.tries == 1
    assert "tries=1 of 2" in repr(curiosity)


def test_what_can_not_be_better_is_not_tried() -> None:
    assert pick(Curiosity(), 0.0, replace(GOOD, hope=0.96)) is None


def test_nothing_is_tried_when_the_deadline_is_tight() -> None:
    curiosity = Curiosity()
    assert pick(curiosity, 0.0, remaining_s=1.1) is None
    assert pick(curiosity, 0.0, remaining_s=1.3) == "edge"


def test_a_dear_try_waits_until_its_time_is_earned() -> None:
    curiosity = Curiosity(Caution(frames_share=1.0, time_share=0.1, allowance_s=0.0))
    dear = replace(GOOD, latency_s=2.0)
    tried = [frame for frame in range(30) if pick(curiosity, float(frame), dear)]
    assert tried == [9, 19, 29]


def test_tries_become_rarer_until_something_changes() -> None:
    caution = Caution(frames_share=1.0, time_share=1.0, allowance_s=1e9)
    curiosity = Curiosity(caution)
    tried = [now for now in range(200) if pick(curiosity, float(now))]
    assert tried == [0, 4, 12, 28, 60, 120, 180]
    curiosity.rewarded()
    assert [now for now in range(200, 210) if pick(curiosity, float(now))] == [200, 208]


def test_where_a_late_frame_is_answered_here_only_that_must_fit_the_deadline() -> None:
    slow = replace(GOOD, latency_s=30.0, feared_s=90.0)
    assert pick(Curiosity(), 0.0, slow, remaining_s=2.0) is None
    curiosity = Curiosity(Caution(rescued=True))
    assert pick(curiosity, 0.0, slow, remaining_s=1.5) is None
    assert pick(curiosity, 1.0, slow, remaining_s=1.6) == "edge"


def test_the_first_try_may_cost_a_deadline_and_the_others_are_earned() -> None:
    caution = Caution(
        rescued=True, frames_share=1.0, time_share=0.1, allowance_s=0.0, soonest_s=0.0
    )
    curiosity = Curiosity(caution)
    slow = replace(GOOD, latency_s=30.0, feared_s=90.0)
    tried = [frame for frame in range(40) if pick(curiosity, float(frame), slow, remaining_s=2.0)]
    assert tried == [0, 19, 29, 39], "each costs 1 s beyond the usual, a tenth of 10 s"


def test_what_it_really_took_is_charged() -> None:
    curiosity = Curiosity(Caution(frames_share=1.0, time_share=0.1, allowance_s=0.2, soonest_s=0.0))
    assert pick(curiosity, 0.0) == "edge"
    curiosity.charged(5.0)
    tried = [frame for frame in range(1, 80) if pick(curiosity, float(frame))]
    assert tried[0] >= 48
    curiosity.charged(-1e9)
    assert "spent_s=0.000" in repr(curiosity)


@given(
    st.lists(
        st.tuples(st.floats(0, 2), st.floats(0, 5), st.floats(0.01, 5), st.floats(0, 20)),
        max_size=300,
    )
)
@settings(max_examples=40, deadline=None)
def test_the_share_of_frames_and_of_time_is_bounded(
    frames: list[tuple[float, float, float, float]],
) -> None:
    caution = Caution()
    curiosity = Curiosity(caution)
    now = lasted_s = extra_s = 0.0
    for hope, latency_s, chosen_s, step_s in frames:
        candidate = Candidate(
            name="edge", hope=hope, device_s=0.0, latency_s=latency_s, feared_s=latency_s
        )
        tried = curiosity.pick(
            [candidate],
            chosen_amount=1.0,
            chosen_s=chosen_s,
            chosen_upper_s=chosen_s,
            remaining_s=4.0,
            now=now,
        )
        lasted_s += chosen_s
        if tried is not None:
            extra_s += max(0.0, latency_s - chosen_s)
            assert latency_s * caution.headroom <= 4.0
        assert extra_s <= caution.allowance_s + caution.time_share * lasted_s + 1e-9
        now += step_s
    assert curiosity.tries <= 1 + caution.frames_share * len(frames)
