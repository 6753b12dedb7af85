"""`headtail run --link`: a device and its edge with an emulated link between them."""

import json
from pathlib import Path

import pytest

from headtail_fabric.emulator import PRESETS
from headtail_models.bundle.specimen import write_specimen
from processes import PATIENCE_S, Headtail, records, write_clip

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_specimen(tmp_path_factory.mktemp("bundles") / "specimen")


def run(bundle: Path, out: Path, *more: str, frames: int = 40) -> str:
    """Run to the end; what it printed."""
    clip = write_clip(out.parent / "clip.mp4", frames=frames)
    words: list[str | Path] = ["run", "--source", clip, "--bundle", bundle, "--out", out, *more]
    with Headtail(*words) as process:
        output, errors = process.process.communicate(timeout=PATIENCE_S)
        assert process.process.returncode == 0, errors.decode()
    return output.decode()


def test_every_frame_is_answered_and_the_summary_says_over_which_link(
    bundle: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    output = run(bundle, out, "--link", "wifi-bad rtt=60ms")
    frames = records(out / "frames.jsonl")
    assert sorted(frame["frame"] for frame in frames) == list(range(40))
    assert {frame["outcome"] for frame in frames} == {"edge"}
    summary = json.loads((out / "summary.json").read_text())
    assert summary["link"].startswith("wifi-bad rtt=60ms (up=2mbit down=4mbit rtt=60ms")
    assert f"emulated link: {summary['link']}" in output
    # No round trip is shorter than the propagation less the jitter.
    assert PRESETS["wifi-bad"].conditions.jitter_s == 0.02
    assert summary["latency_ms"]["wire"]["p50"] >= 40


def test_over_a_link_that_breaks_each_frame_ends_once_and_none_fails(
    bundle: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    more = ("--pace", "realtime", "--link", "lan outage=0.5s/2s/cut")
    run(bundle, out, *more, frames=75)
    frames = records(out / "frames.jsonl")
    assert sorted(frame["frame"] for frame in frames) == list(range(75))
    # The clip does not wait, so a slow machine may drop some.
    assert {frame["outcome"] for frame in frames} <= {"edge", "degraded", "dropped"}


def test_without_a_link_the_summary_says_so(bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    output = run(bundle, out, frames=3)
    assert json.loads((out / "summary.json").read_text())["link"] is None
    assert "emulated" not in output
