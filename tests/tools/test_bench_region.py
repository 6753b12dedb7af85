"""`headtail bench region`: a world made by hand, and the whole on a tiny bundle."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pytest

import tiny_darknet
from headtail.bench import region
from headtail.bench.report import Report
from headtail.region.cells import (
    Cell,
    Grid,
    Pace,
    at_any_time_s,
    contenders,
    controllers,
    in_time_hz,
    photo_order,
    survey,
)
from headtail.region.link import HEADER_BYTES, SimulatedLink
from headtail.region.replay import Fixed, Run, Setting, replay
from headtail.region.samples import Sample, Samples
from headtail_device.controller import Goal
from headtail_device.placement import Offload
from headtail_fabric.emulator import parse_link
from headtail_models.bundle.manifest import (
    ClassifyTask,
    Cut,
    Manifest,
    Measured,
    MeasuredPicture,
    Preprocess,
    StageEntry,
    TensorSpec,
)
from photo_tar import jpeg, write_tar

JPEG = Offload(codec="jpeg", quality=90)
SPLIT = "L3 q4"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_darknet.build(tmp_path_factory.mktemp("build"))


def stage(macs: int) -> StageEntry:
    spec = TensorSpec(name="t", dtype="float32", shape=(3,))
    return StageEntry(file="f.onnx", inputs=(spec,), outputs=(spec,), macs=macs)


def cut(name: str, codec: str) -> Cut:
    known = Measured(codec=codec, value=0.5, drop=0.0, mean_bytes=1.0)
    return Cut(name=name, head=stage(1), tail=stage(2), codecs=(codec,), measured=(known,))


MANIFEST = Manifest(
    schema=1,
    name="m",
    version="1",
    task=ClassifyTask(output="t"),
    labels=("a",),
    preprocess=Preprocess(kind="letterbox", width=4, height=4),
    full=stage(3),
    cuts=(cut("L0", "q8"), cut("L3", "q4")),
    default_cut="L3",
    default_codec="q4",
    files=(),
)


@pytest.fixture(scope="module")
def samples() -> Samples:
    """A device that takes 0.4 s alone, and a network whose cut L3 is a good one."""
    by_way: Mapping[str, Sample] = {
        "local": Sample(device_s=0.4),
        SPLIT: Sample(device_s=0.1, server_s=0.05, payload_bytes=20_000, answer_bytes=400),
        "L0 q8": Sample(device_s=0.2, server_s=0.3, payload_bytes=90_000, answer_bytes=400),
        "input jpeg 90": Sample(
            device_s=0.01, server_s=0.08, payload_bytes=80_000, answer_bytes=400
        ),
    }
    return Samples(
        manifest=MANIFEST,
        offloads={JPEG: 0.0},
        by_way={way: (sample,) * 4 for way, sample in by_way.items()},
    )


def setting(link: str, frames: int = 8) -> Setting:
    return Setting(
        trace=parse_link(link),
        slowdown=2.0,
        deadline_s=1.0,
        period_s=0.1,
        order=tuple(range(4)) * (frames // 4),
    )


def test_a_request_takes_what_the_emulated_link_takes() -> None:
    link = SimulatedLink(parse_link("rate=1mbit rtt=100ms"), seed=1)
    exchange = link.request(125_000 - HEADER_BYTES, 0, server_s=0.5, now=10.0)
    assert exchange.bytes_up == 125_000
    assert exchange.wire_s == pytest.approx(1.1, abs=0.02)
    assert exchange.received_at == pytest.approx(11.6, abs=0.02)
    known = link.estimate(exchange.received_at)
    assert known.goodput_bytes_s == pytest.approx(125_000, rel=0.05)
    assert known.rtt_s == pytest.approx(0.1, abs=0.01)


def test_heartbeats_tell_the_round_trip_of_an_unused_link() -> None:
    link = SimulatedLink(parse_link("rate=1mbit rtt=40ms"), seed=1)
    known = link.estimate(20.0)
    assert known.rtt_s == pytest.approx(0.04, abs=0.005)
    assert known.goodput_bytes_s is None


def test_an_outage_stalls_what_is_under_way() -> None:
    link = SimulatedLink(parse_link("1s rate=1mbit; 2s outage; 100s rate=1mbit"), seed=1)
    exchange = link.request(50_000, 0, server_s=0.0, now=0.9)
    assert 3.2 < exchange.received_at < 3.4


def test_a_fixed_way_takes_what_its_parts_take(samples: Samples) -> None:
    run = replay(Fixed(SPLIT), samples.by_way, setting("rate=8mbit rtt=20ms"))
    assert len(run.latencies_s) == 8
    # The device is slowed down, the edge is not.
    assert run.mean_s == pytest.approx(0.2 + 0.02 + 0.02 + 0.05, rel=0.05)
    assert run.mean_bytes == 20_000 + HEADER_BYTES
    assert run.missed == 0
    assert run.usual_way == SPLIT
    local = replay(Fixed("local"), samples.by_way, setting("rate=8mbit"))
    assert local.mean_s == pytest.approx(0.8)
    assert np.diff(local.begun_s) == pytest.approx(0.8)
    slow = replay(Fixed("input jpeg 90"), samples.by_way, setting("rate=100kbit", frames=4))
    assert slow.missed == 1.0


def test_what_is_beaten_in_everything_is_no_contender(samples: Samples) -> None:
    assert set(contenders(samples)) == {"local", SPLIT, "input jpeg 90"}


def test_the_controller_finds_each_cells_way(samples: Samples) -> None:
    grid = Grid(rates_bits_s=(1e5, 2e6, 1e8), rtts_s=(0.01,), slowdowns=(1.0,))
    pace = Pace(frames=60, period_s=0.1, deadline_s=5.0)
    goal = Goal(max_drop=1.0, seconds_a_point=0.0)
    cells = list(survey(samples, controllers(samples, goal), grid, pace))
    assert len(cells) == len(grid)
    assert [cell.best for cell in cells] == ["local", SPLIT, "input jpeg 90"]
    assert [cell.controller.usual_way for cell in cells] == [cell.best for cell in cells]
    assert all(cell.regret < 1.15 for cell in cells)
    assert [cell.beats(("local", "input jpeg 90")) for cell in cells] == [False, True, False]
    assert all(cell.regret_at(50) < 1.05 for cell in cells)


def test_every_photo_comes_equally_often(samples: Samples) -> None:
    order = photo_order(samples, Pace(frames=10, period_s=0.1, deadline_s=1.0))
    assert sorted(order) == sorted([0, 1, 2, 3] * 3)


def test_means_over_time_and_over_frames_differ() -> None:
    run = Run(
        latencies_s=np.array([0.1, 0.1, 3.0]),
        bytes_up=np.zeros(3),
        begun_s=np.array([0.0, 0.5, 1.0]),
        ways=("local",) * 3,
        deadline_s=1.0,
    )
    assert run.mean_s == pytest.approx(3.2 / 3)
    assert at_any_time_s(run, 0.5) == pytest.approx((0.05 + 0.05 + 9.0) / 4.0)
    assert in_time_hz(run) == pytest.approx(0.5)
    assert run.missed == pytest.approx(1 / 3)
    cell = Cell(
        rate_bits_s=1e6,
        rtt_s=0.1,
        slowdown=1.0,
        fixed={"local": run},
        controller=replace(run, latencies_s=run.latencies_s * 2),
    )
    assert cell.regret == pytest.approx(2.0)


def _run(*words: str) -> Report:
    parser = argparse.ArgumentParser()
    region.add_arguments(parser)
    return region.run(parser.parse_args(words))


def test_without_photos_it_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADTAIL_DATA", raising=False)
    assert "HEADTAIL_DATA" in (_run().skipped or "")
    assert "no photo set at" in (_run("--photos", str(tmp_path / "none.tar")).skipped or "")


def test_of_a_bundle_that_knows_no_picture_codec_it_must_be_told(
    bundle: Path, tmp_path: Path
) -> None:
    photos = write_tar(tmp_path / "photos.tar", {"images/val2017/a.jpg": jpeg(40, 60)})
    skipped = _run("--bundle", str(bundle), "--photos", str(photos)).skipped
    assert "name one with --picture" in (skipped or "")


def test_the_bundles_picture_codecs_are_the_default_the_lightest_jpeg_first() -> None:
    sizes: tuple[tuple[Literal["jpeg", "webp"], int, int, float], ...] = (
        ("webp", 90, 50, 0.0),
        ("jpeg", 95, 90, 0.0),
        ("jpeg", 80, 60, 0.006),
    )
    known = tuple(
        MeasuredPicture(codec=codec, quality=quality, value=0.5, drop=drop, mean_bytes=size)
        for codec, quality, size, drop in (*sizes, ("jpeg", 50, 10, 0.02))
    )
    found = region._known(msgspec.structs.replace(MANIFEST, pictures=known), 0.01)
    assert [(one.way.codec, one.way.quality) for one in found] == [
        ("jpeg", 80),
        ("jpeg", 95),
        ("webp", 90),
    ]


def test_the_whole_on_a_tiny_bundle(bundle: Path, tmp_path: Path) -> None:
    photos = write_tar(
        tmp_path / "coco-photos.tar",
        {f"images/val2017/{name}.jpg": jpeg(40, 60) for name in range(2)},
    )
    table, chart, drive = (tmp_path / name for name in ("t.md", "m.png", "d.png"))
    report = _run(
        *("--bundle", str(bundle), "--photos", str(photos), "--frames", "8"),
        *("--rates", "1,10", "--rtts", "5", "--slowdowns", "1,5", "--max-drop", "1"),
        *("--picture", "jpeg:90:0.0", "--drive", "1s lte; 1s wifi-bad; repeat", "--drive-s", "2"),
        *("--markdown", str(table), "--plot", str(chart), "--plot-drive", str(drive)),
    )
    assert {target.name for target in report.targets} == {
        "controller_regret_max",
        "cells_better_than_both",
    }
    assert {"drive_by_ratio_1x", "drive_by_ratio_5x", "regret_max_p95"} <= report.figures.keys()
    assert len(table.read_text().splitlines()) == 2 + 4
    assert chart.stat().st_size > 1000 < drive.stat().st_size
    report.write(tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["bench"] == "region"


@pytest.mark.parametrize("text", ["0", "1,-2", "a"])
def test_rates_must_be_numbers_above_0(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _run("--rates", text)
    assert "--rates" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["jpeg", "jpeg:x:0.1", "jpeg:90"])
def test_a_picture_codec_has_three_parts(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _run("--picture", text)
    assert "--picture" in capsys.readouterr().err
