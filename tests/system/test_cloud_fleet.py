"""The fleet over real worker processes: killed in a batch, in a prefill and in a move; poisoned;
gone to zero and back. Nobody's request is lost."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from cloud_doubles import said, tail, text
from headtail_cloud.core.actions import Outcome
from headtail_cloud.dispatch.group import GroupPlan
from headtail_cloud.engines.served_tail import TailInput
from headtail_cloud.instances.autoscaler import ScalingOptions
from headtail_cloud.runtime.launcher import ProcessLauncher, ZygoteKind
from live_fleet import GROUP, Live, live_fleet, named
from worker_engines import SEGMENT, spec

pytestmark = pytest.mark.system

Work = Callable[[Live], Awaitable[None]]


@asynccontextmanager
async def fleet(
    folder: Path, *, zygote: ZygoteKind = "resident", prefills: int = 0, pace_s: float = 0.0,
    keep_alive_s: float = 60.0, stable_s: float = 60.0, least: int = 2, blocks: int = 64,
) -> AsyncIterator[Live]:  # fmt: skip
    launcher = ProcessLauncher(spec(folder, pace_s=pace_s, blocks=blocks), zygote=zygote)
    profile = await asyncio.to_thread(launcher.prepare)
    plan = GroupPlan(
        name=GROUP,
        serves=frozenset({SEGMENT, "lm@1"}),
        capacity=profile.capacity,
        estimate=profile.estimate,
        scaling=ScalingOptions(least=least, most=2, stable_s=stable_s),
        keep_alive_s=keep_alive_s,
        tier=launcher.tier,
        prefills=prefills,
    )
    async with live_fleet(launcher, plan) as live:
        yield live


@pytest.mark.parametrize("zygote", ["resident", "bare", "none"])
def test_requests_are_computed_in_other_processes(tmp_path: Path, zygote: ZygoteKind) -> None:
    async def main() -> None:
        async with fleet(tmp_path, zygote=zygote) as live:
            tensors = [np.full(100_000, n, np.float32) for n in range(8)]
            requests = [
                tail(n, deadline_s=30.0, input=TailInput(payload=tensor.data, shape=(100_000,)))
                for n, tensor in enumerate(tensors)
            ]
            ends = await asyncio.gather(*(live.end(request) for request in requests))
            for tensor, end in zip(tensors, ends, strict=True):
                assert isinstance(end.output, dict)
                np.testing.assert_array_equal(end.output["echo"], tensor)
                assert end.output["pid"] in live.pids()
            assert (
                set(live.seen.tiers)
                <= {
                    "resident": {"resident"},
                    "bare": {"zygote", "on_disk"},
                    "none": {"on_disk"},
                }[zygote]
            )

    asyncio.run(main())


def test_a_worker_killed_in_a_batch(tmp_path: Path) -> None:
    """By a request that breaks it once: all of the batch is tried again, and answered."""

    async def main() -> None:
        async with fleet(tmp_path) as live:
            names = ["a", "b", "once", "c"]
            ends = await asyncio.gather(*(live.end(named(name)) for name in names))
            assert [end.outcome for end in ends] == [Outcome.DONE] * 4
            await live.until(lambda: len(live.pids()) == 2)

    asyncio.run(main())


def test_one_that_always_breaks_it_is_answered_and_others_are_unharmed(tmp_path: Path) -> None:
    async def main() -> None:
        async with fleet(tmp_path) as live:
            names = [*"abcdef", "kills", *"ghij"]
            ends = await asyncio.gather(*(live.end(named(name)) for name in names))
            outcomes = {name: end.outcome for name, end in zip(names, ends, strict=True)}
            assert outcomes.pop("kills") is Outcome.FAILED
            assert set(outcomes.values()) == {Outcome.DONE}
            assert (await live.end(named("later"))).outcome is Outcome.DONE

    asyncio.run(main())


def test_a_worker_killed_from_outside_in_prefills_and_decodes(tmp_path: Path) -> None:
    async def main() -> None:
        async with fleet(tmp_path, pace_s=0.005) as live:
            prompts = [list(range(n * 100, n * 100 + 25)) for n in range(4)]
            running = [
                asyncio.ensure_future(live.tokens(text(n, prompt, max_tokens=40)))
                for n, prompt in enumerate(prompts)
            ]
            for _ in range(2):
                await asyncio.sleep(0.07)
                os.kill(live.pids()[0], signal.SIGKILL)
            for prompt, said_ in zip(prompts, await asyncio.gather(*running), strict=True):
                assert said_ == said(prompt, 40)

    asyncio.run(main())


def test_texts_move_between_processes_while_they_are_written(tmp_path: Path) -> None:
    async def main() -> None:
        async with fleet(tmp_path, prefills=1, pace_s=0.002) as live:
            prompts = [list(range(n * 100, n * 100 + 20)) for n in range(3)]
            running = [
                live.tokens(text(n, prompt, max_tokens=30)) for n, prompt in enumerate(prompts)
            ]
            for prompt, said_ in zip(prompts, await asyncio.gather(*running), strict=True):
                assert said_ == said(prompt, 30)
            assert len(live.seen.moves) == 3

    asyncio.run(main())


@pytest.mark.parametrize("which", [0, 1])
def test_a_worker_killed_in_a_move(tmp_path: Path, which: int) -> None:
    """Of the one that gives, and the one that takes. Steps are slow, so that moves are."""

    async def main() -> None:
        async with fleet(tmp_path, prefills=1, pace_s=0.02) as live:
            prompt = list(range(40))
            running = asyncio.ensure_future(live.tokens(text(1, prompt, max_tokens=12)))
            relocation = live.runtime._fleet._relocation
            await live.until(lambda: bool(relocation._under))
            os.kill(live.pids()[which], signal.SIGKILL)
            assert await running == said(prompt, 12)

    asyncio.run(main())


def test_it_goes_to_zero_and_comes_back_for_a_request(tmp_path: Path) -> None:
    async def main() -> None:
        async with fleet(tmp_path, least=0, keep_alive_s=0.0, stable_s=0.5) as live:
            assert live.pids() == []
            assert (await live.end(named("first"))).outcome is Outcome.DONE
            await live.until(lambda: live.seen.running == 0)
            assert (await live.end(named("second"))).outcome is Outcome.DONE
            assert live.seen.tiers == ["resident", "resident"]

    asyncio.run(main())


def test_an_announced_tail_finds_its_worker_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with fleet(tmp_path, least=0) as live:
            live.runtime.announce(SEGMENT, 0.0)
            await live.until(lambda: len(live.pids()) == 1)

    asyncio.run(main())


def test_a_zygote_that_is_killed_is_replaced(tmp_path: Path) -> None:
    async def main() -> None:
        async with fleet(tmp_path) as live:
            launcher = live.runtime._launchers[GROUP]
            os.kill(launcher._zygote.pid, signal.SIGKILL)  # type: ignore[attr-defined]
            killed = set(live.pids())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            # Both at once: a request that meets one and then the other has had its second chance.
            await live.until(lambda: not killed & set(live.pids()))
            assert (await live.end(named("on"))).outcome is Outcome.DONE
            await live.until(lambda: len(live.pids()) == 2)
            assert "on_disk" in live.seen.tiers

    asyncio.run(main())
