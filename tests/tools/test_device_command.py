"""`headtail device` on the command line."""

import argparse
import signal
from pathlib import Path

import pytest

from device_doubles import tiny_bundle, write_video
from headtail.commands import device
from headtail_device.config import DeviceConfig
from headtail_fabric import config
from headtail_fabric.errors import ConfigError


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="headtail")
    device.add(root.add_subparsers())
    return root


def run(*words: str) -> int:
    args = parser().parse_args(["device", "run", *words])
    status = args.handler(args)
    assert isinstance(status, int)
    return status


@pytest.fixture
def local(tmp_path: Path) -> list[str]:
    """The words for a run without an edge."""
    bundle = tiny_bundle(tmp_path)
    clip = write_video(tmp_path / "clip.mp4", frames=3)
    return ["--bundle", str(bundle), "--source", str(clip), "--mode", "local"]


def test_a_run_that_goes_well_ends_with_0(local: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert run(*local, "--json", str(out)) == 0
    assert len(out.read_text().splitlines()) == 3


def test_an_output_that_fails_ends_with_1(local: list[str]) -> None:
    assert run(*local, "--json", "/dev/full") == 1


def test_the_signal_handlers_are_given_back(local: list[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    run(*local)
    assert signal.getsignal(signal.SIGTERM) is before


def test_options_override_the_file(local: list[str], tmp_path: Path) -> None:
    file = tmp_path / "device.toml"
    file.write_text(f'source = "nosuch"\nmode = "local"\nbundle = "{local[1]}"\n')
    assert run("--config", str(file), "--source", local[3]) == 0


def test_a_wrong_configuration_is_a_known_error() -> None:
    with pytest.raises(ConfigError, match="source"):
        run("--bundle", "tiny")
    with pytest.raises(ConfigError, match=r"command line: way\.quality"):
        run("--bundle", "b", "--source", "s", "--mode", "local", "--quality", "101")


def test_a_wrong_command_line_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run("--late", "never")
    assert caught.value.code == 2
    assert "--late" in capsys.readouterr().err


def test_the_printed_configuration_can_be_loaded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run("--print-config") == 0
    file = tmp_path / "device.toml"
    file.write_text(capsys.readouterr().out)
    loaded = config.load(DeviceConfig, file, {"source": "0", "bundle": "b", "mode": "local"})
    assert loaded == DeviceConfig(source="0", bundle="b", mode="local")
