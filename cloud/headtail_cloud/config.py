"""What an operator can set."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from headtail_cloud.core.options import SchedulerOptions


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
        int, Meta(ge=0, le=256, description="Threads that compute a batch; 0 takes all cores.")
    ] = 0
    max_batch: Annotated[
        int, Meta(ge=1, le=256, description="Requests of a model computed together at most.")
    ] = 8
    max_waiting: Annotated[
        int, Meta(ge=1, le=65_536, description="Requests that may be here; more come again later.")
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

    def scheduling(self, shares: dict[str, float]) -> SchedulerOptions:
        """What of it is the scheduler's; `shares` of the tenants."""
        return SchedulerOptions(
            max_waiting=self.max_waiting,
            max_waiting_per_tenant=self.max_waiting_per_tenant,
            shares=shares,
        )
