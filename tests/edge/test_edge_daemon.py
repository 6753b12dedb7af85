"""A whole edge in a process of its own, over real sockets."""

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edge_doubles import send
from headtail_edge import daemon
from headtail_edge.config import EdgeConfig
from headtail_edge.tenants import TenantConfig, TenantsError
from headtail_fabric import allowlist, keys
from headtail_fabric.allowlist import Member, Role
from headtail_fabric.keys import KeyPair
from headtail_fabric.peer.events import (
    Answered,
    BundleAccepted,
    BundleWanted,
    ClientEvent,
    Connected,
    Disconnected,
)
from headtail_fabric.peer.zmq_client import ZmqClient
from headtail_models.bundle import Bundle

pytestmark = pytest.mark.system

PATIENCE_S = 30.0
RUN = """
import argparse, sys
from headtail.commands import edge
parser = argparse.ArgumentParser()
edge.add(parser.add_subparsers())
args = parser.parse_args(sys.argv[1:])
from headtail_fabric.errors import HeadtailError
try:
    sys.exit(args.handler(args))
except HeadtailError as error:
    sys.exit(f"{type(error).__name__}: {error.message}")
"""


class EdgeProcess:
    """`headtail edge serve` as a child; ready when made."""

    def __init__(self, home: Path, *flags: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", RUN, "edge", "serve", "--bind", "tcp://127.0.0.1:0", *flags],
            stdout=subprocess.PIPE,
            env=environment(home),
            text=True,
        )
        assert self._child.stdout is not None
        self.ready: dict[str, Any] = json.loads(self._child.stdout.readline())

    @property
    def endpoint(self) -> str:
        endpoint: str = self.ready["endpoint"]
        return endpoint

    def stop(self) -> int:
        self._child.send_signal(signal.SIGTERM)
        return self._child.wait(PATIENCE_S)

    def kill(self) -> None:
        self._child.kill()
        self._child.communicate()


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}


@contextlib.contextmanager
def edge(home: Path, *flags: str) -> Iterator[EdgeProcess]:
    process = EdgeProcess(home, *flags)
    try:
        yield process
    finally:
        process.kill()


def wait_for(client: ZmqClient, kind: type[ClientEvent]) -> Any:
    seen = []
    while (event := client.poll(PATIENCE_S)) is not None:
        seen.append(event)
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} among {seen}")


def test_it_says_where_it_serves_answers_and_stops_when_told(
    specimen: Bundle, specimen_path: Path, tmp_path: Path
) -> None:
    with edge(tmp_path, "--bundle", str(specimen_path)) as process:
        assert process.ready["event"] == "ready"
        assert process.ready["bundles"] == [
            {"name": "specimen", "version": "1.0", "digest": specimen.digest.hex()}
        ]
        with ZmqClient(process.endpoint, name="cam") as client:
            offer = wait_for(client, Connected).offer
            assert offer.bundles == (specimen.digest,)
            for codec in ("raw", "q8+zstd"):
                send(client, specimen, codec=codec)
                answer = wait_for(client, Answered)
                assert [info.name for info in answer.tensors] == ["logits"]
            assert process.stop() == 0
            assert not wait_for(client, Disconnected).final


