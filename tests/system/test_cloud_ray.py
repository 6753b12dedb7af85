"""The fleet over actors of a real Ray cluster of this machine: killed in a batch and when idle,
poisoned, hung, moved from, and not to be placed. Then the server on a cluster of its own, and on
one that it joins. Nothing of Ray is left behind.

    pytest -m long tests/system/test_cloud_ray.py
"""

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import numpy as np
import pytest

from cloud_doubles import said, tail, text
from headtail_cloud.config import RayConfig
from headtail_cloud.core.actions import Outcome
from headtail_cloud.dispatch.group import GroupPlan
from headtail_cloud.engines.served_tail import TailInput
from headtail_cloud.instances.autoscaler import ScalingOptions
from headtail_cloud.open_inference.message import HEADER_LENGTH, encode_request
from headtail_cloud.runtime.engine_spec import EngineSpec
from headtail_cloud.runtime.launcher import LaunchError
from headtail_cloud.runtime.worker_process import WorkerStartError
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import noise, write_specimen
from live_fleet import GROUP, Live, live_fleet, named, running
from processes import PATIENCE_S, Headtail, free_port, wait_until
from worker_engines import SEGMENT, spec

pytest.importorskip("ray", reason="THE RAY RUNTIME IS NOT TESTED: it needs the extra `cloud-ray`")
pytestmark = [
    pytest.mark.system,
    pytest.mark.long,
    pytest.mark.timeout(600),
    # Ray's own.
    pytest.mark.filterwarnings("ignore"),
]

from headtail_cloud.runtime.ray_cluster import NoClusterError, RayCluster  # noqa: E402
from headtail_cloud.runtime.ray_launcher import RayLauncher  # noqa: E402

HALF = RayConfig(cpus=0.5)
"""A core for both: there may be no more."""
TOKEN = secrets.token_hex(32)
"""What a cluster lets in that somebody else runs."""


