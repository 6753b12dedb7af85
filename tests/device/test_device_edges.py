"""Which edges a device is told of, and how each is reached."""

import time
from pathlib import Path
from typing import Any

import pytest

from headtail_device import edges
from headtail_device.config import DeviceConfig
from headtail_device.edges import connect_edge
from headtail_device.no_edge import NoEdge
from headtail_fabric import config, keys
from headtail_fabric.clock import MonotonicClock
from headtail_fabric.config import BadValueError
from headtail_fabric.discovery import fingerprint, mdns
from headtail_fabric.fleet import FleetClient
from headtail_fabric.seal import key as seal_key
from headtail_fabric.wire import Hints

DIGEST = bytes(32)
BASICS = 'bundle = "tiny"\nsource = "0"\n'


class _Port(NoEdge):
    """Connects to nothing, and takes its time over it."""

    def poll(self, timeout_s: float) -> None:

        time.sleep(0.01)

    def hints(self) -> Hints | None:
        return None


def parse(text: str) -> DeviceConfig:
    return config.parse(DeviceConfig, BASICS + text, source="device.toml")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []

    def client(endpoint: str, **how: object) -> _Port:
        made.append({"endpoint": endpoint, **how})
        return _Port()

    monkeypatch.setattr(edges, "ZmqClient", client)
    return made


def test_one_address_needs_no_fleet(calls: list[dict[str, Any]]) -> None:
    port = connect_edge(parse('edge.endpoint = "tcp://a:1"\n'), DIGEST, MonotonicClock())
    assert isinstance(port, _Port)
    only = parse('edges = [{ endpoint = "tcp://b:1" }]\n')
    connect_edge(only, DIGEST, MonotonicClock())
    assert [call["endpoint"] for call in calls] == ["tcp://a:1", "tcp://b:1"]


def test_several_are_listed_the_edge_of_its_own_table_first(
    calls: list[dict[str, Any]], tmp_path: Path
) -> None:
    pair = keys.generate("cam-1")
    path = keys.save(pair, tmp_path)
    first, second = keys.generate("edge-1").public, keys.generate("edge-2").public
    sealing = seal_key.generate("edge-2")
    text = f"""
edges = [{{ endpoint = "tcp://b:1", server_key = "{second}", seal_to = "{sealing.public_text}" }}]
[edge]
endpoint = "tcp://a:1"
server_key = "{first}"
key = "{path}"
"""
    port = connect_edge(parse(text), DIGEST, MonotonicClock())
    assert isinstance(port, FleetClient)
    port.close()
    assert [call["endpoint"] for call in calls] == ["tcp://a:1", "tcp://b:1"]
    assert [call["server_key"] for call in calls] == [first, second]
    assert [call["keys"] for call in calls] == [pair, pair]
    assert calls[0]["sealer"] is None
    assert calls[1]["sealer"] is not None


def test_an_edge_found_by_its_key_is_connected_to_wherever_it_is(
    calls: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = keys.save(keys.generate("cam-1"), tmp_path)
    edge = keys.generate("edge-1").public
    looked_for: dict[str, Any] = {}
    closed: list[bool] = []

    class Browser:
        def __init__(self, wanted: dict[str, Any]) -> None:
            looked_for.update(wanted)

        def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr(mdns, "Browser", Browser)
    text = f'[edge]\nendpoint = "mdns:"\nserver_key = "{edge}"\nkey = "{path}"\n'
    port = connect_edge(parse(text), DIGEST, MonotonicClock())
    assert calls == []
    looked_for[fingerprint(edge)]("tcp://192.168.1.5:5557")
    looked_for[fingerprint(edge)]("tcp://192.168.1.5:5557")
    looked_for[fingerprint(edge)]("tcp://192.168.1.9:5557")
    assert [call["endpoint"] for call in calls] == [
        "tcp://192.168.1.5:5557",
        "tcp://192.168.1.9:5557",
    ]
    assert {call["server_key"] for call in calls} == {edge}
    port.close()
    assert closed == [True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "edge.endpoint is not set"),
        ('edge.endpoint = "mdns:"\n', "only a known edge is trusted"),
        (
            'edges = [{ endpoint = "tcp://a:1", server_key = "k" }, { endpoint = "tcp://b:1" }]\n'
            '[edge]\nkey = "cam.key"\n',
            "belong together",
        ),
        ('edges = [{ endpoint = "tcp://a:1", server_key = "k" }]\n', "belong together"),
        ("edges = [{ }]\n", "endpoint"),
    ],
)
def test_what_can_not_work_is_said(text: str, message: str) -> None:
    with pytest.raises(BadValueError, match=message):
        parse(text)