def test_a_port_in_use_is_an_error_that_says_so(specimen_path: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-c", RUN, "edge", "serve", "--bundle", str(specimen_path)]
        done = subprocess.run(
            [*command, "--bind", f"tcp://127.0.0.1:{port}"],
            capture_output=True,
            text=True,
            env=environment(tmp_path),
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 1
    assert "BindError" in done.stderr
    assert "in use" in done.stderr
    assert done.stdout == ""


def test_a_device_pushes_a_bundle_and_a_restarted_edge_still_has_it(
    specimen: Bundle, tmp_path: Path
) -> None:
    packed = specimen.pack(tmp_path).read_bytes()
    with edge(tmp_path, "--accept-bundles", "everyone") as process:
        assert process.ready["bundles"] == []
        with ZmqClient(
            process.endpoint, name="cam", bundles=(specimen.digest,), can_push=True
        ) as client:
            assert wait_for(client, BundleWanted).digest == specimen.digest
            client.push_bundle(specimen.digest, packed)
            assert wait_for(client, BundleAccepted).digest == specimen.digest
            send(client, specimen)
            wait_for(client, Answered)
        assert process.stop() == 0
    with edge(tmp_path, "--accept-bundles", "everyone") as process:
        assert [b["digest"] for b in process.ready["bundles"]] == [specimen.digest.hex()]


def secured(home: Path, roles: Sequence[Role]) -> tuple[list[str], KeyPair, list[KeyPair]]:
    """Flags of an edge with an allow-list, its key, and an enrolled key for each role."""
    pair, allow = keys.generate("edge"), home / "allow.toml"
    members = [keys.generate(f"member-{number}") for number in range(len(roles))]
    for member, role in zip(members, roles, strict=True):
        allowlist.enrol(
            allow,
            Member(
                name=member.name,
                public=member.public,
                role=role,
                added=datetime.now(UTC).date(),
            ),
        )
    flags = ["--key", str(keys.save(pair, home / "keys")), "--allow", str(allow)]
    return flags, pair, members


def test_a_revoked_device_is_put_out_and_the_others_stay(
    specimen: Bundle, specimen_path: Path, tmp_path: Path
) -> None:
    flags, pair, members = secured(tmp_path, [Role.DEVICE, Role.DEVICE])
    with edge(tmp_path, *flags, "--bundle", str(specimen_path)) as process:
        revoked, kept = (
            ZmqClient(process.endpoint, name=m.name, keys=m, server_key=pair.public)
            for m in members
        )
        with revoked, kept:
            wait_for(revoked, Connected)
            wait_for(kept, Connected)
            allowlist.revoke(tmp_path / "allow.toml", members[0].name)
            assert wait_for(revoked, Disconnected).final
            send(kept, specimen)
            wait_for(kept, Answered)
        assert process.stop() == 0


def test_only_operators_are_asked_for_bundles_when_only_theirs_are_taken(
    specimen: Bundle, specimen_path: Path, tmp_path: Path
) -> None:
    flags, pair, members = secured(tmp_path, [Role.DEVICE, Role.OPERATOR])
    with edge(tmp_path, *flags, "--accept-bundles", "operators") as process:
        device, operator = (
            ZmqClient(
                process.endpoint,
                name=m.name,
                keys=m,
                server_key=pair.public,
                bundles=(specimen.digest,),
                can_push=True,
            )
            for m in members
        )
        with device, operator:
            assert wait_for(device, Connected).offer.bundles == ()
            wait_for(operator, BundleWanted)
            operator.push_bundle(specimen.digest, specimen.pack(tmp_path).read_bytes())
            wait_for(operator, BundleAccepted)
            wait_for(device, BundleAccepted)
            send(device, specimen)
            wait_for(device, Answered)


def test_health_lies_beside_the_measurements(specimen_path: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    flags = ("--bundle", str(specimen_path), "--metrics-port", str(port))
    with edge(tmp_path, *flags) as process:
        for path in ("healthz", "readyz"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
                assert (answer.status, answer.read()) == (200, b"ok\n")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
        assert "headtail_edge_bundles 1.0" in text
        assert "headtail_edge_queue_seconds 0.0" in text
        assert process.stop() == 0


def test_tenants_without_an_allow_list_are_a_mistake(specimen_path: Path, tmp_path: Path) -> None:
    config = EdgeConfig(
        bind="tcp://127.0.0.1:0",
        bundles=(str(specimen_path),),
        cache_dir=tmp_path,
        tenants={"lab": TenantConfig(members=("cam-*",))},
    )
    with pytest.raises(TenantsError, match="no allow_list"):
        daemon.serve(config, stop=threading.Event(), out=io.StringIO())
