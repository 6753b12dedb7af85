"""Whether a request would be in time, and what else would be."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_doubles import Rig, events, send
from headtail_edge.admission import turn_in_s
from headtail_edge.plan import PlanKey, TailPlan
from headtail_edge.tenants import LimitsConfig, TenantConfig
from headtail_fabric.peer.events import Alternative, Answered, Refused
from headtail_models.bundle import Bundle


def test_workers_share_the_work_as_they_become_free() -> None:
    assert turn_in_s([0.0], 0.0) == 0.0
    assert turn_in_s([0.3], 0.5) == pytest.approx(0.8)
    assert turn_in_s([0.5, 0.0], 0.2) == pytest.approx(0.2)
    assert turn_in_s([0.5, 0.0], 1.5) == pytest.approx(1.0)
    assert turn_in_s([2.0, 1.0, 0.0], 2.0) == pytest.approx(1.5)


@given(
    free=st.lists(st.floats(0, 5), min_size=1, max_size=6),
    work=st.floats(0, 50),
)
def test_at_that_time_exactly_the_work_is_done(free: list[float], work: float) -> None:
    turn = turn_in_s(free, work)
    assert turn >= min(free)
    assert sum(max(0.0, turn - at) for at in free) == pytest.approx(work, abs=1e-6)


@pytest.fixture
def rig(specimen_path: Path, tmp_path: Path) -> Rig:
    return Rig(tmp_path, specimen_path, queue_limit=64, max_batch=1)


def plan(rig: Rig, bundle: Bundle, cut: str) -> TailPlan:
    found = rig.registry.plan(bundle.digest, cut)
    assert found is not None
    return found


def teach(rig: Rig, bundle: Bundle, cut: str, seconds: float, codec: str = "") -> None:
    """Let the edge have computed at that cut just now, at that price a job."""
    known = plan(rig, bundle, cut)
    for _ in range(20):
        rig.costs.computed(known.key, 1, seconds, gmacs=known.gmacs, now=rig.clock.now())
        if codec:
            rig.costs.decoded(known.key, codec, seconds, rig.clock.now())


def test_before_anything_was_measured_nobody_is_refused(rig: Rig, specimen: Bundle) -> None:
    device = rig.device()
    for _ in range(16):
        send(device, specimen, deadline_s=0.01)
    rig.step()
    assert [type(event) for event in events(device)] == [Answered] * 16


def test_what_would_come_too_late_is_refused_early(rig: Rig, specimen: Bundle) -> None:
    teach(rig, specimen, "late", 0.1)
    device = rig.device()
    for _ in range(4):
        send(device, specimen, "late", deadline_s=0.35)
    rig.receive()
    (refused,) = events(device)
    assert isinstance(refused, Refused)
    assert refused.id == 4
    assert refused.retry_after_s == pytest.approx(0.4 - 0.35 / 1.1, abs=0.005)
    assert refused.hints.queue_ms == pytest.approx(300, abs=5)
    assert refused.instead == Alternative()
    assert rig.counted.totals["edge_refusals"] == {("late", "local"): 1}


def test_a_later_cut_that_would_be_in_time_is_offered_in_the_same_codec(
    rig: Rig, specimen: Bundle
) -> None:
    teach(rig, specimen, "early", 0.5)
    teach(rig, specimen, "late", 0.05)
    device = rig.device()
    refused_id = send(device, specimen, "early", codec="q4+zstd", deadline_s=0.2)
    rig.receive()
    (refused,) = events(device)
    assert isinstance(refused, Refused)
    assert (refused.id, refused.instead) == (refused_id, Alternative(cut="late", codec="q4+zstd"))
    assert refused.instead is not None
    obedient = send(
        device, specimen, refused.instead.cut, codec=refused.instead.codec, deadline_s=0.2
    )
    rig.step()
    (answered,) = events(device)
    assert isinstance(answered, Answered)
    assert answered.id == obedient


def test_a_cut_that_was_never_computed_is_offered_by_its_arithmetic(
    rig: Rig, specimen: Bundle
) -> None:
    early, late = plan(rig, specimen, "early"), plan(rig, specimen, "late")
    teach(rig, specimen, "early", 0.5)
    device = rig.device()
    between = 0.5 * late.gmacs / early.gmacs + 0.05
    assert between < 0.5
    send(device, specimen, "early", deadline_s=between)
    rig.receive()
    (refused,) = events(device)
    assert isinstance(refused, Refused)
    assert refused.instead == Alternative(cut="late", codec="raw")
    assert rig.counted.totals["edge_refusals"] == {("late", "cheaper"): 1}


def test_a_codec_that_is_decoded_sooner_is_offered_before_another_cut(
    rig: Rig, specimen: Bundle
) -> None:
    teach(rig, specimen, "early", 0.3, codec="raw+zstd")
    for _ in range(20):
        rig.costs.decoded(PlanKey(specimen.digest, "early"), "q8", 0.001, rig.clock.now())
    device = rig.device()
    send(device, specimen, "early", codec="raw+zstd", deadline_s=0.4)
    rig.receive()
    (refused,) = events(device)
    assert isinstance(refused, Refused)
    assert refused.instead == Alternative(cut="early", codec="q8")


def test_an_estimate_that_is_old_refuses_nobody(rig: Rig, specimen: Bundle) -> None:
    teach(rig, specimen, "late", 5.0)
    device = rig.device()
    send(device, specimen, deadline_s=0.2)
    rig.receive()
    assert [type(event) for event in events(device)] == [Refused]
    rig.clock.advance(1.5)
    send(device, specimen, deadline_s=0.2)
    rig.step()
    assert [type(event) for event in events(device)] == [Answered]


def test_a_flood_is_no_reason_to_refuse_another_device(
    specimen_path: Path, tmp_path: Path, specimen: Bundle
) -> None:
    rig = Rig(tmp_path, specimen_path, queue_limit=64, max_batch=1, window=64)
    teach(rig, specimen, "late", 0.02)
    flood, quiet = rig.device(seed=1, user="flood"), rig.device(seed=2, user="quiet")
    for _ in range(40):
        send(flood, specimen, deadline_s=5.0)
    wanted = send(quiet, specimen, deadline_s=0.3)
    rig.receive()
    assert events(quiet) == []
    rig.step()
    (answer,) = events(quiet)
    assert isinstance(answer, Answered)
    assert answer.id == wanted


def test_a_device_beyond_its_rate_is_told_when_to_come_again(
    specimen_path: Path, tmp_path: Path, specimen: Bundle
) -> None:
    rig = Rig(
        tmp_path,
        specimen_path,
        limits=LimitsConfig(rate_per_s=2.0, max_waiting=8),
        tenants={"fast": TenantConfig(members=("cam-9",), rate_per_s=1000.0)},
    )
    slow, fast = rig.device(seed=1, user="cam-1"), rig.device(seed=2, user="cam-9")
    for _ in range(3):
        send(slow, specimen, deadline_s=0.4)
        send(fast, specimen, deadline_s=0.4)
    rig.step()
    found = events(slow)
    assert [type(event) for event in found].count(Answered) == 2
    (refused,) = [event for event in found if isinstance(event, Refused)]
    assert refused.retry_after_s == pytest.approx(0.5)
    assert refused.instead is None
    assert [type(event) for event in events(fast)] == [Answered] * 3
    assert rig.counted.totals["edge_refusals"] == {("rate", "nothing"): 1}


@pytest.mark.parametrize(
    ("mixed_cuts", "deadline_s", "size"),
    [
        ("always", 0.6, 2),  # 350 ms together: the segment, then two tails
        ("never", 0.6, 0),  # 600 ms: the other one first
        ("always", 0.36, 1),  # with nothing to spare it is computed first, by itself
        ("always", 0.1, 0),
    ],
)
def test_a_request_is_judged_by_the_mixed_batch_that_it_would_be_in(
    specimen: Bundle,
    specimen_path: Path,
    tmp_path: Path,
    mixed_cuts: str,
    deadline_s: float,
    size: int,
) -> None:
    rig = Rig(tmp_path, specimen_path, queue_limit=64, mixed_cuts=mixed_cuts)
    teach(rig, specimen, "late", 0.1)
    teach(rig, specimen, "early", 0.5)
    segment = plan(rig, specimen, "early").onward
    assert segment is not None
    for _ in range(20):
        rig.costs.passed(segment.key, 1, 0.15, now=rig.clock.now())
    device = rig.device()
    send(device, specimen, "early", deadline_s=0.56)
    asked = send(device, specimen, "late", deadline_s=deadline_s)
    rig.step()
    found = {told.id: told for told in events(device) if isinstance(told, Answered | Refused)}
    assert len(found) == 2
    event = found[asked]
    if not size:
        assert isinstance(event, Refused)
    else:
        assert isinstance(event, Answered)
        assert event.hints.batch == size
