"""What an option would cost now, and what is learnt from what it did cost."""

from dataclasses import replace

import pytest

from controlled_world import LOCAL, PICTURE, SPLIT, seen
from headtail_device.controller.conditions import ASSUMED_RATE_BYTES_S, Conditions, SlotLink
from headtail_device.controller.conditions import conditions as view
from headtail_device.controller.forecast import Forecaster
from headtail_device.decision import Experience
from headtail_device.placement import Observation
from headtail_models.planner.option import EnergyModel

ENERGY = EnergyModel(joules_per_mac=1e-9, joules_per_byte=1e-6, idle_w=0.5)


def given(observation: Observation | None = None, *, slots: SlotLink | None = None) -> Conditions:
    return view(observation or seen(), heard_s=0.0, backlog_s=0.0, slots=slots)


def forecaster() -> Forecaster:
    return Forecaster(ENERGY)


def test_latency_is_the_sum_of_its_parts() -> None:
    expected = forecaster().forecast(SPLIT, given(), 0.0)
    assert expected.transfer_s == pytest.approx(0.02)
    assert expected.latency_s == pytest.approx(0.1 + 0.02 + 0.03 + 0.05)
    assert expected.upper_s > expected.latency_s >= expected.hoped_s
    assert forecaster().forecast(LOCAL, given(), 0.0).latency_s == pytest.approx(0.4)


def test_queue_backlog_and_loss_come_on_top() -> None:
    plain = forecaster().forecast(SPLIT, given(), 0.0).latency_s
    queued = forecaster().forecast(SPLIT, given(seen(queue_ms=70)), 0.0).latency_s
    assert queued == pytest.approx(plain + 0.07)
    behind = view(seen(), heard_s=0.0, backlog_s=0.3, slots=None)
    assert forecaster().forecast(SPLIT, behind, 0.0).latency_s == pytest.approx(plain + 0.3)
    lossy = forecaster().forecast(SPLIT, given(seen(loss=0.1)), 0.0).latency_s
    assert lossy > plain + 0.05


def test_what_the_edge_said_of_its_queue_fades() -> None:
    old = view(seen(queue_ms=800), heard_s=5.0, backlog_s=0.0, slots=None)
    assert old.queue_s == pytest.approx(0.4)


def test_energy_by_the_stated_model() -> None:
    expected = forecaster().forecast(SPLIT, given(), 0.0)
    assert expected.energy_j == pytest.approx(0.25 + 0.02 + 0.5 * 0.1)
    assert forecaster().forecast(LOCAL, given(), 0.0).energy_j == pytest.approx(1.0)


def test_exits_take_their_share() -> None:
    eager = replace(
        SPLIT, point="eager", coverage=0.75, gates_s=0.02, device_s=0.08, gates_macs=10**8
    )
    expected = forecaster().forecast(eager, given(), 0.0)
    assert expected.latency_s == pytest.approx(0.02 + 0.25 * (0.08 + 0.02 + 0.03 + 0.05))
    assert expected.sent_bytes == pytest.approx(5_000)
    # A frame that goes on takes the whole way: the deadline is about that one.
    assert expected.upper_s > 0.2
    everything = replace(eager, coverage=1.0)
    assert not everything.needs_edge
    assert forecaster().forecast(everything, given(), 0.0).sent_bytes == 0


def test_an_unknown_link_is_assumed_to_be_an_average_one() -> None:
    unknown = given(seen(rate_bytes_s=None, rtt_s=None))
    assert not unknown.rate_known
    expected = forecaster().forecast(SPLIT, unknown, 0.0)
    assert expected.transfer_s == pytest.approx(20_000 / ASSUMED_RATE_BYTES_S)
    # At best the link is no obstacle.
    assert expected.hoped_s < 0.1 + unknown.rtt_s + 0.05


def test_a_link_not_heard_of_for_long_may_have_become_better_or_average() -> None:
    slow = seen(rate_bytes_s=1_000.0)
    heard = forecaster().forecast(SPLIT, given(slow), 0.0)
    unheard = forecaster().forecast(
        SPLIT, view(slow, heard_s=300.0, backlog_s=0.0, slots=None), 0.0
    )
    assert unheard.latency_s == heard.latency_s == pytest.approx(20.18)
    assert heard.hoped_s == pytest.approx(20.18)
    assert unheard.hoped_s < 0.3
    assert heard.feared_s > 20 > 2 > unheard.feared_s


def test_in_the_anonymous_network_sizes_and_rates_are_the_slots() -> None:
    slots = SlotLink(payload_bytes=32_768, rate_bytes_s=65_536)
    anonymous = given(seen(rate_bytes_s=1e9), slots=slots)
    split = forecaster().forecast(SPLIT, anonymous, 0.0)
    assert split.transfer_s == pytest.approx(0.5)
    local = forecaster().forecast(LOCAL, anonymous, 0.0)
    assert split.sent_bytes == local.sent_bytes == 32_768


