"""Who decides, from the configuration."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from headtail_device.config import DeviceConfig
from headtail_device.controller import (
    Caution,
    Controller,
    Goal,
    menu,
    pictures_of,
    undominated,
    ways,
)
from headtail_device.controller.menu import drop_of
from headtail_device.cost_store import CostStore, machine_id
from headtail_device.head import HeadRunner
from headtail_device.placement import Offload, Remote, Split
from headtail_device.policy import FixedPolicy, LocalPolicy, Policy
from headtail_device.profile import first_frames, profile
from headtail_device.source.frame import Source
from headtail_device.stand_in import something
from headtail_fabric.clock import Clock
from headtail_fabric.config import cache_home
from headtail_models.bundle.manifest import Manifest
from headtail_models.head_chain import GateSettings
from headtail_models.planner.option import EnergyModel

_COSTS: Final = "costs"


def decide_by(
    config: DeviceConfig,
    manifest: Manifest,
    head: HeadRunner,
    way: Remote | None,
    *,
    gates: GateSettings,
    open_source: Callable[[], Source],
    clock: Clock,
) -> Policy:
    """The policy of `config.mode`; `way` is the configured one, None for `local`.

    For a controller the ways that it may choose are measured first, on frames of the source where
    it can be read twice. Raises what the head raises.
    """
    if way is None:
        return LocalPolicy()
    goal = config.goal
    if goal is None:
        return FixedPolicy(remote=way)
    pictures = {**pictures_of(manifest), **_given(config.controller.pictures)}
    if goal == "fixed":
        remotes: list[Remote] = [way]
        if isinstance(way, Offload):
            pictures.setdefault(way, 0.0)
    else:
        remotes = [
            one
            for one in ways(manifest, pictures)
            if drop_of(manifest, one, pictures) <= config.controller.max_drop
        ]
    store = None
    if config.controller.profile:
        machine = machine_id(threads=config.threads)
        store = CostStore(cache_home() / _COSTS, digest=head.digest, machine=machine)
    frames = first_frames(open_source) if _lies_there(config.source) else []
    frames = frames or [something(manifest)]
    costs = profile(head, manifest, remotes, frames, clock=clock, store=store)
    options = undominated(menu(manifest, costs, remotes, pictures, gates=gates))
    head.warm_up(
        ways=[one.placement for one in options if isinstance(one.placement, Split | Offload)],
        whole=True,
    )
    return Controller(
        options,
        goal=Goal(
            mode=goal,
            max_drop=config.controller.max_drop,
            seconds_a_point=config.controller.seconds_a_point,
            fixed=way if goal == "fixed" else None,
        ),
        # The runner answers here what the edge would be late with.
        caution=Caution(rescued=True),
        energy=EnergyModel(
            joules_per_mac=config.controller.joules_per_mac,
            joules_per_byte=config.controller.joules_per_byte,
            idle_w=config.controller.idle_w,
        ),
    )


def _lies_there(source: str) -> bool:
    """Whether it is a file or a folder, which can be read twice."""
    path = Path(source).expanduser()
    return path.is_file() or path.is_dir()


def _given(pictures: tuple[str, ...]) -> dict[Offload, float]:
    """`jpeg:90:0.004` and the like; the configuration has checked their form."""
    found = {}
    for text in pictures:
        codec, quality, drop = text.split(":")
        found[Offload(codec=codec, quality=int(quality))] = float(drop)
    return found
