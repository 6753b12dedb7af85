"""What runs where, as an operator set it: models, and the runtime under them."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headtail_cloud.config import CloudConfig
from headtail_cloud.core.engine import Engine
from headtail_cloud.dispatch.group import GroupPlan, Key
from headtail_cloud.engines.catalogue import Catalogue
from headtail_cloud.engines.joint import JointEngine
from headtail_cloud.engines.llm.served_text import ServedText
from headtail_cloud.engines.loading import describe_tails, load_tails
from headtail_cloud.engines.served_tail import ServedTail, TailModel
from headtail_cloud.engines.tail import TailEngine
from headtail_cloud.instances.autoscaler import ScalingOptions
from headtail_cloud.instances.ladder import Tier
from headtail_cloud.runtime.engine_spec import EngineSpec
from headtail_cloud.runtime.fleet import FleetRuntime, LiveGroup
from headtail_cloud.runtime.in_process import InProcessRuntime
from headtail_cloud.runtime.launcher import PreparedLauncher, ProcessLauncher
from headtail_cloud.runtime.serving import Runtime, Watcher
from headtail_fabric.clock import Clock

if TYPE_CHECKING:
    from headtail_cloud.runtime.ray_cluster import RayCluster

_TAIL_ENGINE: Final = "headtail_cloud.engines.loading:tail_engine"
_LLM_ENGINE: Final = "headtail_cloud.engines.llm.loading:llm_engine"

_Launch = Callable[[EngineSpec], PreparedLauncher]
"""What starts instances of an engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """Models, and what runs them."""

    models: Sequence[TailModel]
    runtime: Runtime
    texts: ServedText | None = None


async def assemble(
    config: CloudConfig, shares: dict[str, float], *, watcher: Watcher, clock: Clock
) -> Assembled:
    """Load everything. Raises what `load_tails` does, WorkerStartError, and NoClusterError."""
    match config.runtime:
        case "process":
            return await _in_workers(config, shares, watcher, clock, _processes(config, clock))
        case "ray":
            return await _on_ray(config, shares, watcher, clock)
    started_at = clock.now()
    tails, engine, texts = await asyncio.to_thread(_loaded, config)
    watcher.started(Tier.ON_DISK.name.lower(), clock.now() - started_at)
    runtime = InProcessRuntime(
        engine, options=config.scheduling(shares), watcher=watcher, clock=clock
    )
    return Assembled(models=tails, runtime=runtime, texts=texts)


def _loaded(config: CloudConfig) -> tuple[list[ServedTail], Engine, ServedText | None]:
    """One engine for all that is served."""
    threads = config.threads or len(os.sched_getaffinity(0))
    tails = (
        load_tails(
            config.models,
            trusted=config.trusted,
            cache_dir=config.cache_dir,
            threads=threads,
        )
        if config.models
        else []
    )
    tail_engine = TailEngine(tails, max_batch=config.max_batch)
    if not config.llm:
        return tails, tail_engine, None
    # It needs the extra `llm`.
    from headtail_cloud.engines.llm.loading import load_llm

    llm, texts = load_llm(
        config.llm,
        adapters=config.llm_adapters,
        cache_dir=config.cache_dir,
        kv_mb=config.llm_cache_mb,
        max_batch=config.max_batch,
        packed=config.llm_packed,
    )
    return tails, JointEngine(tail_engine, llm) if tails else llm, texts


def _processes(config: CloudConfig, clock: Clock) -> _Launch:
    def launch(spec: EngineSpec) -> PreparedLauncher:
        return ProcessLauncher(
            spec, zygote=config.zygote, step_limit_s=config.step_limit_s, clock=clock
        )

    return launch


async def _on_ray(
    config: CloudConfig, shares: dict[str, float], watcher: Watcher, clock: Clock
) -> Assembled:
    cluster, launch = await asyncio.to_thread(_actors, config, clock)
    _take_sigterm_back()
    try:
        return await _in_workers(config, shares, watcher, clock, launch)
    finally:
        # From here on those that start instances hold it, if all went well.
        await asyncio.to_thread(cluster.release)


