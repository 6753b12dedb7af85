"""Everything a device can be told, each default in this one place."""

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from headtail_device.placement_config import (
    ControllerConfig,
    GatesConfig,
    Goal,
    Mode,
    WayConfig,
)
from headtail_fabric.tracing.settings import TracingConfig

Pace = Literal["fast", "realtime"]
Late = Literal["answer", "expire"]
Sync = Literal["entry", "segment", "never"]
Drop = Literal["oldest", "surest"]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
MDNS: Final = "mdns:"
Port = Annotated[int, Meta(ge=0, le=65_535)]


class EdgeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The way to the edge."""

    endpoint: Annotated[
        str,
        Meta(
            max_length=256,
            description="Its address, such as tcp://192.168.1.5:5557; or mdns: to look on the "
            "local network for the edge whose key is `server_key`.",
        ),
    ] = ""
    server_key: Annotated[
        str,
        Meta(description="The edge's public key (40 characters); needs `key`. Empty: no CURVE."),
    ] = ""
    key: Annotated[
        Path | None, Meta(description="This device's key file, made by `headtail keys new`.")
    ] = None
    seal_to: Annotated[
        str,
        Meta(
            max_length=512,
            description="The edge's sealing key (`seal:...`) or its .seal.pub file: what frames "
            "hold is sealed end to end, through any relay. Empty: it is not.",
        ),
    ] = ""
    seal_pad_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=16_777_216,
            description="Sealed payloads are filled up to a multiple of it; 0: they are not.",
        ),
    ] = 0
    push_bundles: Annotated[
        bool, Meta(description="Send the bundle to an edge that lacks it and would take it.")
    ] = False
    announce_tails: Annotated[
        bool,
        Meta(
            description="Tell the edge after a pause that a tail is due while its head still runs, "
            "so that it may be made ready; never where requests are sealed."
        ),
    ] = True
    required: Annotated[
        bool,
        Meta(description="End with an error when the edge can't be used within `patience_s`."),
    ] = False
    patience_s: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="How long the first frame waits for the edge before it is computed here.",
        ),
    ] = 5.0
    max_in_flight: Annotated[
        int,
        Meta(
            ge=1,
            le=1024,
            description="Frames at the edge at once, at most; fewer where they would wait for each "
            "other for more than half a deadline.",
        ),
    ] = 4


class EdgeAddress(msgspec.Struct, frozen=True, kw_only=True):
    """One of several edges."""

    endpoint: Annotated[
        str,
        Meta(min_length=1, max_length=256, description="Its address, or mdns: as in `edge`."),
    ]
    server_key: Annotated[str, Meta(description="Its public key; needs `edge.key`.")] = ""
    seal_to: Annotated[str, Meta(max_length=512, description="Its sealing key.")] = ""


class SpoolConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Out of contact, frames wait on disk for the edge, instead of being answered here."""

    folder: Annotated[
        Path | None,
        Meta(description="Where they lie; of this device alone. Unset: there is no spool."),
    ] = None
    max_mb: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Megabytes (10^6) that it may take on disk.")
    ] = 256
    max_entries: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Frames that may wait at once.")
    ] = 100_000
    drop: Annotated[
        Drop,
        Meta(
            description="What makes room when it is full: the `oldest` frames, or those of which "
            "the bundle's exits were `surest`, oldest first."
        ),
    ] = "oldest"
    sync: Annotated[
        Sync,
        Meta(
            description="When it is flushed against a loss of power: with each `entry`, with each "
            "full `segment` (1/32 of the spool), or `never`. A killed process loses nothing."
        ),
    ] = "segment"
    keep_s: Annotated[
        float,
        Meta(gt=0, le=31_536_000, description="A frame that waits longer is expired."),
    ] = 604_800.0
    share: Annotated[
        float,
        Meta(
            ge=0.01,
            le=1,
            description="The part of the time that sending spooled frames may take while live "
            "frames come.",
        ),
    ] = 0.25
    deadline_s: Annotated[
        Seconds, Meta(description="How long the edge has for a spooled frame, each time.")
    ] = 30.0


class OutputConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where finished frames go. A file that is there is written over."""

    json: Annotated[
        str, Meta(description="One JSON line a frame, into that file; - is standard output.")
    ] = ""
    webhook: Annotated[
        str,
        Meta(
            max_length=2048,
            description="The same lines, sent by POST to that http:// or https:// address.",
        ),
    ] = ""
    webhook_queue: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Lines that may wait for the webhook; the oldest give way.",
        ),
    ] = 10_000
    mqtt: Annotated[
        str,
        Meta(
            max_length=2048,
            description="The same lines, a message each, to that topic: mqtt://host/topic, "
            "mqtts:// for TLS, user:password@ before the host if need be.",
        ),
    ] = ""
    mqtt_queue: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Lines that may wait for the broker; the oldest give way.",
        ),
    ] = 10_000
    video: Annotated[
        Path | None, Meta(description="Annotated video, .mp4 (MPEG-4) or .avi (Motion JPEG).")
    ] = None
    pictures: Annotated[
        Path | None, Meta(description="A folder for annotated pictures, one a frame.")
    ] = None


class DeviceConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A device: where its frames come from, where they are computed, where the answers go."""

    source: Annotated[
        str,
        Meta(
            description="A video file, a picture, a folder of pictures, a camera (0, /dev/video0), "
            "a stream (rtsp://...) or watch:FOLDER for pictures as they come. For a bundle that "
            "hears: a WAV file, mic: (mic:NAME), or - for 16-bit mono samples on standard input. "
            "For one that takes readings of sensors: a text file, - or serial:/dev/ttyUSB0@115200, "
            "a line of numbers a reading. For all: mqtt://host/topic. A relative path starts at "
            "the working directory."
        ),
    ]
    bundle: Annotated[
        str,
        Meta(description="A bundle by name, digest or path; `headtail bundle list` shows them."),
    ]
    trusted: Annotated[
        tuple[Path, ...],
        Meta(
            description="Public keys (.pub) one of which must have signed the bundle; with none, "
            "no signature is asked for."
        ),
    ] = ()
    name: Annotated[str, Meta(max_length=64, description="What the edge calls it in its log.")] = (
        "device"
    )
    mode: Annotated[
        Mode,
        Meta(
            description="`edge`: the edge while it can be had; `local`: never; `auto`: wherever it "
            "is best, frame by frame, by the goal in `controller`; or that goal itself."
        ),
    ] = "edge"
    pace: Annotated[
        Pace,
        Meta(
            description="Of a video file: as fast as it is handled, or in real time, where frames "
            "that come too fast are dropped. A camera is always real time."
        ),
    ] = "fast"
    every: Annotated[
        int,
        Meta(ge=1, le=100_000, description="Take one of so many frames, and drop the others."),
    ] = 1
    deadline_s: Annotated[
        Seconds, Meta(description="How long after its capture a frame's answer is wanted.")
    ] = 2.0
    late: Annotated[
        Late | None,
        Meta(
            description="What becomes of a frame past its deadline: `answer` it on the device all "
            "the same, or let it `expire`. Not set: `expire` for a live source, else `answer`."
        ),
    ] = None
    source_patience_s: Annotated[
        float,
        Meta(
            ge=0,
            le=31_536_000,
            description="How long a camera or stream that is gone is tried again.",
        ),
    ] = 3600.0
    threads: Annotated[int, Meta(ge=1, le=256, description="Of the network, on the device.")] = 1
    open_whole: Annotated[
        bool,
        Meta(
            description="Load the whole model at the start, so that the first frame without an "
            "edge does not wait for it; false saves its memory until then."
        ),
    ] = True
    drain_s: Annotated[
        float,
        Meta(ge=0, le=3600, description="After a stop signal, how long to wait for the edge."),
    ] = 2.0
    measure_jpeg: Annotated[
        bool,
        Meta(description="Also count what the frames would weigh as JPEG of quality 75."),
    ] = False
    metrics_port: Annotated[
        Port | None, Meta(description="Where Prometheus finds measurements, if set.")
    ] = None
    metrics_host: Annotated[str, Meta(description="The address of that port.")] = "127.0.0.1"
    edges: Annotated[
        tuple[EdgeAddress, ...],
        Meta(
            max_length=16,
            description="More edges that serve the bundle, as tables of endpoint, server_key and "
            "seal_to. The one that is near and least loaded is used, and another when it fails.",
        ),
    ] = ()
    edge: EdgeConfig = EdgeConfig()
    way: WayConfig = WayConfig()
    gates: GatesConfig = GatesConfig()
    controller: ControllerConfig = ControllerConfig()
    spool: SpoolConfig = SpoolConfig()
    output: OutputConfig = OutputConfig()
    tracing: TracingConfig = TracingConfig()

    def __post_init__(self) -> None:
        if self.has_edge and not self.addresses:
            raise ValueError(f"mode is {self.mode}, but edge.endpoint is not set")
        if self.mode == "local" and self.spool.folder is not None:
            raise ValueError("spool.folder is set, but mode is local: nothing would be sent")
        keyed = [bool(address.server_key) for address in self.addresses]
        if any(keyed) != (self.edge.key is not None) or len(set(keyed)) > 1:
            raise ValueError("edge.server_key and edge.key belong together: set both or neither")
        if any(one.endpoint == MDNS and not one.server_key for one in self.addresses):
            raise ValueError("mdns: needs server_key and edge.key: only a known edge is trusted")
        if not self.source or not self.bundle:
            raise ValueError("source and bundle must not be empty")

    @property
    def addresses(self) -> tuple[EdgeAddress, ...]:
        """Every edge that may be used, the one of `edge` first."""
        edge = self.edge
        if not edge.endpoint:
            return self.edges
        first = EdgeAddress(
            endpoint=edge.endpoint, server_key=edge.server_key, seal_to=edge.seal_to
        )
        return (first, *self.edges)

    @property
    def has_edge(self) -> bool:
        """Whether an edge is asked for anything."""
        return self.mode != "local"

    @property
    def goal(self) -> Goal | None:
        """What a controller is to aim at; None where there is none."""
        match self.mode:
            case "edge" | "local":
                return None
            case "auto":
                return self.controller.goal
            case _:
                return self.mode
