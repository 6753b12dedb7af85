"""What keeps a gateway from starting is said, and costs no port; its settings have an example."""

import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headtail_edge.gateway.config import (
    GatewayConfig,
    ModelConfig,
    SerialConfig,
    TcpConfig,
    UdpConfig,
    UpstreamConfig,
    ZmtpConfig,
)
from headtail_edge.gateway.daemon import GatewayUnkeyedError, NoLinksError, run
from headtail_edge.gateway.links.serial_line import SerialLineError
from headtail_edge.gateway.links.tcp import CertificateError
from headtail_edge.gateway.links.zmtp import KeyWantedError, UnguardedLinkError
from headtail_edge.gateway.records import RecordsFileError
from headtail_fabric import config, config_example
from headtail_fabric.errors import HeadtailError
from headtail_fabric.peer.errors import BindError

UDP = UdpConfig(host="127.0.0.1", port=0)


def start(folder: Path, *links: Any, **changes: Any) -> list[str]:
    """Run until it is ready; the endpoints of its links."""
    nodes = folder / "nodes.toml"
    nodes.write_text("schema = 1\n")
    nodes.chmod(0o600)
    stop, out = threading.Event(), io.StringIO()
    stop.set()
    settings = {"nodes": nodes, "state": folder / "state", "links": links, **changes}
    run(GatewayConfig(**settings), stop=stop, out=out)
    found: list[str] = json.loads(out.getvalue())["links"]
    return found


def test_a_gateway_says_where_nodes_come_in(tmp_path: Path) -> None:
    zmtp = ZmtpConfig(bind="tcp://127.0.0.1:0", security="plain")
    links = start(tmp_path, UDP, zmtp, TcpConfig(host="127.0.0.1", port=0))
    assert [link.partition(":")[0] for link in links] == ["udp", "tcp", "tcp"]
    assert not any(link.endswith(":0") for link in links)
    assert (tmp_path / "state" / "boot").read_text() == "1\n"


REFUSALS: list[tuple[type[HeadtailError], Callable[[Path], Any]]] = [
    (NoLinksError, lambda folder: start(folder)),
    (
        GatewayUnkeyedError,
        lambda folder: start(folder, UDP, edge=UpstreamConfig(server_key="x" * 40)),
    ),
    (KeyWantedError, lambda folder: start(folder, ZmtpConfig(bind="tcp://127.0.0.1:0"))),
    (
        UnguardedLinkError,
        lambda folder: start(folder, ZmtpConfig(bind="tcp://0.0.0.0:0", security="plain")),
    ),
    (
        UnguardedLinkError,
        lambda folder: start(folder, ZmtpConfig(bind="tcp://*:0", security="none")),
    ),
    (BindError, lambda folder: start(folder, UdpConfig(host="192.0.2.1", port=0))),
    (BindError, lambda folder: start(folder, TcpConfig(host="192.0.2.1", port=0))),
    (
        CertificateError,
        lambda folder: start(folder, TcpConfig(host="127.0.0.1", tls_key=folder / "k")),
    ),
    (
        CertificateError,
        lambda folder: start(
            folder, TcpConfig(host="127.0.0.1", tls_key=folder / "k", tls_certificate=folder / "c")
        ),
    ),
    (SerialLineError, lambda folder: start(folder, SerialConfig(device=str(folder / "tty")))),
    (RecordsFileError, lambda folder: start(folder, UDP, records=folder)),
    (
        HeadtailError,
        lambda folder: start(folder, UDP, models={"m": ModelConfig(bundle="no-such-bundle")}),
    ),
]


@pytest.mark.parametrize(("error", "begin"), REFUSALS)
def test_what_keeps_it_from_starting_is_named(
    tmp_path: Path, error: type[HeadtailError], begin: Callable[[Path], Any]
) -> None:
    with pytest.raises(error) as caught:
        begin(tmp_path)
    assert caught.value.message
    assert caught.value.advice


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_no_file_stays_open(tmp_path: Path) -> None:
    before = open_files()
    for _ in range(3):
        start(tmp_path, UDP)
        with pytest.raises(KeyWantedError):
            start(tmp_path, UDP, ZmtpConfig(bind="tcp://127.0.0.1:0"))
    assert open_files() <= before + 1


def test_the_example_becomes_a_configuration(tmp_path: Path) -> None:
    text = config_example.example(GatewayConfig)
    text = text.replace("# nodes =    (required)", 'nodes = "nodes.toml"')
    text = text.replace("# state =    (required)", 'state = "state"')
    text = text.replace("# links =    (required)", "")
    text += (
        '[[links]]\nkind = "zmtp"\nbind = "tcp://0.0.0.0:7001"\n'
        '[[links]]\nkind = "serial"\ndevice = "/dev/ttyACM0"\nnode = "bench-3"\n'
        '[models.digits]\nheads = ["digits.head"]\nbundle = "spoken-digits"\n'
    )
    settings = config.parse(GatewayConfig, text, source="example", folder=tmp_path)
    assert settings.nodes == tmp_path / "nodes.toml"
    assert [type(link) for link in settings.links] == [ZmtpConfig, SerialConfig]
    assert settings.models["digits"].heads == (tmp_path / "digits.head",)
    with pytest.raises(config.UnknownKeyError, match="bindd"):
        config.parse(GatewayConfig, text.replace("bind =", "bindd ="), source="x")
