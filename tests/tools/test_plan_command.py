"""`headtail plan`."""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

from headtail.commands import plan as command
from headtail_fabric.errors import ConfigError
from headtail_models.bundle.specimen import noise, write_stages
from headtail_models.planner.costs import read_costs
from headtail_models.planner.errors import PlanFileError, QuantityError

Run = Callable[..., str]


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_stages(tmp_path)
    return tmp_path / "full.onnx"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `headtail plan full.onnx` over a link and returns what it printed."""

    def run(*words: str | Path, rate: str = "2mbit") -> str:
        parser = argparse.ArgumentParser()
        command.add(parser.add_subparsers())
        given = ["plan", "full.onnx", "--rate", rate, "--rtt", "30ms", *map(str, words)]
        args = parser.parse_args(given)
        assert args.handler(args) == 0
        return capsys.readouterr().out

    return run


def test_the_table_and_the_best(run: Run) -> None:
    out = run("--device-slowdown", "8", "--show", "all")
    for words in ("8 times as slow", "local", "offload", "early", "late", "q8", "energy mJ"):
        assert words in out
    assert "Fastest on this link: stay local" in out
    assert "local" in run("--show", "pareto", "--codecs", "raw")
    assert "--samples measures them" in out


def test_a_fast_link_and_a_slow_device_offload(run: Run) -> None:
    out = run("--device-slowdown", "1e6", rate="100gbit")
    assert "Fastest on this link: send the picture whole as uint8" in out


def test_a_plan_made_on_the_device_is_its_profile(run: Run, tmp_path: Path) -> None:
    run("--json", "device.json", "--plot", "plan.png", "--measure", "2")
    assert (tmp_path / "plan.png").read_bytes()[:4] == b"\x89PNG"
    assert len(read_costs(tmp_path / "device.json").cuts) == 6
    out = run("--device-profile", "device.json", "--show", "all")
    assert "device: a profiled device" in out
    assert "~ times interpolated" in out
    (tmp_path / "full.onnx").write_bytes((tmp_path / "head-early.onnx").read_bytes())
    with pytest.raises(PlanFileError, match="another model"):
        run("--device-profile", "device.json")


def test_where_it_can_not_be_cut_is_said(run: Run, model: Path) -> None:
    branches = "".join(f"b{at} = Exp(x)\n" for at in range(20))
    body = f"""
g (float[N,4] x) => (float[N,4] y) {{
  {branches}
  y = Sum({", ".join(f"b{at}" for at in range(20))})
}}"""
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>{body}')
    model.write_bytes(proto.SerializeToString())
    out = run("--max-tensors", "1")
    assert "no cut behind Exp_0 (Exp): 2 tensors would cross: 'b0', 'x'" in out
    assert "nor behind 8 more nodes" in out


def test_work_that_is_not_counted_is_said(run: Run, model: Path) -> None:
    body = "g (float[N,4] x) => (float[N,4] y) { a = Relu(x) y = com.microsoft.Gelu(a) }"
    imports = '"" : 17, "com.microsoft" : 1'
    proto = parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]>{body}")
    model.write_bytes(proto.SerializeToString())
    out = run()
    assert "Multiply-adds are not known of Gelu_1;" in out
    assert "offload" in run("--show", "all")


def test_samples_and_codecs(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "some.npy", noise(3, seed=1))
    out = run("--samples", "some.npy", "--codecs", "raw,q8", "--show", "all")
    assert "mean of 3 samples" in out
    assert "q8+zstd" in out
    assert "q4" not in out


@pytest.mark.parametrize(
    "words",
    [
        ("--codecs", "q9"),
        ("--codecs", ""),
        ("--device-slowdown", "0"),
        ("--device-slowdown", "nan"),
        ("--measure", "0"),
        ("--idle-watts", "-1"),
        ("--shape", "picture=1xA"),
        ("--shape", "nothing"),
        ("--mean", "1,1,1"),
        ("--prepare", "centre-crop", "--mean", "1,1"),
        ("--prepare", "centre-crop", "--std", "1,0,1"),
        ("--plot", "none/plan.png"),
        ("--device-profile", "none.json"),
    ],
)
def test_wrong_words(run: Run, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        run(*words)


def test_a_rate_without_a_unit(run: Run) -> None:
    with pytest.raises(QuantityError):
        run(rate="2")