@contextmanager
def ray_folder() -> Iterator[str]:
    """Where a cluster of this machine keeps its files, logs of every process among them, so that
    none can be left behind unseen. Short, for sockets lie in it."""
    folder = tempfile.mkdtemp(prefix="htray", dir="/tmp")
    try:
        yield folder
        wait_until(lambda: not processes_of(folder), "the end of Ray's processes")
    finally:
        for pid in processes_of(folder):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def processes_of(folder: str, name: str = "") -> list[int]:
    """That have a file of it open, or in their command line, but for this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text()
            files = [str(fd.readlink()) for fd in (process / "fd").iterdir()]
        except OSError:  # it has ended
            continue
        if name in words and any(folder in one for one in [words, *files]):
            found.append(int(process.name))
    return [pid for pid in found if pid != os.getpid()]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with ray_folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        cluster = RayCluster()
        assert processes_of(folder)
        yield cluster
        cluster.release()


@asynccontextmanager
async def fleet(
    cluster: RayCluster, folder: Path, *, prefills: int = 0, step_limit_s: float = 60.0
) -> AsyncIterator[Live]:
    """Of two actors."""
    launcher = RayLauncher(spec(folder), cluster, HALF, step_limit_s=step_limit_s)
    profile = await asyncio.to_thread(launcher.prepare)
    plan = GroupPlan(
        name=GROUP,
        serves=frozenset({SEGMENT, "lm@1"}),
        capacity=profile.capacity,
        estimate=profile.estimate,
        scaling=ScalingOptions(least=2, most=2),
        tier=launcher.tier,
        prefills=prefills,
    )
    async with live_fleet(launcher, plan) as live:
        yield live


def test_requests_are_computed_in_actors(cluster: RayCluster, tmp_path: Path) -> None:
    async def main() -> None:
        async with fleet(cluster, tmp_path) as live:
            tensors = [np.full(10 ** (1 + n % 6), n, np.float32) for n in range(12)]
            requests = [
                tail(n, deadline_s=60.0, input=TailInput(payload=one.data, shape=one.shape))
                for n, one in enumerate(tensors)
            ]
            ends = await asyncio.gather(*(live.end(request) for request in requests))
            for tensor, end in zip(tensors, ends, strict=True):
                assert isinstance(end.output, dict)
                np.testing.assert_array_equal(end.output["echo"], tensor)
                assert int(end.output["pid"]) in set(live.pids()) - {os.getpid()}

    asyncio.run(main())


def test_an_actor_killed_in_a_batch(cluster: RayCluster, tmp_path: Path) -> None:
    """By a request that breaks it once: all of the batch is tried again, and answered."""

    async def main() -> None:
        async with fleet(cluster, tmp_path) as live:
            before = set(live.pids())
            ends = await asyncio.gather(*(live.end(named(name)) for name in ["a", "b", "once"]))
            assert [end.outcome for end in ends] == [Outcome.DONE] * 3
            assert (tmp_path / "once").exists()
            await live.until(lambda: len(live.pids()) == 2 and set(live.pids()) != before)

    asyncio.run(main())


def test_one_that_always_breaks_it_is_answered_and_others_are_unharmed(
    cluster: RayCluster, tmp_path: Path
) -> None:
    async def main() -> None:
        async with fleet(cluster, tmp_path) as live:
            names = ["a", "b", "kills", "c", "d"]
            ends = await asyncio.gather(*(live.end(named(name)) for name in names))
            outcomes = {name: end.outcome for name, end in zip(names, ends, strict=True)}
            assert outcomes.pop("kills") is Outcome.FAILED
            assert set(outcomes.values()) == {Outcome.DONE}

    asyncio.run(main())


def test_actors_killed_while_nobody_asks_are_replaced(cluster: RayCluster, tmp_path: Path) -> None:
    async def main() -> None:
        async with fleet(cluster, tmp_path) as live:
            before = set(live.pids())
            for pid in before:
                os.kill(pid, signal.SIGKILL)
            await live.until(lambda: len(set(live.pids()) - before) == 2)
            assert (await live.end(named("after"))).outcome is Outcome.DONE

    asyncio.run(main())


def test_an_actor_that_hangs_is_killed(cluster: RayCluster, tmp_path: Path) -> None:
    async def main() -> None:
        async with fleet(cluster, tmp_path, step_limit_s=1.0) as live:
            before = set(live.pids())
            assert (await live.end(named("hangs"))).outcome is Outcome.FAILED
            assert any(not running(pid) for pid in before)
            assert (await live.end(named("after"))).outcome is Outcome.DONE

    asyncio.run(main())


def test_texts_move_between_actors_while_they_are_written(
    cluster: RayCluster, tmp_path: Path
) -> None:
    async def main() -> None:
        async with fleet(cluster, tmp_path, prefills=1) as live:
            prompts = [list(range(n * 100, n * 100 + 20)) for n in range(3)]
            tokens = [live.tokens(text(n, p, max_tokens=30)) for n, p in enumerate(prompts)]
            for prompt, got in zip(prompts, await asyncio.gather(*tokens), strict=True):
                assert got == said(prompt, 30)
            assert len(live.seen.moves) == 3

    asyncio.run(main())


def test_an_engine_that_can_not_be_loaded(cluster: RayCluster) -> None:
    launcher = RayLauncher(EngineSpec(factory="worker_engines:broken"), cluster, HALF)
    with pytest.raises(WorkerStartError, match="too large"):
        launcher.prepare()
    launcher.close()
    with pytest.raises(LaunchError, match="any more"):
        launcher.launch()


def test_what_no_machine_has_room_for_is_not_waited_for(
    cluster: RayCluster, tmp_path: Path
) -> None:
    config = RayConfig(resources={"nowhere": 1.0}, start_limit_s=1.0)
    launcher = RayLauncher(spec(tmp_path), cluster, config)
    with pytest.raises(LaunchError, match="placed"):
        launcher.launch()
    launcher.close()


def test_a_second_cluster_is_refused(cluster: RayCluster, tmp_path: Path) -> None:
    """And the first one is not harmed by that."""
    with pytest.raises(NoClusterError, match="already"):
        RayCluster()
    launcher = RayLauncher(spec(tmp_path), cluster, HALF)
    assert launcher.prepare().max_batch == 4
    launcher.close()


@pytest.fixture(scope="module")
def specimen(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(write_specimen(tmp_path_factory.mktemp("ray") / "specimen"))


def serving(bundle: Bundle, *words: str | Path, **env: str) -> Headtail:
    return Headtail(
        *("cloud", "serve", "--port", "0", "--model", bundle.path, "--runtime", "ray"),
        *words,
        env=env,
    )


def answers_right(url: str, bundle: Bundle) -> None:
    """What a device's tensor becomes is what the whole network makes of its picture."""
    head, whole = (bundle.open_stage(entry) for entry in (bundle.head("early"), bundle.full()))
    (crossing,) = head.run({head.inputs[0].name: noise(1, seed=1)}).values()
    (expected,) = whole.run({whole.inputs[0].name: noise(1, seed=1)}).values()
    body, length = encode_request(bundle.cut("early").tensor.name, crossing)
    request = urllib.request.Request(
        f"{url}/v2/models/specimen:early/infer", data=body, headers={HEADER_LENGTH: str(length)}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
        got = np.frombuffer(reply.read()[int(reply.headers[HEADER_LENGTH]) :], "<f4")
    np.testing.assert_allclose(got, expected[0], atol=1e-5)


@contextmanager
def head_of_a_cluster(folder: str, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A cluster of one machine that has two tails' worth of a resource, run by somebody else."""
    words = ("start", "--head", "--block", "--port", str(port), "--temp-dir", folder)
    more = ("--num-cpus", "2", "--resources", '{"tails": 2}', "--include-dashboard", "false")
    told = Path(folder, "head.log")
    with told.open("wb") as out:
        head = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", *words, *more, "--disable-usage-stats"],
            stdout=out,
            stderr=out,
            env={**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN},
        )
    try:
        wait_until(lambda: "Ray runtime started" in told.read_text(), "a cluster")
        yield head
    finally:
        head.terminate()
        head.wait(PATIENCE_S)


def test_a_server_with_a_cluster_of_its_own(specimen: Bundle) -> None:
    with ray_folder() as folder, serving(specimen, RAY_TMPDIR=folder) as server:
        answers_right(server.ready()["url"], specimen)
        assert processes_of(folder, "EngineActor")
        assert server.terminate() == 0


def test_a_server_that_joins_a_cluster(specimen: Bundle, tmp_path: Path) -> None:
    """Its actors go where the resource is that they are told to take, and end with it; the cluster
    lives on."""
    config = tmp_path / "cloud.toml"
    config.write_text("[ray]\nresources = { tails = 1 }\n")
    port = free_port()
    with ray_folder() as folder, head_of_a_cluster(folder, port) as head:
        words = ("--config", config, "--ray", f"127.0.0.1:{port}")
        with serving(specimen, *words, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN) as server:
            answers_right(server.ready()["url"], specimen)
            assert server.terminate() == 0
        assert head.poll() is None
        wait_until(lambda: not processes_of(folder, "EngineActor"), "the end of the actors")
