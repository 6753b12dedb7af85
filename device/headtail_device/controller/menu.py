"""What a bundle offers: every placement that its manifest and the measurements know."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headtail_device.controller.costs import StageCosts, WayCost
from headtail_device.controller.option import Option
from headtail_device.placement import Local, Offload, Remote, Split, way_name
from headtail_models.bundle.cut_rules import OFF
from headtail_models.bundle.manifest import Cut, Filter, Manifest
from headtail_models.head_chain import GateSettings

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


def pictures_of(manifest: Manifest) -> dict[Offload, float]:
    """The picture codecs whose drop the bundle knows."""
    return {Offload(codec=one.codec, quality=one.quality): one.drop for one in manifest.pictures}


def drop_of(manifest: Manifest, remote: Remote, pictures: Mapping[Offload, float]) -> float:
    """The accuracy that the whole model has more than a way to the edge, without exits; 0 where
    nobody has measured it."""
    if isinstance(remote, Offload):
        return pictures.get(remote, 0.0)
    cut = manifest.cut(remote.cut)
    measured = () if cut is None else cut.measured
    return next((one.drop for one in measured if one.codec == remote.codec), 0.0)


def menu(
    manifest: Manifest,
    costs: StageCosts,
    remotes: Iterable[Remote],
    pictures: Mapping[Offload, float],
    *,
    gates: GateSettings | None = None,
) -> tuple[Option, ...]:
    """Local, and an option for each of `remotes` that `costs` has; `pictures` gives the drop of
    sending the picture, by way.

    A cut with exits gives one option an operating point, and one without them, or only what `gates`
    asks for if it names one. The edge's times are a guess from the multiply-adds, to be corrected
    by what its answers tell.
    """
    gates = gates or GateSettings()
    second_a_mac = min(costs.local_s / max(manifest.full.macs, 1), 1 / EDGE_MACS_S)
    options = [
        Option(
            placement=Local(degraded=False),
            device_s=costs.local_s,
            device_macs=manifest.full.macs,
        )
    ]
    for remote in remotes:
        cost = costs.ways.get(way_name(remote))
        if cost is None:
            continue
        drop = drop_of(manifest, remote, pictures)
        if isinstance(remote, Offload):
            server_s = manifest.full.macs * second_a_mac
            options.append(_option(remote, cost, server_s=server_s, drop=drop))
            continue
        cut = manifest.cut(remote.cut)
        assert cut is not None, "ways come from the manifest"
        server_s = cut.tail.macs * second_a_mac
        options.extend(_of_cut(remote, cut, cost, server_s=server_s, drop=drop, gates=gates))
    return tuple(options)


def undominated(options: Iterable[Option]) -> tuple[Option, ...]:
    """Without those that another one is at least as good as in every cost, whatever the link."""
    kept: list[Option] = []
    for option in sorted(options, key=_costs):
        if not any(_dominates(other, option) for other in kept):
            kept.append(option)
    return tuple(kept)


def _costs(option: Option) -> tuple[float, ...]:
    return (
        option.gates_s + option.device_s,
        option.gates_s,
        option.server_s,
        option.payload_bytes,
        option.drop,
        -option.coverage,
        option.gates_macs + option.device_macs,
        option.gates_macs,
    )


def _dominates(one: Option, other: Option) -> bool:
    """A local option is judged by the device alone and so dominates by chance: it stays out."""
    if not one.needs_edge or not other.needs_edge:
        return False
    return all(mine <= theirs for mine, theirs in zip(_costs(one), _costs(other), strict=True))


def _of_cut(
    remote: Split, cut: Cut, cost: WayCost, *, server_s: float, drop: float, gates: GateSettings
) -> Iterator[Option]:
    filters = [gate for gate in cut.gates if isinstance(gate, Filter)]
    exits = cut.exits()
    filtered = sum(gate.dropped or 0.0 for gate in filters) if gates.filter else 0.0
    unfiltered_macs = 0 if gates.filter else sum(gate.branch.macs for gate in filters)
    for name in _points(cut, gates):
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
            gates_macs=cut.device_macs - cut.head.macs - unused_macs - unfiltered_macs,
            device_macs=cut.head.macs,
        )


def _points(cut: Cut, gates: GateSettings) -> list[str]:
    exits = cut.exits()
    if not exits:
        return [""]
    if gates.exit_point:
        return [gates.exit_point]
    return [*(point.name for point in exits[0].points), OFF]


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
