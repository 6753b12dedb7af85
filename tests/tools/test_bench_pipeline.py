"""What `headtail bench pipeline` makes of a run."""

from types import SimpleNamespace

import pytest

from headtail.bench.pipeline import Pace, ThreadWatch, cases, pace_of
from headtail_device.summary import Progress


def line(head_ms: float, tail_ms: float | None = None, up: int = 0) -> dict[str, object]:
    if tail_ms is None:
        return {"ms": {"head": head_ms, "tail": 0.0}}
    return {"ms": {"head": head_ms, "tail": tail_ms}, "bytes": {"up": up}}


def summary(frames_per_s: float) -> object:
    return SimpleNamespace(frames_per_s=frames_per_s)


def paced(lines: list[dict[str, object]], rate: float, link: float | None = None) -> Pace:
    return pace_of(lines, summary(rate), link_bits_s=link, shares={})  # type: ignore[arg-type]


def test_the_ratio_is_to_the_slowest_stage() -> None:
    pace = paced([line(20, 80, 1000), line(30, 120, 1000), {"outcome": "dropped"}], rate=9.5)
    assert pace.frames == 2
    assert pace.slowest == "edge"
    assert pace.ratio == pytest.approx(9.5 * 0.1)


def test_a_link_is_busy_for_as_long_as_the_bytes_take() -> None:
    pace = paced([line(2, 70, 20_000), line(2, 70, 30_000)], rate=4.8, link=1e6)
    assert pace.slowest == "link"
    assert pace.stages_s["link"] == pytest.approx(0.2)
    assert pace.ratio == pytest.approx(0.96)


def test_without_an_edge_only_the_device_counts() -> None:
    pace = paced([line(70), line(80)], rate=13.0)
    assert pace.stages_s == {"head": pytest.approx(0.075)}


def test_each_case_makes_another_stage_the_slowest() -> None:
    edge, link, device = cases("rate=2mbit rtt=10ms")
    assert edge.link_bits_s is None
    assert link.link_bits_s == 2e6
    assert device.settings["mode"] == "local"


def test_threads_are_watched_between_the_first_look_and_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = iter([1.0, 1.5, 3.0])
    thread = SimpleNamespace(name="capture", native_id=7)
    monkeypatch.setattr("headtail.bench.pipeline.threading.enumerate", lambda: [thread])
    monkeypatch.setattr("headtail.bench.pipeline._taken_s", lambda _id: next(taken))
    watch = ThreadWatch()
    for frames, busy_s in ((0, 0.0), (1, 2.0), (40, 5.0)):
        watch.look(
            Progress(
                frames=frames,
                frame_count=None,
                outcomes={},
                in_flight=0,
                edge_ready=True,
                busy_s=busy_s,
            )
        )
    assert watch.shares() == {"capture": pytest.approx(0.5)}


def test_a_run_too_short_to_watch_tells_nothing() -> None:
    assert ThreadWatch().shares() == {}
