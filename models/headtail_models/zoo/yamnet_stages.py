"""YAMNet's stages as files that share one file of weights: the whole, and its plain cuts.

cut Ln      patch -> L1 .. Ln ~> Ln+1 .. logits
"""

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from headtail_models.bundle.manifest import Segment, StageEntry, TensorSpec
from headtail_models.splitting.model import OnnxModel, open_model
from headtail_models.splitting.weights import WEIGHTS
from headtail_models.zoo.yamnet_graph import graph, layer_name
from headtail_models.zoo.yamnet_layers import Yamnet


@dataclass(frozen=True, slots=True, kw_only=True)
class CutStages:
    """Both sides of a cut, and the way to the next one, if there is one."""

    head: StageEntry
    tail: StageEntry
    segment: Segment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class YamnetStages:
    """`cuts` by the name of the tensor that crosses, in the order that was asked for."""

    full: StageEntry
    cuts: Mapping[str, CutStages]


def write_stages(network: Yamnet, folder: Path, after: Iterable[int]) -> YamnetStages:
    """Write the whole, both sides of a cut after each of those layers (1 to 14, rising), the
    segments between them, and `weights.bin` into `folder`. The same network gives the same bytes.

    Raises what `open_model` does.
    """
    with tempfile.TemporaryDirectory(prefix="headtail-yamnet-") as work:
        source, parts = Path(work) / "yamnet.onnx", Path(work) / "parts"
        source.write_bytes(graph(network).SerializeToString(deterministic=True))
        parts.mkdir()
        model = open_model(source, parts)
        (folder / WEIGHTS).write_bytes((parts / WEIGHTS).read_bytes())
    whole, places = network.macs(after=0, until=None), tuple(after)
    return YamnetStages(
        full=_write(folder / "full.onnx", model.whole(), whole),
        cuts={
            layer_name(number): _cut(model, network, number, following, folder)
            for number, following in zip_longest(places, places[1:])
        },
    )


def _cut(
    model: OnnxModel, network: Yamnet, number: int, following: int | None, folder: Path
) -> CutStages:
    name = layer_name(number)
    split = model.split(model.cut_at(name))
    segment = None
    if following is not None:
        until = layer_name(following)
        segment = Segment(
            until=until,
            stage=_write(
                folder / f"segment-{name}.onnx",
                model.segment(split.cut, model.cut_at(until)),
                network.macs(after=number, until=following),
            ),
        )
    before = network.macs(after=0, until=number)
    after = network.macs(after=number, until=None)
    return CutStages(
        head=_write(folder / f"head-{name}.onnx", split.head, before),
        tail=_write(folder / f"tail-{name}.onnx", split.tail, after),
        segment=segment,
    )


def _write(path: Path, proto: Any, macs: int) -> StageEntry:
    path.write_bytes(proto.SerializeToString(deterministic=True))
    return StageEntry(
        file=path.name,
        inputs=_specs(proto.graph.input),
        outputs=_specs(proto.graph.output),
        macs=macs,
    )


def _specs(infos: Iterable[Any]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(
            name=info.name,
            dtype="float32",
            shape=tuple(axis.dim_value for axis in info.type.tensor_type.shape.dim[1:]),
        )
        for info in infos
    )
