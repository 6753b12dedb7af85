import argparse
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from headtail.bench.report import Report
from headtail.cli import main
from headtail.commands import bench


def install(monkeypatch: pytest.MonkeyPatch, figure: float) -> None:
    """Put a benchmark called `wire` in the place of the real one."""

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--scale", type=float, default=1.0)

    def run(options: argparse.Namespace) -> Report:
        report = Report("wire", {"scale": options.scale})
        report.target("ratio", figure * options.scale, ">=", 0.8)
        return report

    module = ModuleType("headtail.bench.wire", "A probe.")
    module.__dict__.update(add_arguments=add_arguments, run=run)
    monkeypatch.setitem(sys.modules, module.__name__, module)


def test_every_benchmark_module_is_known_by_name() -> None:
    names = bench.names()
    assert {"wire", "edge", "accuracy"} <= set(names)
    assert "report" not in names


def test_figures_are_printed_and_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, 0.9)
    path = tmp_path / "wire.json"
    assert main(["bench", "wire", "--json", str(path), "--scale", "1"]) == 0
    assert json.loads(path.read_text())["figures"] == {"ratio": 0.9}
    assert "ratio: 0.9" in capsys.readouterr().out


def test_the_json_option_may_stand_before_the_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, 0.9)
    path = tmp_path / "wire.json"
    assert main(["bench", "--json", str(path), "wire"]) == 0
    assert path.exists()


def test_a_missed_target_is_an_exit_status_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, 0.9)
    assert main(["bench", "wire", "--scale", "0.5"]) == 3


def test_a_file_that_can_not_be_written_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, 0.9)
    assert main(["bench", "wire", "--json", "/no/such/folder/x.json"]) == 1
    assert "can't write /no/such/folder/x.json" in capsys.readouterr().err


def test_a_missing_package_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(name: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

    monkeypatch.setattr(bench, "import_module", refuse)
    assert main(["bench", "wire"]) == 1
    assert "pip install 'headtail[bench]'" in capsys.readouterr().err


def test_an_unknown_name_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as usage:
        main(["bench", "nonsense"])
    assert usage.value.code == 2
    assert "accuracy" in capsys.readouterr().err
