"""Multiply-adds of a node for one frame, for the operators where nearly all of them are."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final

from headtail_models.splitting.graph import Graph, Node
from headtail_models.splitting.tensors import Tensor

Shape = tuple[int, ...]

_CONV: Final = {"Conv": 1, "com.microsoft.FusedConv": 1, "ConvInteger": 1, "QLinearConv": 3}
"""Which input holds the kernel."""
_PRODUCT: Final = frozenset(
    {"MatMul", "MatMulInteger", "QLinearMatMul", "com.microsoft.FusedMatMul"}
)
_NORM: Final = frozenset(
    {
        "BatchNormalization",
        "GroupNormalization",
        "InstanceNormalization",
        "LayerNormalization",
        "RMSNormalization",
    }
)
_RECURRENT: Final = frozenset({"RNN", "GRU", "LSTM"})


@dataclass(frozen=True, kw_only=True)
class MacCounter:
    """Counts by node. An element-wise operator counts nothing, a normalisation one per value."""

    model: Any
    graph: Graph
    tensors: Mapping[str, Tensor]

    @cached_property
    def by_node(self) -> Mapping[str, int]:
        """Multiply-adds of each work node, by label."""
        return {node.label: self._count(node) or 0 for node in self.graph.work}

    @cached_property
    def uncounted(self) -> tuple[str, ...]:
        """Labels of nodes that may well work hard, but how hard is not known: bodies of control
        flow, operators of other domains, shapes that are not known."""
        return tuple(node.label for node in self.graph.work if self._count(node) is None)

    def _count(self, node: Node) -> int | None:
        proto = self.model.graph.node[node.index]
        try:
            if node.op in _CONV:
                return prod(self._out(node)) * prod(self._in(proto, _CONV[node.op])[1:])
            if node.op == "ConvTranspose":
                return prod(self._in(proto, 0)) * prod(self._in(proto, 1)[1:])
            if node.op in _PRODUCT:
                return prod(self._out(node)) * self._in(proto, 0)[-1]
            if node.op == "Gemm":
                return (
                    prod(self._out(node)) * self._in(proto, 0)[0 if _flag(proto, "transA") else 1]
                )
            if node.op == "Einsum":
                return self._einsum(proto)
            if node.op in _NORM:
                return prod(self._out(node))
            if node.op in _RECURRENT:
                steps = prod(self._in(proto, 0)[:2])
                return steps * (prod(self._in(proto, 1)) + prod(self._in(proto, 2)))
        except (KeyError, IndexError):
            return None
        return None if node.inner_nodes or "." in node.op else 0

    def _out(self, node: Node) -> Shape:
        return self._shape(node.outputs[0])

    def _in(self, proto: Any, at: int) -> Shape:
        return self._shape(proto.input[at])

    def _shape(self, name: str) -> Shape:
        tensor = self.tensors.get(name)
        return tensor.shape if tensor is not None else self._constants[name]

    def _einsum(self, proto: Any) -> int | None:
        equation = next(one.s.decode() for one in proto.attribute if one.name == "equation")
        if "." in equation:
            return None
        sizes: dict[str, int] = {}
        terms = equation.replace(" ", "").partition("->")[0].split(",")
        for at, term in enumerate(terms):
            sizes.update(zip(term, self._in(proto, at), strict=False))
        return prod(sizes.values())

    @cached_property
    def _constants(self) -> Mapping[str, Shape]:
        """Shapes of initialisers and of what Constant nodes hold."""
        found = {one.name: tuple(one.dims) for one in self.model.graph.initializer}
        for node in self.model.graph.node:
            if node.op_type == "Constant":
                found.update(
                    (node.output[0], tuple(one.t.dims))
                    for one in node.attribute
                    if one.name == "value"
                )
        return found


def _flag(proto: Any, name: str) -> bool:
    return any(one.name == name and one.i for one in proto.attribute)
