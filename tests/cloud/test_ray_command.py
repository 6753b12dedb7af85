"""The runtime ray, as it is asked for: without Ray, and with settings that can't be."""

import argparse
from pathlib import Path

import pytest

from headtail.commands import cloud as command
from headtail_cloud import extra
from headtail_cloud.config import CloudConfig, RayConfig
from headtail_cloud.extra import CloudExtraMissingError
from headtail_fabric import config
from headtail_fabric.config import BadValueError


def serve(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add(parser.add_subparsers())
    args = parser.parse_args(["cloud", "serve", *words])
    status: int = args.handler(args)
    return status


def test_where_ray_is_missing_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra, "find_spec", lambda name: None if name == "ray" else object())
    with pytest.raises(CloudExtraMissingError, match="package ray") as caught:
        serve("--runtime", "ray", "--model", "specimen")
    assert "headtail[cloud-ray]" in caught.value.advice


def loaded(tmp_path: Path, text: str) -> RayConfig:
    path = tmp_path / "cloud.toml"
    path.write_text(text)
    return config.load(CloudConfig, path).ray


def test_where_workers_are_placed(tmp_path: Path) -> None:
    text = '[ray]\naddress = "10.0.0.5:6379"\ncpus = 0.5\nresources = { accelerated = 1 }\n'
    ray = loaded(tmp_path, text)
    assert (ray.address, ray.cpus, ray.resources) == ("10.0.0.5:6379", 0.5, {"accelerated": 1})


@pytest.mark.parametrize(
    "text",
    [
        'address = "ray://10.0.0.5:10001"',
        'address = "10.0.0.5"',
        "cpus = -1",
        "resources = { accelerated = 0 }",
        "start_limit_s = 0",
    ],
)
def test_settings_out_of_range(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadValueError):
        loaded(tmp_path, f"[ray]\n{text}\n")
