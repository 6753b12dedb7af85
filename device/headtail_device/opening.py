"""From the configuration to the things a device holds open."""

import os
import random
import secrets
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from headtail_device.background import BackgroundSink
from headtail_device.config import DeviceConfig, OutputConfig, SpoolConfig
from headtail_device.delivery import Checkout
from headtail_device.frame_traces import FrameTraces
from headtail_device.head import Head
from headtail_device.mqtt import MqttAddress, MqttLink
from headtail_device.placement import Remote
from headtail_device.sink import (
    AnnotatedPicturesSink,
    AnnotatedVideoSink,
    JsonLinesSink,
    RemoteSink,
    SinkBoard,
)
from headtail_device.sink.http_post import HttpPost
from headtail_device.sink.line import FrameLines
from headtail_device.sink.mqtt_publisher import MqttPublisher
from headtail_device.sink.remote import Carrier
from headtail_device.spool import Backlog, FolderDisk, Spooler, SpoolLog, SpoolSettings
from headtail_fabric.clock import Clock
from headtail_fabric.errors import ConfigError
from headtail_fabric.peer.ports import ClientPort
from headtail_fabric.tracing.settings import open_sink, random_ids
from headtail_models.bundle import Bundle, BundleCache, open_bundle
from headtail_models.bundle.keys import load_public_key
from headtail_models.bundle.manifest import INPUT, Manifest, Preprocess

_SEGMENTS: Final = 32

Connect = Callable[[DeviceConfig, bytes, Clock], ClientPort]
"""From the configuration and the bundle's digest to the port of an edge."""


def open_trusted(config: DeviceConfig) -> Bundle:
    """The bundle that is asked for, verified. Raises BundleError, KeyFileError,
    BundleStorageError."""
    trusted = [load_public_key(path) for path in config.trusted]
    return open_bundle(BundleCache().find(config.bundle), trusted=trusted or None)


class NotPicturesError(ConfigError):
    """The bundle takes no pictures, and a setting is for those. Leave it out, or use a bundle that
    sees."""


def check_kind(config: DeviceConfig, manifest: Manifest) -> None:
    """Raises NotPicturesError."""
    if isinstance(manifest.preprocess, Preprocess):
        return
    for name, chosen in (
        ("way.cut = input", config.way.cut == INPUT),
        ("output.video", config.output.video is not None),
        ("output.pictures", config.output.pictures is not None),
        ("measure_jpeg", config.measure_jpeg),
        ("controller.pictures", bool(config.controller.pictures)),
    ):
        if chosen:
            raise NotPicturesError(f"bundle {manifest.name} takes no pictures, {name} is for them")


def open_board(output: OutputConfig, *, rate_hz: float | None, clock: Clock) -> SinkBoard:
    """The sinks that are asked for. Raises SinkError, BadWebhookError,
    BadMqttAddressError, MqttError, ConfigError for a missing extra, with none left open."""
    board = SinkBoard()
    started_at, started = clock.now(), datetime.now(UTC)

    def remote(carrier: Carrier, *, limit: int) -> RemoteSink:
        lines = FrameLines(started_at=started_at, started=started)
        return RemoteSink(carrier, lines=lines, clock=clock, limit=limit)

    try:
        if output.json:
            board.add(JsonLinesSink(output.json, started_at=started_at, started=started))
        if output.webhook:
            board.add(remote(HttpPost(output.webhook), limit=output.webhook_queue))
        if output.mqtt:
            address = MqttAddress.parse(output.mqtt, wildcards=False)
            link = MqttLink(address, subscribe=False)
            board.add(remote(MqttPublisher(link), limit=output.mqtt_queue))
        if output.video is not None:
            board.add(BackgroundSink(AnnotatedVideoSink(output.video, rate_hz=rate_hz)))
        if output.pictures is not None:
            board.add(BackgroundSink(AnnotatedPicturesSink(output.pictures)))
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


def open_traces(config: DeviceConfig, clock: Clock) -> FrameTraces | None:
    """Traces of frames, if they are wanted. Raises TracingMissingError, BadCollectorError."""
    sink = open_sink(config.tracing, service="headtail-device", instance=config.name, clock=clock)
    if sink is None:
        return None
    draw = random.Random(secrets.randbits(64)).random  # noqa: S311 - which frames are traced
    return FrameTraces(sink, share=config.tracing.share, draw=draw, random=random_ids)


def pack(bundle: Bundle) -> bytes:
    """The bundle as one file's bytes. Raises BundleError, BundleStorageError."""
    with tempfile.TemporaryDirectory() as folder:
        return bundle.pack(Path(folder)).read_bytes()
