"""Device and edge processes with a gated bundle: some frames end at a gate, others cross coded."""

import json
from collections import Counter
from pathlib import Path

import cv2
import numpy as np
import pytest

from headtail_models.bundle import open_bundle
from headtail_models.bundle.specimen import write_specimen
from headtail_models.task import ClassifyAnswer, task_for
from processes import PATIENCE_S, Headtail, records

pytestmark = pytest.mark.system

BRIGHTNESS = {"filtered": 5, "edge": 64, "exit": 200}
ORDER = ("filtered", "edge", "exit", "edge", "filtered", "exit", "exit") * 6


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_specimen(tmp_path_factory.mktemp("bundles") / "gated", gated=True)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of one grey each, by what should become of them."""
    folder = tmp_path_factory.mktemp("pictures")
    for index, outcome in enumerate(ORDER):
        picture = np.full((16, 16, 3), BRIGHTNESS[outcome], dtype=np.uint8)
        assert cv2.imwrite(str(folder / f"{index:03d}.png"), picture)
    return folder


def device(bundle: Path, pictures: Path, out: Path, *more: str) -> list[dict[str, object]]:
    """A device and its edge, to the end; one record a frame."""
    with Headtail("edge", "serve", "--bind", "tcp://127.0.0.1:0", "--bundle", bundle) as edge:
        words = ("device", "run", "--bundle", bundle, "--source", pictures, "--json", out)
        with Headtail(
            *words, *more, "--edge", edge.ready()["endpoint"], "--require-edge"
        ) as running:
            assert running.process.wait(PATIENCE_S) == 0, running.errors()
        assert edge.terminate() == 0
    return records(out)


def test_each_frame_ends_where_it_should(bundle: Path, pictures: Path, tmp_path: Path) -> None:
    lines = device(bundle, pictures, tmp_path / "frames.jsonl")
    assert [line["frame"] for line in lines] == list(range(len(ORDER)))
    assert [line["outcome"] for line in lines] == list(ORDER)
    cut = open_bundle(bundle).cut("code")
    for line in lines:
        if line["outcome"] == "edge":
            assert line["codec"] == "rans"
            assert line["macs"] == cut.device_macs
            sizes = line["bytes"]
            assert isinstance(sizes, dict)
            assert 0 < sizes["payload"] < 120
        else:
            assert "codec" not in line
            assert "bytes" not in line
            assert line["gate"] == ("guess" if line["outcome"] == "exit" else "presence")
            macs = cut.gates[0].macs + (cut.gates[1].macs if line["outcome"] == "exit" else 0)
            assert line["macs"] == macs


def test_answers_are_those_of_the_same_network_here(
    bundle: Path, pictures: Path, tmp_path: Path
) -> None:
    opened = open_bundle(bundle)
    task = task_for(opened.manifest)
    codec = opened.codecs("code").new("rans")
    head = opened.open_stage(opened.full())
    for line in device(bundle, pictures, tmp_path / "frames.jsonl"):
        answer = line["answer"]
        assert isinstance(answer, dict)
        ranked = [one["label"] for one in answer["top"]]
        picture = np.full((16, 16, 3), BRIGHTNESS[str(line["outcome"])], dtype=np.uint8)
        tensor, geometry = task.prepare(picture)
        if line["outcome"] == "filtered":
            assert ranked == []
        elif line["outcome"] == "exit":
            whole = task.answer(task.finish(head.run({"picture": tensor}))[0], geometry)
            assert isinstance(whole, ClassifyAnswer)
            assert ranked == [label for label, _ in whole.top]
        else:
            early = opened.open_stage(opened.cut("code").gates[0].trunk or opened.full())
            late = opened.open_stage(opened.cut("code").gates[1].trunk or opened.full())
            tensor = late.run(early.run({"picture": tensor}))["late"]
            code = opened.open_stage(opened.head("code")).run({"late": tensor})["code"]
            crossed = codec.decode(codec.encode(code), code.shape)
            outputs = opened.open_stage(opened.tail("code")).run({"code": crossed})
            split = task.answer(task.finish(outputs)[0], geometry)
            assert answer == split.to_json()


def test_gates_can_be_turned_off(bundle: Path, pictures: Path, tmp_path: Path) -> None:
    more = ("--exit-point", "off", "--no-filter", "--codec", "rans-coarse")
    lines = device(bundle, pictures, tmp_path / "frames.jsonl", *more)
    assert {(line["outcome"], line["codec"]) for line in lines} == {("edge", "rans-coarse")}


def test_a_run_tells_how_many_frames_ended_where(
    bundle: Path, pictures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words: list[str | Path] = ["run", "--source", pictures, "--bundle", bundle, "--out", out]
    with Headtail(*words) as run:
        output, errors = run.process.communicate(timeout=PATIENCE_S)
        assert run.process.returncode == 0, errors.decode()
    ended = Counter(str(line["outcome"]) for line in records(out / "frames.jsonl"))
    assert ended == Counter(ORDER)
    summary = json.loads((out / "summary.json").read_text())
    assert sum(summary["outcomes"].values()) == summary["frames"] == len(ORDER)
    assert summary["gates"] == {"presence": ended["filtered"], "guess": ended["exit"]}
    printed = " ".join(output.decode().replace("│", " ").split())
    assert f"answered at an exit {ended['exit']}" in printed
    assert f"filtered: nothing of interest {ended['filtered']}" in printed
    assert "multiply-adds a frame, here" in printed


def test_a_point_that_is_not_there_is_a_known_error(bundle: Path, pictures: Path) -> None:
    words = ("device", "run", "--bundle", bundle, "--source", pictures, "--exit-point", "bold")
    with Headtail(*words, "--edge", "tcp://127.0.0.1:9") as running:
        assert running.process.wait(PATIENCE_S) == 1
        errors = running.errors()
    assert "no operating point 'bold', only eager, careful, closed" in errors
    assert "Traceback" not in errors
