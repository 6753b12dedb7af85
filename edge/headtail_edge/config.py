"""What an operator can set."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headtail_edge.canary import Share
from headtail_edge.mixing import MixedCuts
from headtail_edge.tenants import LimitsConfig, TenantConfig
from headtail_fabric.tracing.settings import TracingConfig


class PushConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Bundles that devices send to this edge because it lacks them."""

    accept_from: Annotated[
        Literal["nobody", "operators", "everyone"],
        Meta(
            description="Whose bundles are taken: nobody's, those of members enrolled as "
            "operators, or those of everyone who may connect."
        ),
    ] = "nobody"
    folder: Annotated[
        Path | None,
        Meta(description="Where they are kept; in the user's cache folder when not set."),
    ] = None
    max_bundle_mb: Annotated[
        int, Meta(ge=1, le=4096, description="Largest bundle taken, in MiB.")
    ] = 256
    max_bundles: Annotated[
        int, Meta(ge=1, le=200, description="How many are kept; more are refused.")
    ] = 16


class SealConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Payloads that devices seal end to end, besides what CURVE does (docs/security.md)."""

    key: Annotated[
        Path | None,
        Meta(description="This edge's sealing key file (`headtail keys seal`); none: no sealing."),
    ] = None
    required: Annotated[
        bool, Meta(description="Refuse payloads that are not sealed; needs `key`.")
    ] = False
    pad_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=16_777_216,
            description="Sealed answers are filled up to a multiple of it; 0: they are not.",
        ),
    ] = 0

    def __post_init__(self) -> None:
        if self.required and self.key is None:
            raise ValueError("seal.required is set, but seal.key is not")


class EdgeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of an edge server (`headtail edge serve --config FILE`)."""

    bind: Annotated[
        str,
        Meta(
            max_length=200,
            description="Where to listen; port 0 takes a free one. Anything but this machine "
            "needs a key and an allow-list.",
        ),
    ] = "tcp://127.0.0.1:5557"
    name: Annotated[
        str, Meta(min_length=1, max_length=64, description="What devices see this edge as.")
    ] = "edge"
    bundles: Annotated[
        tuple[str, ...],
        Meta(
            description="Bundles to serve, each by its path, name, name-version or the first "
            "digits of its digest."
        ),
    ] = ()
    trusted: Annotated[
        tuple[Path, ...],
        Meta(
            description="Public keys (.pub) of whom bundles must be signed by; with none, no "
            "signature is asked for."
        ),
    ] = ()
    watch: Annotated[
        Path | None,
        Meta(
            description="A folder of more bundles, followed while running: what is put there is "
            "served, what is taken away is not any more."
        ),
    ] = None
    memory_mb: Annotated[
        Annotated[int, Meta(ge=1, le=1_048_576)] | None,
        Meta(
            description="What opened tails may take, in MiB, by the size of their files (in each "
            "worker process); those used the longest ago are closed. No limit when not set."
        ),
    ] = None
    canary: Annotated[
        dict[Annotated[str, Meta(min_length=1, max_length=90)], Share],
        Meta(
            description="Shares of the devices, from 0 to 1, that bundles are offered to, by "
            'name-version, as "yolov3-tiny-coco-1.2" = 0.1; all others are for everyone.'
        ),
    ] = {}
    pinned: Annotated[
        tuple[str, ...],
        Meta(description="Bundles, by name or name-version, whose tails are never closed."),
    ] = ()
    cache_dir: Annotated[
        Path | None,
        Meta(description="Where packed bundles are unpacked; the user's cache when not set."),
    ] = None
    workers: Annotated[int, Meta(ge=1, le=256, description="Batches computed at once.")] = 2
    worker_kind: Annotated[
        Literal["thread", "process"],
        Meta(
            description="Where they are computed: in threads, which costs the least, or in a "
            "process for each worker, which may die of a request without taking the edge along, "
            "and which decodes on all cores."
        ),
    ] = "thread"
    worker_hang_s: Annotated[
        float,
        Meta(gt=0, le=3600, description="A worker process that is silent for so long is killed."),
    ] = 60.0
    threads: Annotated[
        int,
        Meta(
            ge=0,
            le=256,
            description="Threads that compute one batch; 0 shares the cores among the workers.",
        ),
    ] = 0
    max_batch: Annotated[
        int, Meta(ge=1, le=256, description="Requests computed together at most.")
    ] = 4
    max_wait_ms: Annotated[
        float,
        Meta(
            ge=0,
            le=10_000,
            description="How long an idle worker waits for a batch to fill up. 0 serves each "
            "request as soon as it can, which is best unless batches pay off greatly.",
        ),
    ] = 0.0
    mixed_cuts: Annotated[
        MixedCuts,
        Meta(
            description="Requests at several cuts of a bundle in one batch, where it has segments "
            "between them: the earlier ones are computed up to the later cut, the rest once for "
            "all. `auto`: where that should take less time than a batch a cut; `always`; `never`."
        ),
    ] = "auto"
    queue_limit: Annotated[
        int, Meta(ge=1, le=65_536, description="Requests that may wait; more are told to retry.")
    ] = 256
    window: Annotated[
        int, Meta(ge=1, le=1024, description="Requests that one device may have in progress.")
    ] = 16
    max_picture_mpx: Annotated[
        float,
        Meta(gt=0, le=1000, description="Largest whole picture taken, in megapixels."),
    ] = 20.0
    announce: Annotated[
        bool,
        Meta(
            description="Announce this edge on the local network by mDNS, with the fingerprint of "
            "its key; needs the extra `discovery`."
        ),
    ] = False
    key: Annotated[Path | None, Meta(description="This edge's key file (`headtail keys new`).")] = (
        None
    )
    allow_list: Annotated[
        Path | None,
        Meta(description="Who may connect (`headtail keys enrol`); followed while running."),
    ] = None
    cloud: Annotated[
        str,
        Meta(
            max_length=200,
            description="A cloud server's endpoint for edges, as tcp://HOST:PORT: what can't be "
            "computed here in time is forwarded there. Empty: nothing is.",
        ),
    ] = ""
    cloud_key: Annotated[
        str, Meta(description="The cloud's public key (40 characters); needs `key`. Empty: none.")
    ] = ""
    metrics_port: Annotated[
        Annotated[int, Meta(ge=0, le=65_535)] | None,
        Meta(
            description="Where Prometheus finds measurements, on this machine; nowhere if not set."
        ),
    ] = None
    grace_s: Annotated[
        float,
        Meta(ge=0, le=600, description="How long accepted requests may take when stopped."),
    ] = 5.0
    push: PushConfig = PushConfig()
    limits: LimitsConfig = LimitsConfig()
    tenants: Annotated[
        dict[Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")], TenantConfig],
        Meta(description="Devices that have one share together, as tables [tenants.NAME]."),
    ] = {}
    seal: SealConfig = SealConfig()
    tracing: TracingConfig = TracingConfig()
