"""`headtail cloud`, but for what starts a server."""

import argparse
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from headtail.commands import cloud as command
from headtail_cloud import extra
from headtail_cloud.config import CloudConfig
from headtail_cloud.extra import CloudExtraMissingError, require
from headtail_cloud.tenants import load_tenants
from headtail_fabric import config
from headtail_fabric.config import BadValueError


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add(parser.add_subparsers())
    args = parser.parse_args(["cloud", *words])
    handler: Callable[[argparse.Namespace], int] = args.handler
    return handler(args)


def test_prints_a_file_to_begin_with(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("serve", "--print-config") == 0
    path = tmp_path / "cloud.toml"
    path.write_text(capsys.readouterr().out)
    assert config.load(CloudConfig, path) == CloudConfig()


def test_makes_a_key(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("key", "cameras") == 0
    printed = capsys.readouterr().out
    path = tmp_path / "tenants.toml"
    path.write_text(printed)
    key = printed.splitlines()[0].removeprefix("# key: ")
    assert load_tenants(path, concurrency=1).caller(f"Bearer {key}").tenant == "cameras"
    assert key not in tomllib.loads(printed)["tenants"]["cameras"]["key_sha256"]


def test_a_setting_out_of_its_range() -> None:
    with pytest.raises(BadValueError, match="port"):
        run("serve", "--port", "70000")


def test_a_package_that_is_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra, "find_spec", lambda name: None)
    with pytest.raises(CloudExtraMissingError) as caught:
        require("starlette")
    assert "headtail[cloud]" in caught.value.advice


@pytest.mark.parametrize("port", ["0", "http", "70000", "-1"])
def test_a_port_of_the_environment_that_is_none(monkeypatch: pytest.MonkeyPatch, port: str) -> None:
    monkeypatch.setenv("PORT", port)
    monkeypatch.setattr(command, "require", lambda *packages: None)
    with pytest.raises(command.BadPortError):
        run("function", "specimen")


def test_settings_of_the_scheduler() -> None:
    options = CloudConfig(max_waiting=7).scheduling({"a": 2.0})
    assert (options.max_waiting, options.shares) == (7, {"a": 2.0})
