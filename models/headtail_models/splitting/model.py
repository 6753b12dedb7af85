"""An ONNX model laid open: its graph, its tensors, its cuts, and parts of it that run.

    open_model -> read, gather the weights, normalise, bind free axes, take the census
    OnnxModel  -> cuts, obstacles, split, verify

The weights lie once in a working folder; parts are small files beside them.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from headtail_fabric.codec.base import Array
from headtail_models.splitting.agreement import Agreement, agreement_by_frame, compare
from headtail_models.splitting.cuts import MAX_CROSSING, Cut, CutFinder, Obstacle
from headtail_models.splitting.errors import RefusedModelError
from headtail_models.splitting.graph import Graph, Kind, graph_of, normalise
from headtail_models.splitting.inputs import (
    InputSpec,
    Shapes,
    bind,
    free_first_axes,
    input_specs,
    random_inputs,
)
from headtail_models.splitting.macs import MacCounter
from headtail_models.splitting.read import read_model
from headtail_models.splitting.runtime import Part
from headtail_models.splitting.slicing import Slicer
from headtail_models.splitting.tensors import SEVERAL, Census, take_census
from headtail_models.splitting.weights import WEIGHTS, gather_weights

FULL: Final = "full.onnx"
HEAD: Final = "head.onnx"
TAIL: Final = "tail.onnx"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Both parts of a cut as `onnx.ModelProto`, their weights in the working folder."""

    cut: Cut
    head: Any
    tail: Any


@dataclass(frozen=True, kw_only=True)
class OnnxModel:
    """A model that can be cut. `proto` has its batch axis free where the model had.

    `folder` holds `weights.bin` and whatever parts are written there. `sha256`: of the file that
    was opened.
    """

    proto: Any
    graph: Graph
    specs: tuple[InputSpec, ...]
    census: Census
    folder: Path
    sha256: str

    def cuts(self, *, max_crossing: int = MAX_CROSSING) -> tuple[Cut, ...]:
        """Every cut with at most that many tensors crossing, the smallest head first."""
        return self._finder(max_crossing).cuts()

    def obstacles(
        self, cuts: Collection[Cut], *, max_crossing: int = MAX_CROSSING
    ) -> tuple[Obstacle, ...]:
        """Nodes behind which none of the `cuts` lies, and why."""
        return self._finder(max_crossing).obstacles(cuts)

    def cut_at(self, *names: str) -> Cut:
        """Raises UnknownTensorError, NotACutError."""
        return self._finder(len(names) + MAX_CROSSING).cut_at(names)

    def whole(self) -> Any:
        """The model as `onnx.ModelProto`, its weights in the working folder."""
        return self._slicer.whole()

    @property
    def macs(self) -> MacCounter:
        """Multiply-adds of its nodes."""
        return MacCounter(model=self.proto, graph=self.graph, tensors=self.census.tensors)

    def split(self, cut: Cut) -> Split:
        """Head and tail of a cut. Nothing is written and nothing is run."""
        slicer = self._slicer
        return Split(cut=cut, head=slicer.head(cut), tail=slicer.tail(cut))

    def segment(self, cut: Cut, until: Cut) -> Any:
        """What leads from `cut` to a later one, whose head holds all of this one's, as
        `onnx.ModelProto`."""
        return self._slicer.segment(cut, until)

    def verify(self, split: Split, samples: Sequence[Mapping[str, Array]] = ()) -> Agreement:
        """Run head, then tail, against the whole on random inputs and on `samples`.

        Raises UnequalError, RefusedModelError.
        """
        whole = self.load(self.proto, FULL)
        head, tail = self.load(split.head, HEAD), self.load(split.tail, TAIL)
        drawn = [
            random_inputs(self.specs, batch=batch, seed=batch) for batch in self.census.batches
        ]
        return compare(whole, head, tail, [*drawn, *samples])

    def load(self, proto: Any, name: str) -> Part:
        """Write a part of the model into the working folder and load it with one thread.

        Raises RefusedModelError.
        """
        path = self.folder / name
        path.write_bytes(proto.SerializeToString(deterministic=True))
        return Part(path)

    def _finder(self, max_crossing: int) -> CutFinder:
        return CutFinder(graph=self.graph, tensors=self.census.tensors, max_crossing=max_crossing)

    @cached_property
    def _slicer(self) -> Slicer:
        return Slicer(model=self.proto, graph=self.graph, tensors=self.census.tensors)


def open_model(
    path: Path, folder: Path, *, shapes: Shapes | None = None, free_batch: bool = False
) -> OnnxModel:
    """Open the ONNX file `path`; `folder` is empty and becomes its working folder.

    `shapes` sizes inputs with free axes. The first axis of an input counts frames where it is free,
    and stays so. `free_batch` frees it where it is fixed at 1, which does not go well with every
    model: see `census.batches` and `check_freed`. Raises NotOnnxError, NewerModelError,
    ExternalDataError, MalformedGraphError, FreeAxisError, UnknownTensorError, RefusedModelError,
    ConfigError.
    """
    proto = read_model(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    proto = normalise(proto)
    gather_weights(proto, path.parent, folder / WEIGHTS)
    graph = graph_of(proto)
    if free_batch:
        free_first_axes(proto)
    specs = input_specs(proto, shapes or {})
    bound = bind(proto, specs, None)
    try:
        census = take_census(bound, specs, _wanted(graph), folder)
    except RefusedModelError:
        # One branch of an If may contradict the size that the other one wants: leave it open.
        bound = proto
        census = take_census(proto, specs, _wanted(graph), folder, sized=False)
    return OnnxModel(
        proto=bound,
        graph=graph,
        specs=specs,
        census=census,
        folder=folder,
        sha256=digest,
    )


def check_freed(freed: OnnxModel, fixed: OnnxModel) -> Agreement:
    """Hold a model whose batch axis was freed against itself as it was, frame by frame.

    Raises UnequalError, RefusedModelError.
    """
    many = random_inputs(freed.specs, batch=SEVERAL, seed=SEVERAL)
    together = freed.load(freed.proto, FULL).run(many)
    alone = fixed.load(fixed.proto, FULL)
    return agreement_by_frame(together, alone, many)


def _wanted(graph: Graph) -> tuple[str, ...]:
    """What might cross, or tell the shape of what does."""
    made = (
        name
        for node in graph.nodes
        if node.kind is Kind.WORK or (node.kind is Kind.SHAPE and node.reads_shape)
        for name in node.outputs
    )
    return (*graph.inputs, *made)