def _take_sigterm_back() -> None:
    """Ray's native code puts itself in front of Python's handler, to print a stack when the process
    is told to stop; with it, 2.60 aborts when the process ends."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


def _actors(config: CloudConfig, clock: Clock) -> "tuple[RayCluster, _Launch]":
    # They need the extra `cloud-ray`.
    from headtail_cloud.runtime.ray_cluster import RayCluster
    from headtail_cloud.runtime.ray_launcher import RayLauncher

    cluster = RayCluster(config.ray.address)

    def launch(spec: EngineSpec) -> PreparedLauncher:
        return RayLauncher(spec, cluster, config.ray, step_limit_s=config.step_limit_s, clock=clock)

    return cluster, launch


async def _in_workers(
    config: CloudConfig,
    shares: dict[str, float],
    watcher: Watcher,
    clock: Clock,
    launch: _Launch,
) -> Assembled:
    """A group of instances for each bundle, and one for the language model: head, tail and every
    cut of a network share their processes, and go to zero together."""
    models: list[TailModel] = []
    groups: list[LiveGroup] = []
    try:
        for reference in dict.fromkeys(config.models):
            described = await asyncio.to_thread(
                describe_tails, [reference], trusted=config.trusted, cache_dir=config.cache_dir
            )
            fresh = [model for model in described if model.segment not in _served(groups)]
            if fresh:
                serves = frozenset(model.segment for model in fresh)
                launcher = launch(_tail_spec(reference, config))
                groups.append(await _group(reference, launcher, serves, config))
            models += fresh
        tails = Catalogue(models).tails if models else ()
        texts = await asyncio.to_thread(_described_llm, config) if config.llm else None
        if texts is not None:
            names = frozenset(texts.names)
            groups.append(
                await _group(
                    config.llm,
                    launch(_llm_spec(config)),
                    names,
                    config,
                    prefills=min(config.prefill_workers, config.workers - 1),
                )
            )
    except BaseException:
        for group in groups:
            group.launcher.close()
        raise
    runtime = FleetRuntime(groups, options=config.scheduling(shares), watcher=watcher, clock=clock)
    return Assembled(models=tails, runtime=runtime, texts=texts)


def _described_llm(config: CloudConfig) -> ServedText:
    # It needs the extra `llm`.
    from headtail_cloud.engines.llm.loading import describe_llm

    return describe_llm(config.llm, adapters=config.llm_adapters, cache_dir=config.cache_dir)


def _tail_spec(reference: str, config: CloudConfig) -> EngineSpec:
    return EngineSpec(
        factory=_TAIL_ENGINE,
        options={
            "models": [reference],
            "max_batch": config.max_batch,
            "trusted": [str(Path(path).absolute()) for path in config.trusted],
            "cache_dir": _cache_of(config),
        },
    )


def _llm_spec(config: CloudConfig) -> EngineSpec:
    return EngineSpec(
        factory=_LLM_ENGINE,
        options={
            "model": config.llm,
            "adapters": {name: str(path.absolute()) for name, path in config.llm_adapters.items()},
            "cache_dir": _cache_of(config),
            "kv_mb": config.llm_cache_mb,
            "max_batch": config.max_batch,
        },
    )


def _cache_of(config: CloudConfig) -> str | None:
    return str(config.cache_dir.absolute()) if config.cache_dir else None


async def _group(
    reference: str,
    launcher: PreparedLauncher,
    serves: frozenset[Key],
    config: CloudConfig,
    *,
    prefills: int = 0,
) -> LiveGroup:
    try:
        profile = await asyncio.to_thread(launcher.prepare)
    except BaseException:
        launcher.close()
        raise
    plan = GroupPlan(
        name=reference,
        serves=serves,
        capacity=profile.capacity,
        estimate=profile.estimate,
        scaling=ScalingOptions(
            # One that only reads prompts is of use beside one that writes on.
            least=max(config.least_workers, prefills + 1 if prefills else 0),
            most=config.workers,
            target=config.requests_per_worker,
            stable_s=config.stable_s,
        ),
        keep_alive_s=config.keep_alive_s,
        tier=launcher.tier,
        prefills=prefills,
    )
    return LiveGroup(plan=plan, launcher=launcher)


def _served(groups: Sequence[LiveGroup]) -> frozenset[object]:
    return frozenset(key for group in groups for key in group.plan.serves)
