"""A device that decides: the daemon with a controller, a tiny real network, an edge in memory."""

import json
import threading
from pathlib import Path

import cv2
import numpy as np
import pytest
from msgspec.structs import replace

from device_doubles import EchoPort, tiny_bundle, write_video
from headtail_device.config import DeviceConfig
from headtail_device.daemon import run_device
from headtail_device.ledger import Outcome
from headtail_device.opening import Connect, NotPicturesError, check_kind
from headtail_device.summary import RunSummary
from headtail_fabric import config
from headtail_fabric.wire import DType, TensorInfo
from headtail_models.bundle import open_bundle
from headtail_models.bundle.manifest import LogMel
from headtail_models.bundle.specimen import write_specimen


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_specimen(tmp_path_factory.mktemp("gated") / "gated", gated=True)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "headtail" / "costs"


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_video(tmp_path / "clip.mp4", frames=12)


def device(bundle: Path, source: Path, **flags: object) -> DeviceConfig:
    given = {key.replace("__", "."): value for key, value in flags.items()}
    basics = {"bundle": str(bundle), "source": str(source), "edge.endpoint": "tcp://edge:1"}
    return config.load(DeviceConfig, None, {"mode": "auto", **basics, **given})


def run(chosen: DeviceConfig, *, classes: int = 2, up: bool = True) -> RunSummary:
    reply = TensorInfo(name="logits", dtype=DType.FLOAT32, shape=(classes,), codec="raw")
    logits = np.arange(classes, dtype=np.float32).tobytes()
    connect: Connect = lambda chosen, digest, clock: EchoPort(  # noqa: E731
        digest, lambda: (reply, logits), up=up
    )
    return run_device(chosen, stop=threading.Event(), connect=connect)


def test_what_costs_the_fewest_bytes_stays_here(bundle: Path, clip: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    summary = run(device(bundle, clip, mode="lowest-bytes", output__json=str(out)))
    assert summary.totals[Outcome.LOCAL] == summary.frames == 12
    assert summary.goal == "lowest-bytes"
    (placed,) = summary.placements
    assert (placed.option, placed.frames, placed.answered) == ("local", 12, 12)
    assert placed.forecast_s > 0 < placed.observed_s
    line = json.loads(out.read_text().splitlines()[-1])
    assert line["placed"].keys() == {"way", "why", "ms", "by_ms", "bytes", "drop"}
    assert (line["placed"]["way"], line["placed"]["why"]) == ("local", "best")


def test_what_computes_nothing_is_sent_when_only_that_counts(bundle: Path, clip: Path) -> None:
    summary = run(
        device(
            bundle,
            clip,
            mode="lowest-energy",
            deadline_s=60.0,
            controller__joules_per_byte=0.0,
            controller__idle_w=0.0,
            controller__pictures=["jpeg:80:0.0"],
        )
    )
    assert summary.totals[Outcome.EDGE] == 12
    assert {placed.option for placed in summary.placements} == {"input jpeg 80"}


def test_fixed_is_what_was_configured(bundle: Path, clip: Path) -> None:
    flags: dict[str, object] = {"mode": "fixed", "way__codec": "q8", "deadline_s": 60.0}
    summary = run(device(bundle, clip, **flags))
    assert summary.totals[Outcome.EDGE] == 12
    assert [placed.option for placed in summary.placements] == ["middle q8"]
    sent = run(device(bundle, clip, **{**flags, "way__codec": "webp", "way__cut": "input"}))
    assert [placed.option for placed in sent.placements] == ["input webp 75"]


def test_exits_are_part_of_the_choice(gated: Path, tmp_path: Path) -> None:
    folder = tmp_path / "greys"
    folder.mkdir()
    for index in range(6):
        picture = np.full((16, 16, 3), 200, dtype=np.uint8)
        assert cv2.imwrite(str(folder / f"{index}.png"), picture)
    flags = {"mode": "fixed", "way__cut": "code", "deadline_s": 60.0}
    exits = run(device(gated, folder, **flags), classes=3)
    assert exits.totals[Outcome.EXIT] == 6
    (placed,) = exits.placements
    assert placed.option.startswith("code rans @")
    assert placed.drop > 0
    pinned = run(device(gated, folder, **flags, gates__exit_point="off"), classes=3)
    assert pinned.totals[Outcome.EDGE] == 6
    assert [placed.option for placed in pinned.placements] == ["code rans @off"]


def test_the_device_measures_itself_once(bundle: Path, clip: Path, cache: Path) -> None:
    run(device(bundle, clip))
    (kept,) = cache.iterdir()
    assert kept.name.startswith(open_bundle(bundle).digest.hex())
    before = kept.read_bytes()
    run(device(bundle, clip))
    assert kept.read_bytes() == before


def test_nothing_is_kept_when_that_is_not_wanted(bundle: Path, clip: Path, cache: Path) -> None:
    run(device(bundle, clip, controller__profile=False))
    assert not cache.exists()


def test_without_an_edge_every_frame_is_answered_here(bundle: Path, clip: Path) -> None:
    summary = run(device(bundle, clip, edge__patience_s=0.0), up=False)
    answered = summary.totals[Outcome.LOCAL] + summary.totals[Outcome.DEGRADED]
    assert answered == summary.frames == 12


def test_without_an_edge_what_it_misses_is_spooled(
    bundle: Path, clip: Path, tmp_path: Path
) -> None:
    chosen = device(
        bundle, clip, mode="fixed", edge__patience_s=0.0, spool__folder=tmp_path / "spool"
    )
    summary = run(chosen, up=False)
    assert summary.totals[Outcome.SPOOLED] == 12
    assert [placed.answered for placed in summary.placements] == [0]


def test_pictures_are_for_bundles_that_see(bundle: Path, clip: Path) -> None:
    hears = replace(open_bundle(bundle).manifest, preprocess=LogMel())
    chosen = device(bundle, clip, controller__pictures=["jpeg:80:0.0"])
    with pytest.raises(NotPicturesError, match=r"controller\.pictures"):
        check_kind(chosen, hears)
