"""One instance of a fleet: its scheduler, and where it stands."""

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from headtail_cloud.core.job import TextJob
from headtail_cloud.core.request import Request, TextRequest
from headtail_cloud.core.scheduler import Scheduler
from headtail_cloud.dispatch.placement import Candidate
from headtail_cloud.migration.policy import InstanceView, Role, TextView
from headtail_fabric.errors import LocalError


class StandingError(LocalError):
    """Something happened to an instance that can't happen to it where it stands. This is a bug:
    please report it with the log."""


class Standing(StrEnum):
    """Where an instance stands."""

    STARTING = "starting"
    """Its engine is being loaded, for the first time or again; requests may wait for it."""
    RUNNING = "running"
    DRAINING = "draining"
    """It gets nothing more, and goes when it has done or given away what it has."""


class Turn(StrEnum):
    """What can change that."""

    STARTED = "started"
    LOST = "lost"
    DRAIN = "drain"
    KEEP = "keep"


TABLE: Final[dict[Standing, dict[Turn, Standing]]] = {
    Standing.STARTING: {
        Turn.STARTED: Standing.RUNNING,
        Turn.LOST: Standing.STARTING,
    },
    Standing.RUNNING: {
        Turn.LOST: Standing.STARTING,
        Turn.DRAIN: Standing.DRAINING,
    },
    Standing.DRAINING: {
        Turn.LOST: Standing.STARTING,
        Turn.KEEP: Standing.RUNNING,
    },
}


class Member:
    """`ready_at`: when it is expected to have started."""

    def __init__(
        self, name: str, group: str, scheduler: Scheduler, *, role: Role, ready_at: float
    ) -> None:
        self.name = name
        self.group = group
        self.scheduler = scheduler
        self.role = role
        self.ready_at = ready_at
        self.standing = Standing.STARTING
        self.failures = 0
        """Starts that failed, one after the other."""
        self.restart_at: float | None = None

    def __repr__(self) -> str:
        return f"<Member {self.name} {self.standing}, {self.scheduler!r}>"

    @property
    def open(self) -> bool:
        """Whether it gets requests."""
        return self.standing is not Standing.DRAINING

    @property
    def gives_away(self) -> bool:
        """Whether its texts are to go elsewhere as soon as they can."""
        return self.standing is Standing.DRAINING or self.role is Role.PREFILL

    @property
    def may_be_lost(self) -> bool:
        """Whether a death is news: not while it starts, nor while a step runs, which will fail."""
        return self.standing is not Standing.STARTING and not self.scheduler.running

    def turn(self, turn: Turn) -> None:
        """Raises StandingError."""
        following = TABLE[self.standing].get(turn)
        if following is None:
            raise StandingError(f"{self.name} is {self.standing}, and {turn}")
        self.standing = following

    def candidate(self, request: Request, *, transfer_s: float, now: float) -> Candidate:
        """How soon it would have done a request."""
        forecast = self.scheduler.forecast(request, now)
        starting = self.standing is Standing.STARTING
        start_s = max(0.0, self.ready_at - now) if starting else 0.0
        return Candidate(
            instance=self.name,
            start_s=start_s,
            transfer_s=transfer_s,
            queue_s=max(0.0, forecast.queue_s - start_s),
            run_s=forecast.run_s,
        )

    def takes(self, request: Request) -> bool:
        """Whether it gets such requests: an instance that only decodes gets no prompts."""
        return self.open and not (isinstance(request, TextRequest) and self.role is Role.DECODE)

    def view(self, moving: Collection[str], *, max_batch: int) -> InstanceView:
        """As the policy of moves sees it; `moving`: the requests that move to or from here."""
        jobs = [job for job in self.scheduler.jobs if isinstance(job, TextJob)]
        running = [job for job in jobs if job.blocks]
        blocked = [job.request.priority for job in jobs if not job.blocks]
        cache = self.scheduler.cache
        return InstanceView(
            instance=self.name,
            group=self.group,
            draining=self.standing is Standing.DRAINING,
            role=self.role,
            texts=tuple(
                TextView(
                    request_id=job.request.id,
                    positions=job.computed,
                    priority=job.request.priority,
                    decoding=job.decoding,
                )
                for job in running
                if job.request.id not in moving
            ),
            waits_for_room=max(blocked, default=None),
            free=cache.pool.free if self.standing is not Standing.STARTING else 0,
            total=cache.pool.total,
            block_tokens=cache.block_tokens,
            places=max_batch - len(running),
            moving=len(moving),
        )
