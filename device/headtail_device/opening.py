"""From the configuration to the things a device holds open."""

import os
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from headtail_device.config import DeviceConfig, OutputConfig, SpoolConfig
from headtail_device.delivery import Checkout
from headtail_device.head import Head
from headtail_device.placement import Remote
from headtail_device.sink import (
    AnnotatedPicturesSink,
    AnnotatedVideoSink,
    JsonLinesSink,
    SinkBoard,
    WebhookSink,
)
from headtail_device.sink.line import FrameLines
from headtail_device.sink.post import HttpPost
from headtail_device.spool import Backlog, FolderDisk, Spooler, SpoolLog, SpoolSettings
from headtail_fabric import keys
from headtail_fabric.clock import Clock
from headtail_fabric.errors import ConfigError
from headtail_fabric.peer.ports import ClientPort
from headtail_fabric.peer.zmq_client import ZmqClient
from headtail_models.audio.log_mel import LogMel as SoundFront
from headtail_models.bundle import Bundle, BundleCache, open_bundle
from headtail_models.bundle.keys import load_public_key
from headtail_models.bundle.manifest import INPUT, LogMel, Manifest

_SEGMENTS: Final = 32

Connect = Callable[[DeviceConfig, bytes, Clock], ClientPort]
"""From the configuration and the bundle's digest to the port of an edge."""


def open_trusted(config: DeviceConfig) -> Bundle:
    """The bundle that is asked for, verified. Raises BundleError, KeyFileError,
    BundleStorageError."""
    trusted = [load_public_key(path) for path in config.trusted]
    return open_bundle(BundleCache().find(config.bundle), trusted=trusted or None)


class NotForSoundsError(ConfigError):
    """The bundle hears, and a setting is for bundles that see. Leave it out, or use a bundle that
    takes pictures."""


def front_of(manifest: Manifest) -> SoundFront | None:
    """How the bundle hears; None for one that sees."""
    way = manifest.preprocess
    return way.front() if isinstance(way, LogMel) else None


def check_kind(config: DeviceConfig, manifest: Manifest) -> None:
    """Raises NotForSoundsError."""
    if front_of(manifest) is None:
        return
    for name, chosen in (
        ("way.cut = input", config.way.cut == INPUT),
        ("output.video", config.output.video is not None),
        ("output.pictures", config.output.pictures is not None),
        ("measure_jpeg", config.measure_jpeg),
    ):
        if chosen:
            raise NotForSoundsError(f"bundle {manifest.name} takes sounds, which {name} is not for")


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
    """The sinks that are asked for. Raises SinkError, BadWebhookError, with none left open."""
    board = SinkBoard()
    started_at, started = clock.now(), datetime.now(UTC)
    try:
        if output.json:
            board.add(JsonLinesSink(output.json, started_at=started_at, started=started))
        if output.webhook:
            post = HttpPost(output.webhook)
            lines = FrameLines(started_at=started_at, started=started)
            board.add(WebhookSink(post, lines=lines, clock=clock, limit=output.webhook_queue))
        if output.video is not None:
            board.add(AnnotatedVideoSink(output.video, rate_hz=rate_hz))
        if output.pictures is not None:
            board.add(AnnotatedPicturesSink(output.pictures))
    except BaseException:
        board.close()
        raise
    return board


def open_spool(
    config: SpoolConfig,
    way: Remote | None,
    *,
    port: ClientPort,
    head: Head,
    checkout: Checkout,
    clock: Clock,
) -> Spooler | None:
    """The spool, with what earlier runs left in it; None when none is asked for. Raises
    SpoolInUseError, SpoolError."""
    if config.folder is None or way is None:
        return None
    disk = FolderDisk(config.folder.expanduser())
    try:
        max_bytes = config.max_mb * 1_000_000
        spool = SpoolLog(
            disk,
            boot=int.from_bytes(os.urandom(4), "big"),
            segment_bytes=max_bytes // _SEGMENTS,
            sync=config.sync,
        )
        return Spooler(
            spool=spool,
            backlog=Backlog(share=config.share, keep_s=config.keep_s),
            port=port,
            head=head,
            checkout=checkout,
            clock=clock,
            settings=SpoolSettings(
                way=way,
                max_bytes=max_bytes,
                max_entries=config.max_entries,
                drop=config.drop,
                deadline_s=config.deadline_s,
                epoch_s=time.time() - clock.now(),
            ),
        )
    except BaseException:
        disk.close()
        raise


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
