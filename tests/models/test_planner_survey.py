"""Measuring a model's cuts: sizes and structure, never the times themselves."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from headtail_models.bundle.specimen import SIDE, write_stages
from headtail_models.planner import Device, Link, Option, fastest_by_rate, options_of
from headtail_models.planner.chart import MAX_CURVES, curves, draw, rates_around
from headtail_models.planner.payloads import measured_payloads, static_payloads
from headtail_models.planner.survey import SurveySettings, survey, worth_measuring
from headtail_models.planner.timing import median_s
from headtail_models.splitting import Cut, OnnxModel, open_model
from headtail_models.splitting.samples import read_samples
from headtail_models.splitting.tensors import Tensor

QUICK = SurveySettings(repeats=1)


@pytest.fixture
def model(tmp_path: Path) -> OnnxModel:
    (tmp_path / "specimen").mkdir()
    (tmp_path / "work").mkdir()
    write_stages(tmp_path / "specimen")
    return open_model(tmp_path / "specimen" / "full.onnx", tmp_path / "work")


def test_the_median_counts_no_warm_up() -> None:
    ticks = iter([0.0, 5.0, 10.0, 11.0, 20.0, 23.0])
    done = []
    assert median_s(lambda: done.append(1), repeats=3, warm_up=2, clock=lambda: next(ticks)) == 3.0
    assert len(done) == 5


def test_without_samples_sizes_follow_from_shapes(model: OnnxModel) -> None:
    seen: list[tuple[int, int]] = []
    costs = survey(
        model,
        model.cuts(),
        name="specimen",
        settings=QUICK,
        progress=lambda *at: seen.append(at),
    )
    assert seen[0] == (0, 6)
    assert seen[-1] == (6, 6)
    early = costs.cut("early")
    assert early is not None
    values = 8 * SIDE * SIDE
    assert {one.codec: one.mean_bytes for one in early.payloads} == {
        "raw": 4 * values,
        "q8": values,
        "q4": values / 2,
    }
    assert early.head_macs == 8 * 3 * 9 * SIDE**2
    assert costs.full_macs > early.head_macs
    assert all(cut.measured for cut in costs.cuts)
    assert [(one.codec, one.mean_bytes) for one in costs.offload] == [("uint8", 3 * SIDE * SIDE)]


def test_with_pictures_zstd_and_jpeg_are_measured(model: OnnxModel, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    draw = np.random.default_rng(1)
    for at in range(3):
        picture = draw.integers(0, 255, (20, 30, 3)).astype(np.uint8)
        cv2.imwrite(str(photos / f"{at}.png"), picture)
    samples = read_samples(photos, model.specs, limit=2)
    assert [sample.name for sample in samples] == ["0.png", "1.png"]
    costs = survey(model, [model.cut_at("late")], name="specimen", samples=samples, settings=QUICK)
    late = costs.cuts[0]
    assert [one.codec for one in late.payloads] == [
        "raw",
        "raw+zstd",
        "q8",
        "q8+zstd",
        "q4",
        "q4+zstd",
    ]
    assert all(one.samples == 2 for one in late.payloads)
    assert [one.codec for one in costs.offload] == ["jpeg90", "uint8"]
    assert costs.offload[0].mean_bytes > 600
    assert {one.kind for one in options_of(costs, Device())} == {"local", "split", "offload"}


def test_beyond_the_limit_times_are_interpolated(model: OnnxModel) -> None:
    costs = survey(
        model, model.cuts(), name="specimen", settings=SurveySettings(repeats=1, max_measured=1)
    )
    measured = [cut.name for cut in costs.cuts if cut.measured]
    assert len(measured) == 1
    for cut in costs.cuts:
        assert 0 <= cut.head_s <= max(costs.full_s, *(one.head_s for one in costs.cuts))
        assert cut.payloads[0].codec == "raw"


def _cut(name: str, values: int, also: int = 0) -> Cut:
    sent = [Tensor(name=name, dtype="float32", shape=(1, values), batched=True)]
    sent += [
        Tensor(name=f"{name}{n}", dtype="float32", shape=(1, 1), batched=True) for n in range(also)
    ]
    return Cut(head=frozenset({name}), crossing=tuple(sent))


def test_promising_cuts_come_first() -> None:
    cuts = [_cut("wide", 100), _cut("linear", 50), _cut("relu", 50), _cut("two", 60, 1)]
    macs = [10, 20, 20, 30]
    assert worth_measuring(cuts, macs, 2) == {0, 2}
    assert worth_measuring(cuts, macs, 3) == {0, 2, 3}  # rather than what relu costs, too
    assert worth_measuring(cuts, macs, 9) == {0, 1, 2, 3}


def test_tensors_that_can_not_be_quantised_go_raw_beside_the_others() -> None:
    image = Tensor(name="i", dtype="float32", shape=(1, 2, 3), batched=True)
    flags = Tensor(name="f", dtype="bool", shape=(1, 5), batched=True)
    frame = {
        "i": np.linspace(0, 1, 6, dtype=np.float32).reshape(1, 2, 3),
        "f": np.array([[True, False, True, True, False]]),
    }
    sizes = {one.codec: one.mean_bytes for one in static_payloads([image, flags])}
    assert sizes == {"raw": 29, "q8": 11, "q4": 8}
    measured = measured_payloads([image, flags], [frame], real=False)
    assert {one.codec: one.mean_bytes for one in measured} == sizes


def test_values_that_are_not_finite_are_not_quantised() -> None:
    tensor = Tensor(name="i", dtype="float32", shape=(1, 2), batched=True)
    frame = {"i": np.array([[np.inf, 0]], np.float32)}
    codecs = [one.codec for one in measured_payloads([tensor], [frame], real=True)]
    assert codecs == ["raw", "raw+zstd"]


def test_the_chart_has_local_offload_and_the_best_cuts(tmp_path: Path) -> None:
    link = Link(rate_bps=2e6, rtt_s=0.03)
    options = [
        Option(kind="local", name="local", device_s=1.0),
        Option(kind="offload", name="offload", codec="jpeg90", device_s=0, payload_bytes=9e4),
        Option(kind="offload", name="offload", codec="uint8", device_s=0, payload_bytes=9e5),
        *(
            Option(
                kind="split",
                name=f"$cut_{at}$",
                codec="q8",
                device_s=0.1 * at,
                payload_bytes=1e6 / 4**at,
            )
            for at in range(12)
        ),
    ]
    drawn = curves(options, link)
    assert [one.kind for one in drawn[:2]] == ["local", "offload"]
    assert drawn[1].codec == "jpeg90"
    assert len(drawn) == 2 + MAX_CURVES
    best = fastest_by_rate(options, rates_around(link), link.rtt_s)
    assert {one for one in best if one.kind == "split"} <= set(drawn)
    assert rates_around(Link(rate_bps=10, rtt_s=0))[0] < 10
    draw(options, link, tmp_path / "plan.png", title="a title")
    assert (tmp_path / "plan.png").read_bytes()[:4] == b"\x89PNG"
    assert curves(options[:1], link) == tuple(options[:1])