def follow(subject: Forecaster, truth: Experience, times: int) -> None:
    for _ in range(times):
        subject.learn(SPLIT, subject.forecast(SPLIT, given(), 0.0), truth, 0.0)


def test_a_slower_device_is_noticed_for_all_options() -> None:
    subject = forecaster()
    slow = Experience(device_s=0.3, total_s=0.4, payload_bytes=20_000, wire_s=0.05, server_s=0.05)
    follow(subject, slow, 30)
    assert subject.forecast(SPLIT, given(), 0.0).device_s == pytest.approx(0.3, rel=0.1)
    assert subject.forecast(LOCAL, given(), 0.0).latency_s > 0.8


def test_a_faster_edge_is_noticed_at_the_first_answer() -> None:
    subject = forecaster()
    fast = Experience(device_s=0.1, total_s=0.16, payload_bytes=20_000, wire_s=0.05, server_s=0.01)
    follow(subject, fast, 1)
    assert subject.forecast(PICTURE, given(), 0.0).server_s == pytest.approx(0.016, rel=0.6)


def test_larger_payloads_are_learnt_slowly() -> None:
    subject = forecaster()
    large = Experience(device_s=0.1, total_s=0.22, payload_bytes=40_000, wire_s=0.07, server_s=0.05)
    follow(subject, large, 1)
    assert subject.forecast(SPLIT, given(), 0.0).payload_bytes < 23_000
    follow(subject, large, 150)
    assert subject.forecast(SPLIT, given(), 0.0).payload_bytes == pytest.approx(40_000, rel=0.05)


def test_what_the_parts_leave_unexplained_becomes_a_bias_and_is_forgotten() -> None:
    subject = forecaster()
    odd = Experience(device_s=0.1, total_s=0.3, payload_bytes=20_000, wire_s=0.05, server_s=0.05)
    before = subject.forecast(SPLIT, given(), 0.0).latency_s
    follow(subject, odd, 80)
    learnt = subject.forecast(SPLIT, given(), 0.0)
    assert learnt.latency_s == pytest.approx(0.3, rel=0.1)
    assert subject.forecast(PICTURE, given(), 0.0).latency_s == pytest.approx(0.21, rel=0.05)
    assert subject.forecast(SPLIT, given(), 1e4).latency_s == pytest.approx(before, rel=0.05)


def test_what_was_given_up_counts_against_the_link() -> None:
    subject = forecaster()
    follow(subject, Experience(device_s=0.1, total_s=2.0, answered=False), 5)
    assert subject.forecast(SPLIT, given(), 0.0).transfer_s > 0.1
    assert subject.forecast(SPLIT, given(), 0.0).upper_s > 0.5


def test_how_many_frames_leave_early_is_learnt_too() -> None:
    eager = replace(SPLIT, point="eager", coverage=0.9, gates_s=0.02)
    subject = forecaster()
    for _ in range(200):
        subject.learn(
            eager,
            subject.forecast(eager, given(), 0.0),
            Experience(device_s=0.12, total_s=0.2, payload_bytes=20_000),
            0.0,
        )
    assert subject.forecast(eager, given(), 0.0).sent_bytes > 15_000
    for _ in range(300):
        expected = subject.forecast(eager, given(), 0.0)
        subject.learn(eager, expected, Experience(device_s=0.02, total_s=0.02, exited=True), 0.0)
    assert subject.forecast(eager, given(), 0.0).sent_bytes < 1_000


def test_what_was_given_up_at_once_says_nothing_of_how_long_it_takes() -> None:
    subject = forecaster()
    before = subject.forecast(SPLIT, given(), 0.0)
    follow(subject, Experience(device_s=0.0, total_s=0.01, answered=False), 5)
    follow(subject, Experience(device_s=0.0, total_s=9.0, answered=False, fault=True), 5)
    assert subject.forecast(SPLIT, given(), 0.0) == before


def test_what_the_edge_still_has_of_this_device_comes_on_top() -> None:
    plain = forecaster().forecast(SPLIT, given(), 0.0)
    busy = view(seen(), heard_s=0.0, backlog_s=0.0, edge_busy_s=0.5)
    waiting = forecaster().forecast(SPLIT, busy, 0.0)
    # The request is 0.135 s on its way to it.
    assert waiting.queue_s == pytest.approx(0.5 - 0.135)
    assert waiting.latency_s == pytest.approx(plain.latency_s + 0.365)
    assert forecaster().forecast(LOCAL, busy, 0.0).latency_s == pytest.approx(0.4)


def test_nothing_is_learnt_of_nothing() -> None:
    subject = forecaster()
    free = replace(LOCAL, device_s=0.0)
    expected = subject.forecast(free, given(), 0.0)
    subject.learn(free, expected, Experience(device_s=0.0, total_s=0.0), 0.0)
    assert subject.forecast(free, given(), 0.0) == expected
    assert "device=Drift(1.000" in repr(subject)
