"""From the configuration to the things a device holds open."""

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from headtail_device.config import DeviceConfig, OutputConfig
from headtail_device.sink import (
    AnnotatedPicturesSink,
    AnnotatedVideoSink,
    JsonLinesSink,
    SinkBoard,
)
from headtail_fabric import keys
from headtail_fabric.clock import Clock
from headtail_fabric.peer.ports import ClientPort
from headtail_fabric.peer.zmq_client import ZmqClient
from headtail_models.bundle import Bundle, BundleCache, open_bundle
from headtail_models.bundle.keys import load_public_key

Connect = Callable[[DeviceConfig, bytes, Clock], ClientPort]
"""From the configuration and the bundle's digest to the port of an edge."""


def open_trusted(config: DeviceConfig) -> Bundle:
    """The bundle that is asked for, verified. Raises BundleError, KeyFileError,
    BundleStorageError."""
    trusted = [load_public_key(path) for path in config.trusted]
    return open_bundle(BundleCache().find(config.bundle), trusted=trusted or None)


def connect_edge(config: DeviceConfig, digest: bytes, clock: Clock) -> ClientPort:
    """A ZeroMQ port, CURVE when there are keys. Raises ConnectError and the errors of key files;
    an edge that does not answer is none."""
    edge = config.edge
    return ZmqClient(
        edge.endpoint,
        name=config.name,
        bundles=(digest,),
        can_push=edge.push_bundles,
        keys=None if edge.key is None else keys.load(edge.key),
        server_key=_public_key(edge.server_key) if edge.server_key else None,
        clock=clock,
    )


def open_board(output: OutputConfig, *, rate_hz: float | None, clock: Clock) -> SinkBoard:
    """The sinks that are asked for. Raises SinkError, with none left open."""
    board = SinkBoard()
    try:
        if output.json:
            started_at, started = clock.now(), datetime.now(UTC)
            board.add(JsonLinesSink(output.json, started_at=started_at, started=started))
        if output.video is not None:
            board.add(AnnotatedVideoSink(output.video, rate_hz=rate_hz))
        if output.pictures is not None:
            board.add(AnnotatedPicturesSink(output.pictures))
    except BaseException:
        board.close()
        raise
    return board


def pack(bundle: Bundle) -> bytes:
    """The bundle as one file's bytes. Raises BundleError, BundleStorageError."""
    with tempfile.TemporaryDirectory() as folder:
        return bundle.pack(Path(folder)).read_bytes()


def _public_key(text: str) -> str:
    """A key as it is, or out of a .pub file."""
    path = Path(text)
    if path.suffix == ".pub":
        return keys.load_public(path.expanduser()).public
    return keys.check_public(text)
