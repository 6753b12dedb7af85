"""From the configuration to what a device holds open."""

from pathlib import Path

import pytest

from device_doubles import DIGEST, tiny_bundle
from headtail_device import edges
from headtail_device.config import DeviceConfig
from headtail_device.edges import connect_edge
from headtail_device.no_edge import NoEdge
from headtail_device.opening import open_trusted, pack
from headtail_fabric import config, keys
from headtail_fabric.clock import FakeClock
from headtail_fabric.keys import BadKeyError, KeyMissingError, KeyPair
from headtail_fabric.link import LinkEstimate
from headtail_fabric.peer.errors import WindowFullError
from headtail_fabric.peer.ports import TrafficCount
from headtail_models.bundle import open_bundle
from headtail_models.bundle.errors import UnsignedBundleError
from headtail_models.bundle.keys import create_key_files

CLOCK = FakeClock()


def device(**flags: object) -> DeviceConfig:
    basics = {"bundle": "tiny", "source": "0", "edge.endpoint": "tcp://edge:5557", "name": "cam"}
    given = {key.replace("__", "."): value for key, value in flags.items()}
    return config.load(DeviceConfig, None, {**basics, **given})


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What the ZeroMQ client was made with; none is made."""
    made: list[dict[str, object]] = []

    def client(endpoint: str, **how: object) -> NoEdge:
        made.append({"endpoint": endpoint, **how})
        return NoEdge()

    monkeypatch.setattr(edges, "ZmqClient", client)
    return made


@pytest.fixture
def pair(tmp_path: Path) -> KeyPair:
    pair = keys.generate("cam")
    keys.save(pair, tmp_path)
    return pair


def test_without_keys_the_connection_is_plain(calls: list[dict[str, object]]) -> None:
    connect_edge(device(edge__push_bundles=True), DIGEST, CLOCK)
    assert calls == [
        {
            "endpoint": "tcp://edge:5557",
            "name": "cam",
            "bundles": (DIGEST,),
            "can_push": True,
            "keys": None,
            "server_key": None,
            "sealer": None,
            "clock": CLOCK,
        }
    ]


def test_the_edges_key_is_given_as_it_is_or_in_a_file(
    calls: list[dict[str, object]], pair: KeyPair, tmp_path: Path
) -> None:
    for given in (pair.public, str(tmp_path / "cam.pub")):
        chosen = device(edge__key=tmp_path / "cam.key", edge__server_key=given)
        connect_edge(chosen, DIGEST, CLOCK)
        assert calls[-1]["server_key"] == pair.public
        assert calls[-1]["keys"] == pair


def test_a_key_that_is_none_says_so(pair: KeyPair, tmp_path: Path) -> None:
    with pytest.raises(BadKeyError):
        connect_edge(device(edge__key=tmp_path / "cam.key", edge__server_key="x"), DIGEST, CLOCK)
    with pytest.raises(KeyMissingError):
        connect_edge(device(edge__key=tmp_path / "no.key", edge__server_key="x"), DIGEST, CLOCK)


def test_a_bundle_must_be_signed_when_keys_are_trusted(tmp_path: Path) -> None:
    bundle = tiny_bundle(tmp_path)
    assert open_trusted(device(bundle=str(bundle))).name == "tiny-1.0"
    create_key_files(tmp_path / "site")
    with pytest.raises(UnsignedBundleError):
        open_trusted(device(bundle=str(bundle), trusted=[tmp_path / "site.pub"]))


def test_a_packed_bundle_is_the_same_bundle(tmp_path: Path) -> None:
    bundle = open_bundle(tiny_bundle(tmp_path))
    packed = tmp_path / "copy.headtail"
    packed.write_bytes(pack(bundle))
    assert open_bundle(packed, cache_dir=tmp_path / "cache").digest == bundle.digest


def test_the_port_of_a_device_without_an_edge_does_nothing() -> None:
    port = NoEdge()
    assert (port.free_window(), port.poll(0), port.estimate()) == (0, None, LinkEstimate())
    assert port.traffic() == TrafficCount()
    port.cancel(1)
    port.push_bundle(DIGEST, b"")
    port.close()
    with pytest.raises(WindowFullError):
        port.submit(bundle=DIGEST, cut="a", tensors=(), payloads=(), deadline_s=1)
