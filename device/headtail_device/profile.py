"""What every way costs on this very device: measured at its first start, and kept."""

import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

import msgspec

from headtail_device.controller import (
    StageCosts,
    WayCost,
    measure_remote,
    measure_whole,
)
from headtail_device.controller.costs import Measurable
from headtail_device.cost_store import CostStore
from headtail_device.placement import LOCAL, Offload, Remote, Split, way_name
from headtail_device.source.frame import Frame, Source
from headtail_fabric.clock import Clock
from headtail_fabric.errors import HeadtailError
from headtail_fabric.logs import fields
from headtail_models.bundle.manifest import Manifest
from headtail_models.task import Frame as Data

log = logging.getLogger(__name__)

_FRAMES: Final = 4
_EVERY: Final = 8


def profile(
    head: Measurable,
    manifest: Manifest,
    remotes: Sequence[Remote],
    frames: Sequence[Data],
    *,
    clock: Clock,
    store: CostStore | None,
) -> StageCosts:
    """Of local, and of those ways. Cuts are looked up in `store`; pictures, whose size is that of
    the source's, are measured each time. How many bytes a cut has the bundle says, where it knows.
    Raises what `head` raises."""
    found = store.load() if store is not None else None
    kept = {} if found is None else dict(found.ways)
    cuts = {way_name(way): way for way in remotes if isinstance(way, Split)}
    missing = [name for name in cuts if name not in kept]
    if missing or LOCAL not in kept:
        log.info("measuring what this device takes", extra=fields(ways=len(missing) + 1))
        if LOCAL not in kept:
            kept[LOCAL] = measure_whole(head, frames, clock)
        for name in missing:
            cost = measure_remote(head, cuts[name], frames)
            kept[name] = _sized(cost, manifest, cuts[name])
        if store is not None:
            store.save(StageCosts(ways=kept))
    pictures = [way for way in remotes if isinstance(way, Offload)]
    kept |= {way_name(way): measure_remote(head, way, frames) for way in pictures}
    return StageCosts(ways=kept)


def first_frames(open_source: Callable[[], Source]) -> list[Data]:
    """A few frames of a source that can be read again; none of one that breaks, which the run
    itself will find out."""
    try:
        with open_source() as source:
            items = islice(source, 0, _FRAMES * _EVERY, _EVERY)
            return [item.data for item in items if isinstance(item, Frame)]
    except HeadtailError:
        return []


def _sized(cost: WayCost, manifest: Manifest, way: Split) -> WayCost:
    cut = manifest.cut(way.cut)
    measured = () if cut is None else cut.measured
    known = next((one for one in measured if one.codec == way.codec), None)
    if known is None:
        return cost
    return msgspec.structs.replace(cost, payload_bytes=known.mean_bytes)
