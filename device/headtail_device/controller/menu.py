"""What a bundle offers: every placement that its manifest and the measurements know."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headtail_device.controller.costs import StageCosts, WayCost
from headtail_device.controller.option import Option, way_name
from headtail_device.placement import Local, Offload, Remote, Split
from headtail_models.bundle.cut_rules import OFF
from headtail_models.bundle.manifest import Cut, Filter, Manifest

RAW: Final = "raw"
PACKED: Final = "+zstd"

EDGE_MACS_S: Final = 20e9
"""How fast an edge is taken to be until it has answered, unless the device is faster: about a core
of a server."""


def ways(manifest: Manifest, pictures: Iterable[Offload] = ()) -> tuple[Remote, ...]:
    """The remote ways whose accuracy is known: each cut in each codec that was measured on a
    held-out split, and the picture codecs given.

    Of two codecs that differ in their packing alone, the packed one; a raw tensor, which loses
    nothing and takes several times the bytes, only where nothing else was measured.
    """
    return (
        *(Split(cut=cut.name, codec=codec) for cut in manifest.cuts for codec in _codecs(cut)),
        *pictures,
    )


def menu(
    manifest: Manifest, costs: StageCosts, pictures: Mapping[Offload, float] | None = None
) -> tuple[Option, ...]:
    """Every option that `costs` has; `pictures` gives the drop of sending the picture, by way.

    A cut with exits gives one option an operating point, and one without them. The edge's times are
    a guess from the multiply-adds, to be corrected by what its answers tell.
    """
    pictures = pictures or {}
    second_a_mac = min(costs.local_s / max(manifest.full.macs, 1), 1 / EDGE_MACS_S)
    options = [
        Option(
            placement=Local(degraded=False),
            device_s=costs.local_s,
            device_macs=manifest.full.macs,
        )
    ]
    for remote in ways(manifest, pictures):
        cost = costs.ways.get(way_name(remote))
        if cost is None:
            continue
        if isinstance(remote, Offload):
            server_s = manifest.full.macs * second_a_mac
            options.append(_option(remote, cost, server_s=server_s, drop=pictures[remote]))
            continue
        cut = manifest.cut(remote.cut)
        assert cut is not None, "ways come from the manifest"
        options.extend(_of_cut(remote, cut, cost, cut.tail.macs * second_a_mac))
    return tuple(options)


def _of_cut(remote: Split, cut: Cut, cost: WayCost, server_s: float) -> Iterator[Option]:
    drop = next((one.drop for one in cut.measured if one.codec == remote.codec), 0.0)
    gates_macs = cut.device_macs - cut.head.macs
    filtered = sum(gate.dropped or 0.0 for gate in cut.gates if isinstance(gate, Filter))
    exits = cut.exits()
    for name in [*(point.name for point in exits[0].points), OFF] if exits else [""]:
        points = [point for one in exits if (point := one.point(name)) is not None]
        leaving = min(sum(point.coverage for point in points), 1.0)
        unused_macs = sum(one.branch.macs for one in exits) if name == OFF else 0
        yield _option(
            remote,
            cost,
            server_s=server_s,
            drop=sum(point.coverage * point.drop for point in points) + (1 - leaving) * drop,
            point=name,
            coverage=min(leaving + filtered, 1.0),
            gates_macs=gates_macs - unused_macs,
            device_macs=cut.head.macs,
        )


def _option(
    remote: Remote,
    cost: WayCost,
    *,
    server_s: float,
    drop: float,
    point: str = "",
    coverage: float = 0.0,
    gates_macs: int = 0,
    device_macs: int = 0,
) -> Option:
    gates_s = 0.0
    if gates_macs:
        # Gates and head are measured together, and divided by their multiply-adds.
        gates_s = cost.prepare_s + cost.compute_s * gates_macs / (gates_macs + device_macs)
    return Option(
        placement=remote,
        point=point,
        coverage=coverage,
        drop=drop,
        gates_s=gates_s,
        device_s=cost.prepare_s + cost.compute_s + cost.encode_s - gates_s,
        server_s=server_s,
        payload_bytes=cost.payload_bytes,
        payload_deviation_bytes=cost.payload_deviation_bytes,
        gates_macs=gates_macs,
        device_macs=device_macs,
    )


def _codecs(cut: Cut) -> list[str]:
    measured = {one.codec for one in cut.measured}
    known = [codec for codec in cut.codecs if codec in measured]
    if not known:
        known = [codec for codec in cut.codecs if codec.partition(PACKED)[0] == RAW]
    return [codec for codec in known if codec + PACKED not in known]
