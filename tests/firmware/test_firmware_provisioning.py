"""`headtail node new`: what it writes is what a node takes, and what a gateway knows."""

import hashlib
import importlib
import json
from pathlib import Path

import pytest

from headtail.commands.node import NodeFolderError, NodeOptionError
from headtail_edge.gateway.node_book import NodeKnownError, read_roster
from headtail_fabric import keys
from headtail_fabric.errors import ConfigError
from mcu_nodes import new_node

config = importlib.import_module("headtail_mcu.config")
curve = importlib.import_module("headtail_mcu.box")


def load(folder: Path) -> tuple[dict[str, object], dict[str, object]]:
    settings, secrets = config.load(str(folder / "config.json"), str(folder / "secrets.json"))
    return settings, secrets


def test_a_node_with_curve(tmp_path: Path) -> None:
    gateway = keys.generate("gw")
    keys.save(gateway, tmp_path)
    out, nodes = tmp_path / "door-1", tmp_path / "nodes.toml"
    new_node("door-1", out, nodes, "--gateway-key", tmp_path / "gw.pub", "--wifi", "home")
    settings, secrets = load(out)
    assert settings["name"] == "door-1"
    assert secrets["wifi_ssid"] == "home"
    public = read_roster(nodes).entries["door-1"].public
    assert public is not None
    # The two halves belong together, as the node's own arithmetic says.
    secret = bytes.fromhex(str(secrets["curve_secret"]))
    assert curve.public_key(secret).hex() == secrets["curve_public"]
    assert read_roster(nodes).by_public(public) == "door-1"
    assert (out / "secrets.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("link", ["udp", "tcp", "serial"])
def test_nodes_with_sealed_packets(tmp_path: Path, link: str) -> None:
    nodes = tmp_path / "nodes.toml"
    for number, name in enumerate(("a", "b")):
        new_node(name, tmp_path / name, nodes, "--link", link, "--sleep")
        _, secrets = load(tmp_path / name)
        assert secrets["psk_id"] == number
        known = read_roster(nodes).by_psk_id(number)
        assert known == (name, bytes.fromhex(str(secrets["psk"])))
    assert load(tmp_path / "a")[1]["psk"] != load(tmp_path / "b")[1]["psk"]


def test_a_node_with_a_password(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.toml"
    new_node("bench", tmp_path / "n", nodes, "--security", "plain")
    password = str(load(tmp_path / "n")[1]["password"])
    assert password not in nodes.read_text()
    assert hashlib.sha256(password.encode()).hexdigest() in nodes.read_text()
    assert read_roster(nodes).by_password("bench", password.encode())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--link", "udp", "--security", "curve"), "a udp link has security psk"),
        (("--host", ""), "--host is needed"),
        ((), "--gateway-key is needed"),
        (("--link", "udp", "--sleep", "--always-on"), "exclude each other"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, options: tuple[str, ...], told: str) -> None:
    with pytest.raises(NodeOptionError, match=told):
        new_node("door-1", tmp_path / "n", tmp_path / "nodes.toml", *options)
    assert not (tmp_path / "nodes.toml").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    nodes, options = tmp_path / "nodes.toml", ("--link", "udp")
    new_node("a", tmp_path / "n", nodes, *options)
    before = (tmp_path / "n" / "secrets.json").read_text()
    with pytest.raises(NodeFolderError, match="is there already"):
        new_node("b", tmp_path / "n", nodes, *options)
    with pytest.raises(NodeKnownError):
        new_node("a", tmp_path / "m", nodes, *options)
    with pytest.raises(ConfigError, match="not a name"):
        new_node("a/b", tmp_path / "m", nodes, *options)
    assert (tmp_path / "n" / "secrets.json").read_text() == before
    assert json.loads((tmp_path / "n" / "config.json").read_text())["name"] == "a"
    assert list(read_roster(nodes).entries) == ["a"]
