"""A cloud fleet that really runs, whatever its workers are."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from cloud_doubles import tail
from headtail_cloud.core.actions import Accept, Finish, Outcome, Reject
from headtail_cloud.dispatch.events import FleetAction, Moved
from headtail_cloud.dispatch.group import GroupPlan
from headtail_cloud.runtime.fleet import FleetRuntime, LiveGroup
from headtail_cloud.runtime.launcher import Launcher
from headtail_cloud.runtime.serving import Unwatched
from processes import PATIENCE_S

GROUP: Final = "fragile"


class Seen(Unwatched):
    """What befell the fleet."""

    def __init__(self) -> None:
        self.moves: list[Moved] = []
        self.tiers: list[str] = []
        self.running = 0

    def acted(self, action: FleetAction) -> None:
        if isinstance(action, Moved):
            self.moves.append(action)

    def started(self, tier: str, seconds: float) -> None:
        self.tiers.append(tier)

    def instances(self, running: int) -> None:
        self.running = running


class Live:
    """A fleet that runs."""

    def __init__(self, runtime: FleetRuntime, seen: Seen) -> None:
        self.runtime = runtime
        self.seen = seen

    async def end(self, request: Any) -> Finish:
        end = await asyncio.wait_for(self.runtime.submit(request).end(), PATIENCE_S)
        assert isinstance(end, Finish), end
        return end

    async def tokens(self, request: Any) -> list[int]:
        """All of a text that is accepted and ends well."""
        told = []
        async for what in self.runtime.submit(request):
            assert not isinstance(what, Reject)
            if isinstance(what, Finish):
                assert what.outcome is Outcome.DONE, what.message
            elif not isinstance(what, Accept):
                told.append(what.token)
        return told

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.01)

    def pids(self) -> list[int]:
        """Of the workers that are there."""
        launched = [one.launched for one in self.runtime._instances.values()]
        return [one.engine.pid for one in launched if one is not None]  # type: ignore[attr-defined]


@asynccontextmanager
async def live_fleet(launcher: Launcher, plan: GroupPlan) -> AsyncIterator[Live]:
    """Of one group, with as many workers as it has at least. Afterwards none of them is left."""
    seen = Seen()
    runtime = FleetRuntime([LiveGroup(plan=plan, launcher=launcher)], watcher=seen)
    live = Live(runtime, seen)
    try:
        await live.until(lambda: len(live.pids()) == plan.scaling.least)
        yield live
    finally:
        pids = live.pids()
        await runtime.close(5.0)
        await live.until(lambda: not any(map(running, pids)))


def named(name: str) -> Any:
    """A tail of that name, which says what befalls it."""
    request = tail(0, deadline_s=PATIENCE_S)
    return type(request)(
        id=name, tenant="a", chain=request.chain, deadline_s=PATIENCE_S, input=name
    )


def running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
