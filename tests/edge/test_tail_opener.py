"""Tails that are announced are open before they are asked for."""

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edge_doubles import Rig
from headtail_edge.plan import TailPlan
from headtail_edge.stage_memory import LazyStage
from headtail_edge.tail_opener import TailOpener
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen
from headtail_models.stage import Stage
from processes import wait_until


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(write_specimen(tmp_path_factory.mktemp("opener") / "specimen"))


@pytest.fixture
def opener() -> Iterator[TailOpener]:
    opener = TailOpener()
    opener.start()
    yield opener
    opener.stop(10.0)
    assert not opener._thread.is_alive()


def tail(rig: Rig, bundle: Bundle, cut: str) -> TailPlan:
    plan = rig.registry.plan(bundle.digest, cut)
    assert plan is not None
    return plan


def test_an_announced_tail_is_opened(tmp_path: Path, bundle: Bundle, opener: TailOpener) -> None:
    rig = Rig(tmp_path, bundle.path)
    rig.server._opener = opener
    device = rig.device()
    rig.step()
    late, early = (tail(rig, bundle, cut) for cut in ("late", "early"))
    for plan in (late, early):
        plan.stage.close()
    device.announce_tail(bundle=bundle.digest, cut="late", due_s=0.1)
    device.announce_tail(bundle=bundle.digest, cut="nowhere", due_s=0.1)
    device.announce_tail(bundle=bytes(32), cut="early", due_s=0.1)
    rig.step()
    wait_until(lambda: late.stage.is_open, "an open tail")
    assert not early.stage.is_open


def test_one_at_a_time_and_a_broken_one_does_no_harm(
    tmp_path: Path, bundle: Bundle, opener: TailOpener, caplog: pytest.LogCaptureFixture
) -> None:
    plan = tail(Rig(tmp_path, bundle.path), bundle, "late")
    begun, go_on = threading.Event(), threading.Event()

    def broken() -> Stage:
        begun.set()
        assert go_on.wait(10.0)
        raise OSError("the file is gone")

    slow, second, third = (
        replace(plan, stage=LazyStage(open_stage))
        for open_stage in (broken, lambda: plan.stage.get(), lambda: plan.stage.get())
    )
    with caplog.at_level(logging.DEBUG, "headtail_edge.tail_opener"):
        opener.due(slow)
        assert begun.wait(10.0)
        opener.due(second)
        opener.due(third)
        go_on.set()
        wait_until(lambda: second.stage.is_open, "the second tail")
    assert not third.stage.is_open
    said = [record.levelname for record in caplog.records]
    assert sorted(said) == ["DEBUG", "WARNING"]
