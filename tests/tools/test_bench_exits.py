"""`headtail bench exits` on a network of four colours."""

import argparse
from pathlib import Path

import cv2
import pytest

import tiny_cifar
from headtail.bench import exits
from headtail.bench.report import Report
from headtail_fabric.errors import ConfigError, ResourceError
from headtail_models.bundle import write_bundle
from headtail_models.training.cifar import CifarJob
from headtail_models.training.trainer import train
from headtail_models.zoo.own_bundle import assemble
from headtail_models.zoo.resnet_cifar_release import release


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exits")
    tiny_cifar.write_pictures(folder)
    recipe = tiny_cifar.recipe()
    train(CifarJob(recipe, folder, folder / "cache"), recipe, folder / "trained")
    release(recipe, folder / "trained", folder, folder / "released", cache=folder / "cache")
    (folder / "source").mkdir()
    manifest = assemble(folder / "released", folder / "source")
    write_bundle(folder / "source", manifest, folder / "bundle")
    return folder


def _run(*words: str) -> Report:
    parser = argparse.ArgumentParser()
    exits.add_arguments(parser)
    return exits.run(parser.parse_args(words))


def _on(place: Path, *words: str) -> Report:
    usual = ("--bundle", str(place / "bundle"), "--cache", str(place / "cache"), "--timed", "3")
    return _run(str(place), *usual, *words)


def test_without_data_it_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADTAIL_DATA", raising=False)
    assert "HEADTAIL_DATA" in (_run().skipped or "")
    assert _run(str(tmp_path)).skipped is not None


def test_figures_targets_and_files(place: Path, tmp_path: Path) -> None:
    table, picture = tmp_path / "t.md", tmp_path / "p.png"
    report = _on(place, "--markdown", str(table), "--plot", str(picture))
    assert [target.name for target in report.targets] == [
        "cifar_exit_share_at_minus_1pt",
        "cifar_exit_drop",
    ]
    assert report.figures["test_pictures"] == 40
    assert report.figures["calibration_pictures"] == 8
    for name in ("share_max_probability", "cpu_ms_device_drop_1", "guessed_cgr", "bytes_off"):
        assert name in report.figures
    assert cv2.imread(str(picture)) is not None
    text = table.read_text()
    assert text.count("\n## ") == 4
    assert "| exit1 alone |" in text


def test_a_few_pictures_have_no_targets(place: Path) -> None:
    report = _on(place, "--limit", "8")
    assert report.targets == []
    assert report.figures["test_pictures"] == 8
    assert "cifar_exit_share_at_minus_1pt" in report.figures


def test_other_classes(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_cifar, "CLASSES", ("blue", "green"))
    tiny_cifar.write_pictures(tmp_path)
    words = ("--bundle", str(place / "bundle"), "--cache", str(tmp_path / "cache"))
    with pytest.raises(ConfigError, match="other classes"):
        _run(str(tmp_path), *words)


def test_a_table_that_cannot_be_written(place: Path, tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="can't write"):
        _on(place, "--limit", "8", "--markdown", str(tmp_path / "none" / "t.md"))


def test_zero_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _run("--limit", "0")
    assert "at least 1" in capsys.readouterr().err
