"""`headtail node check`: a node's files are refused here as the node would refuse them."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from headtail.boards.node_files import NodeFilesError
from headtail.commands import node as node_command
from headtail.commands.node import NodeUnknownError
from headtail_fabric import keys
from headtail_models.mcu.export import export_head
from headtail_models.mcu.layers import Shape
from headtail_models.mcu.sketch import GraphDrawing
from mcu_graphs import drawn_samples
from mcu_nodes import new_node


def check(folder: Path, *words: object) -> int:
    parser = argparse.ArgumentParser()
    node_command.add(parser.add_subparsers())
    args = parser.parse_args(["node", "check", str(folder), *map(str, words)])
    status: int = args.handler(args)
    return status


def change(folder: Path, file: str, **fields: Any) -> None:
    path = folder / file
    values = json.loads(path.read_text())
    for name, value in fields.items():
        values[name] = {**values.get(name, {}), **value} if isinstance(value, dict) else value
    path.write_text(json.dumps(values))


@pytest.fixture
def head(tmp_path: Path) -> Path:
    """Beside the node's folder, as it is made."""
    graph = GraphDrawing(Shape(6, 6, 2)).convolution(3, (3, 3), pads=(1, 1, 1, 1)).end()
    path = tmp_path / "board.head"
    path.write_bytes(export_head(graph, drawn_samples(graph)).program.blob)
    return path


@pytest.fixture
def node(tmp_path: Path, head: Path) -> Path:
    """A node with curve, with a gateway's list beside it."""
    gateway = keys.generate("gw")
    keys.save(gateway, tmp_path)
    new_node(
        "door-1", tmp_path / "n", tmp_path / "nodes.toml", "--gateway-key", tmp_path / "gw.pub"
    )
    return tmp_path / "n"


def test_what_node_new_makes_is_right(
    node: Path, head: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in node.iterdir()}
    assert not check(node, head, "--nodes", node.parent / "nodes.toml")
    told = capsys.readouterr().out
    assert "door-1: zmtp to 127.0.0.1:7001, curve" in told
    assert "board.head: " in told
    assert "with these secrets" in told
    assert {path: path.read_bytes() for path in node.iterdir()} == before


@pytest.mark.parametrize(
    "options", [("--link", "udp"), ("--link", "serial"), ("--security", "plain")]
)
def test_each_way_to_prove_oneself(tmp_path: Path, head: Path, options: tuple[str, ...]) -> None:
    nodes = tmp_path / "nodes.toml"
    new_node("a", tmp_path / "a", nodes, *options)
    new_node("b", tmp_path / "b", nodes, *options)
    assert not check(tmp_path / "a", head, "--nodes", nodes)
    # With the secrets of another one.
    (tmp_path / "a" / "secrets.json").write_bytes((tmp_path / "b" / "secrets.json").read_bytes())
    with pytest.raises(NodeUnknownError, match="has no a with what is in"):
        check(tmp_path / "a", head, "--nodes", nodes)


def test_keys_that_are_not_a_pair(node: Path, head: Path) -> None:
    change(node, "secrets.json", curve_public="ab" * 32)
    assert not check(node, head)
    with pytest.raises(NodeUnknownError):
        check(node, head, "--nodes", node.parent / "nodes.toml")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"duty": {"sample": 3}}, "duty.sample is not known"),
        ({"link": {"server_key": "ab"}}, "link.server_key: 64 digits of hex"),
        ({"head": {"file": "other.head"}}, "other.head is not there"),
        ({"head": {"trust": ["release.key"]}}, "release.key (in head.trust) is not there"),
        ({"log": {"record_bytes": 64}}, "raise it and delete the log"),
        ({"app": {"module": "microphone"}}, "app.module microphone is not there"),
    ],
)
def test_what_a_node_would_not_start_with(
    node: Path, head: Path, changes: dict[str, Any], told: str
) -> None:
    change(node, "config.json", **changes)
    with pytest.raises(NodeFilesError) as refused:
        check(node, head)
    assert told in refused.value.message


def test_the_app_may_be_among_the_files(node: Path, head: Path, tmp_path: Path) -> None:
    app = tmp_path / "microphone.py"
    app.write_text("from machine import I2S\n")
    change(node, "config.json", app={"module": "microphone"})
    assert not check(node, head, app)


def test_a_head_that_computes_something_else(node: Path, head: Path) -> None:
    blob = bytearray(head.read_bytes())
    blob[len(blob) // 2] ^= 1
    head.write_bytes(blob)
    with pytest.raises(NodeFilesError, match="damaged head"):
        check(node, head)


def test_a_certificate_that_is_missing(tmp_path: Path, head: Path) -> None:
    new_node("a", tmp_path / "a", tmp_path / "nodes.toml", "--link", "tcp", "--tls-ca", "ca.der")
    with pytest.raises(NodeFilesError, match=r"ca\.der \(link\.tls_ca\) is not there"):
        check(tmp_path / "a", head)
    (tmp_path / "a" / "ca.der").write_bytes(b"\x30\x00")
    assert not check(tmp_path / "a", head)


def test_files_that_are_not_there(node: Path, head: Path, tmp_path: Path) -> None:
    with pytest.raises(NodeFilesError, match="copy it to the node"):
        check(tmp_path / "nobody", head)
    with pytest.raises(NodeFilesError, match="is no file"):
        check(node, tmp_path / "none.head")
    (node / head.name).write_bytes(head.read_bytes())
    with pytest.raises(NodeFilesError, match=r"two files are called board\.head"):
        check(node, head)
