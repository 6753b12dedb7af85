"""Head and tail of a cut, and what lies between two cuts, as ONNX models of their own.

Made here and not by `onnx.utils.extract_model`, which loses what a body of control flow captures,
fails on names without a declared type, and takes an initialiser for an input.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper

from headtail_models.splitting.cuts import Cut
from headtail_models.splitting.graph import Graph, Kind, Node, captures
from headtail_models.splitting.tensors import Tensor

BATCH: Final = "batch"
_PREFIX: Final = "headtail.shape"


@dataclass(frozen=True, kw_only=True)
class Slicer:
    """Cuts a normalised model along its graph. Parts point to the same file of weights."""

    model: Any
    graph: Graph
    tensors: Mapping[str, Tensor]

    def whole(self) -> Any:
        """The model itself, without what no output needs."""
        nodes = self._closed(self.graph.work, self.graph.outputs, given=())
        return self._part(
            "full",
            [self.model.graph.node[node.index] for node in nodes],
            inputs=[self._border(name) for name in self.graph.inputs],
            outputs=[self._border(name) for name in self.graph.outputs],
        )

    def head(self, cut: Cut) -> Any:
        """Of the inputs it needs, what crosses; then the model's outputs that it has already."""
        outputs = dict.fromkeys((*(tensor.name for tensor in cut.crossing), *cut.early))
        chosen = [node for node in self.graph.work if node.label in cut.head]
        nodes = self._closed(chosen, outputs, given=set(self.graph.inputs))
        read = {name for node in nodes for name in node.inputs}
        return self._part(
            "head",
            [self.model.graph.node[node.index] for node in nodes],
            inputs=[self._border(name) for name in self.graph.inputs if name in read],
            outputs=[self._border(name) for name in outputs],
        )

    def tail(self, cut: Cut) -> Any:
        """Of what is sent, the outputs that the head does not have."""
        outputs = [name for name in self.graph.outputs if name not in cut.early]
        chosen = [node for node in self.graph.work if node.label not in cut.head]
        return self._behind("tail", cut, chosen, outputs)

    def segment(self, cut: Cut, until: Cut) -> Any:
        """The beginning of the tail: of what is sent at `cut`, what crosses at a later one."""
        outputs = [tensor.name for tensor in until.crossing]
        chosen = [node for node in self.graph.work if node.label in until.head - cut.head]
        return self._behind("segment", cut, chosen, outputs)

    def _behind(self, name: str, cut: Cut, chosen: Sequence[Node], outputs: Sequence[str]) -> Any:
        sent = [tensor.name for tensor in cut.sent]
        nodes = self._closed(chosen, outputs, given={*sent, *cut.rebuilt})
        made = list(self._rebuilt_shapes(cut))
        return self._part(
            name,
            [*made, *(self.model.graph.node[node.index] for node in nodes)],
            inputs=[self._border(name) for name in sent],
            outputs=[self._border(name) for name in outputs],
        )

    def _closed(
        self, work: Iterable[Node], outputs: Iterable[str], *, given: Collection[str]
    ) -> list[Node]:
        """Those work nodes and the constants and shape computations that they need, in order."""
        chosen = {node.label for node in work}
        needed = set(outputs)
        kept = []
        for node in reversed(self.graph.nodes):
            shared = node.kind is not Kind.WORK and not needed.isdisjoint(node.outputs)
            if node.label in chosen or (shared and not set(node.outputs) <= set(given)):
                needed.update(node.inputs)
                kept.append(node)
        kept.reverse()
        return kept

    def _rebuilt_shapes(self, cut: Cut) -> Iterator[Any]:
        """Nodes that make the shapes of tensors that stay in the head."""
        if not cut.rebuilt:
            return
        frames = f"{_PREFIX}.frames"
        yielded = False
        for name in cut.rebuilt:
            leaf = self.graph.producers[name]
            source = self.tensors[leaf.inputs[0]]
            proto = self.model.graph.node[leaf.index]
            start, end = _slice_of(proto, len(source.shape))
            sizes = list(source.shape)[start:end]
            if start > 0 or end <= start or not source.batched:
                yield _constant(name, sizes)
                continue
            if not yielded:
                yield from self._frames(cut, frames)
                yielded = True
            rest = f"{name}.{_PREFIX}.rest"
            yield _constant(rest, sizes[1:])
            yield helper.make_node("Concat", [frames, rest], [name], axis=0)

    def _frames(self, cut: Cut, name: str) -> Iterator[Any]:
        """The number of frames, read off a tensor that crosses; int64 of shape (1,)."""
        anchor = next(one for one in cut.sent if one.counts_frames)
        yield helper.make_node("Shape", [anchor.name], [f"{name}.all"])
        yield _constant(f"{name}.first", [0])
        yield helper.make_node("Gather", [f"{name}.all", f"{name}.first"], [name], axis=0)

    def _part(
        self, name: str, nodes: Sequence[Any], *, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Any:
        whole = self.model.graph
        written = {name for node in nodes for name in node.output}
        named = {one.name for one in (*inputs, *outputs)}
        body = onnx.GraphProto(name=f"{whole.name or 'model'}-{name}")
        body.node.extend(nodes)
        body.input.extend(inputs)
        body.output.extend(outputs)
        read = {*captures_of(body), *named}
        body.initializer.extend(one for one in whole.initializer if one.name in read)
        body.sparse_initializer.extend(
            one for one in whole.sparse_initializer if one.values.name in read
        )
        body.value_info.extend(
            one for one in whole.value_info if one.name in written and one.name not in named
        )
        body.quantization_annotation.extend(
            one for one in whole.quantization_annotation if one.tensor_name in written | read
        )
        part = onnx.ModelProto(
            ir_version=self.model.ir_version,
            producer_name="headtail",
            domain=self.model.domain,
            graph=body,
        )
        part.opset_import.extend(self.model.opset_import)
        return part

    def _border(self, name: str) -> Any:
        """The declaration of a tensor by what is known of it, else the model's own."""
        tensor = self.tensors.get(name)
        if tensor is None or (name in self._declared and not tensor.proven):
            return self._declared[name]
        shape: list[int | str | None] = list(tensor.shape)
        if not tensor.proven:
            shape = [None] * len(shape)
        elif tensor.batched:
            shape[0] = BATCH if tensor.counts_frames else f"{tensor.shape[0]}*{BATCH}"
        element = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
        return helper.make_tensor_value_info(name, element, shape)

    @cached_property
    def _declared(self) -> dict[str, Any]:
        graph = self.model.graph
        return {one.name: one for one in (*graph.input, *graph.output)}


def captures_of(body: Any) -> Iterator[str]:
    """What the nodes of a graph read and it does not make: its initialisers, mostly."""
    bare = onnx.GraphProto()
    bare.node.extend(body.node)
    bare.input.extend(body.input)
    yield from captures(bare)


def _constant(name: str, sizes: Sequence[int]) -> Any:
    value = helper.make_tensor(f"{name}.value", TensorProto.INT64, [len(sizes)], sizes)
    return helper.make_node("Constant", [], [name], value=value)


def _slice_of(node: Any, rank: int) -> tuple[int, int]:
    """The axes that a Shape node tells of: opset 15 can leave some out."""
    found = {attribute.name: attribute.i for attribute in node.attribute}
    start, end = found.get("start", 0), found.get("end", rank)
    start = max(0, start + rank if start < 0 else start)
    end = min(rank, end + rank if end < 0 else end)
    return start, end
