"""What an operator can set."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headtail_cloud.core.options import SchedulerOptions


class EdgesConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The ZeroMQ endpoint, where edges forward what they can't compute in time."""

    bind: Annotated[
        str,
        Meta(
            max_length=200,
            description="Where to listen, such as tcp://127.0.0.1:5558; port 0 takes a free one. "
            "Nowhere if empty. Anything but this machine needs a key and an allow-list.",
        ),
    ] = ""
    name: Annotated[
        str, Meta(min_length=1, max_length=64, description="What edges see this server as.")
    ] = "cloud"
    window: Annotated[
        int, Meta(ge=1, le=1024, description="Requests that one edge may have in progress.")
    ] = 64
    key: Annotated[
        Path | None, Meta(description="This server's key file (`headtail keys new`).")
    ] = None
    allow_list: Annotated[
        Path | None,
        Meta(description="Who may connect (`headtail keys enrol`); followed while running."),
    ] = None


class RemoteConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Another server of the OpenAI API, whose models are offered here, too."""

    url: Annotated[
        str,
        Meta(
            pattern=r"^https?://",
            max_length=500,
            description="Its API, such as http://10.0.0.5:8000/v1.",
        ),
    ]
    key_variable: Annotated[
        str, Meta(description="The environment variable that holds its API key, if it has one.")
    ] = ""
    concurrency: Annotated[
        int, Meta(ge=1, le=65_536, description="Requests that it works on at once, about.")
    ] = 16
    limit_s: Annotated[
        float, Meta(gt=0, le=3600, description="How long an answer may be silent.")
    ] = 120.0


class RayConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The Ray cluster that workers are placed in, of the runtime ray."""

    address: Annotated[
        str,
        Meta(
            pattern=r"^(auto|[^\s:/]+:[0-9]{1,5})?\Z",
            max_length=200,
            description="host:port of the cluster to join, or auto for the one that this machine "
            "is of. If empty, one is started on this machine, and ends with the server.",
        ),
    ] = ""
    cpus: Annotated[
        float, Meta(ge=0, le=256, description="Cores that are set aside for each worker.")
    ] = 1.0
    resources: Annotated[
        dict[Annotated[str, Meta(min_length=1, max_length=64)], Annotated[float, Meta(gt=0)]],
        Meta(
            description="What else a worker takes, of what the cluster's machines were started "
            "with: it is placed where that is free."
        ),
    ] = {}
    start_limit_s: Annotated[
        float,
        Meta(
            gt=0,
            le=3600,
            description="How long a worker may take to be placed, and again to load its model.",
        ),
    ] = 60.0


class CloudConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a cloud server (`headtail cloud serve --config FILE`)."""

    host: Annotated[
        str,
        Meta(
            max_length=200,
            description="Where to listen. Anything but this machine needs a tenants' file.",
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="TCP port; 0 takes a free one.")] = 8080
    models: Annotated[
        tuple[str, ...],
        Meta(
            description="Bundles to serve, each by its path, name, name-version or the first "
            "digits of its digest: the whole network and every cut; or one cut, as bundle:cut."
        ),
    ] = ()
    trusted: Annotated[
        tuple[Path, ...],
        Meta(
            description="Public keys (.pub) of whom bundles must be signed by; with none, no "
            "signature is asked for."
        ),
    ] = ()
    cache_dir: Annotated[
        Path | None,
        Meta(description="Where packed bundles are unpacked; the user's cache when not set."),
    ] = None
    tenants: Annotated[
        Path | None,
        Meta(description="Who may ask, with which API key (`headtail cloud key`)."),
    ] = None
    threads: Annotated[
        int,
        Meta(
            ge=0,
            le=256,
            description="Threads that compute a batch in this process; 0 takes all cores. A worker "
            "process has one.",
        ),
    ] = 0
    runtime: Annotated[
        Literal["in-process", "process", "ray"],
        Meta(
            description="Where models run: all in this process, or each bundle in worker processes "
            "of its own, which may die without harm and go to zero when nobody asks; with ray "
            "these are actors of a Ray cluster."
        ),
    ] = "in-process"
    workers: Annotated[
        int, Meta(ge=1, le=256, description="Worker processes of a bundle at most.")
    ] = 2
    least_workers: Annotated[
        int,
        Meta(
            ge=0, le=256, description="And at least; 0 lets a bundle that nobody uses go to zero."
        ),
    ] = 1
    prefill_workers: Annotated[
        int,
        Meta(
            ge=0,
            le=255,
            description="Of the language model's worker processes, how many only read prompts: "
            "their texts go on in the others after the first token. 0: all do both.",
        ),
    ] = 0
    requests_per_worker: Annotated[
        float,
        Meta(gt=0, le=10_000, description="Requests in progress that one worker process is for."),
    ] = 4.0
    stable_s: Annotated[
        float,
        Meta(gt=0, le=3600, description="Over how long they are averaged, in seconds."),
    ] = 60.0
    keep_alive_s: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="How long the last worker stays unused, where it is not known when a "
            "bundle is used again.",
        ),
    ] = 300.0
    zygote: Annotated[
        Literal["resident", "bare", "none"],
        Meta(
            description="What workers are forked from: a process that holds the models, one that "
            "has only the modules loaded, or nothing."
        ),
    ] = "resident"
    step_limit_s: Annotated[
        float,
        Meta(
            gt=0, le=3600, description="A worker that takes longer for a batch hangs: it is killed."
        ),
    ] = 60.0
    llm: Annotated[
        str,
        Meta(
            max_length=4096,
            description="The language model to serve: smollm2, or the folder of a checkpoint.",
        ),
    ] = ""
    llm_adapters: Annotated[
        dict[Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")], Path],
        Meta(description="LoRA adapters by name, folders of peft's format; asked for as llm:name."),
    ] = {}
    llm_cache_mb: Annotated[
        float,
        Meta(gt=0, le=1 << 20, description="Memory for the keys and values of its texts, in MiB."),
    ] = 512.0
    llm_packed: Annotated[
        bool,
        Meta(
            description="Hold its weights a second time, laid out for batches: faster. A worker "
            "process never does, so that all of them share the weights."
        ),
    ] = True
    llm_first_token_s: Annotated[
        float,
        Meta(gt=0, le=3600, description="A text that would begin later than this is refused."),
    ] = 30.0
    llm_token_s: Annotated[
        float,
        Meta(gt=0, le=60, description="The time between two tokens that is kept for every text."),
    ] = 0.5
    llm_longest: Annotated[
        int,
        Meta(ge=1, le=1 << 20, description="Tokens of an answer where a request names no limit."),
    ] = 1024
    max_batch: Annotated[
        int, Meta(ge=1, le=256, description="Requests of a model computed together at most.")
    ] = 8
    max_waiting: Annotated[
        int,
        Meta(
            ge=1,
            le=65_536,
            description="Requests that may be here (at each worker); more come again later.",
        ),
    ] = 512
    max_waiting_per_tenant: Annotated[
        int, Meta(ge=1, le=65_536, description="The same, of one tenant.")
    ] = 128
    deadline_s: Annotated[
        float, Meta(gt=0, le=3600, description="Of a request that names no timeout.")
    ] = 5.0
    longest_deadline_s: Annotated[
        float, Meta(gt=0, le=3600, description="The longest timeout that a request gets.")
    ] = 60.0
    max_body_mb: Annotated[float, Meta(gt=0, le=4096, description="Largest request, in MiB.")] = (
        32.0
    )
    body_s: Annotated[
        float, Meta(gt=0, le=600, description="How long a request may take to arrive.")
    ] = 10.0
    concurrency: Annotated[
        int, Meta(ge=1, le=65_536, description="HTTP requests in progress; more come again later.")
    ] = 256
    grace_s: Annotated[
        float, Meta(ge=0, le=600, description="How long accepted requests may take when stopped.")
    ] = 5.0

    ray: RayConfig = RayConfig()
    edges: EdgesConfig = EdgesConfig()
    remotes: Annotated[
        dict[Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")], RemoteConfig],
        Meta(description="Other servers of the OpenAI API, as tables [remotes.NAME]."),
    ] = {}

    def scheduling(self, shares: dict[str, float]) -> SchedulerOptions:
        """What of it is the scheduler's; `shares` of the tenants."""
        return SchedulerOptions(
            max_waiting=self.max_waiting,
            max_waiting_per_tenant=self.max_waiting_per_tenant,
            shares=shares,
        )
