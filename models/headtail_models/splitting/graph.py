"""A model's graph as plain data: which node reads and writes what, and which of them do work.

Three kinds of nodes:

    work      computes from what the inputs hold; the only kind that a cut places on one side
    shape     computes from the inputs' shapes alone; cheap, so both sides may have it
    constant  computes from no input at all; both sides may have it

A node with a body (If, Loop, Scan) is one node. What its bodies read from outside counts as input.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final

import onnx.inliner

from headtail_fabric.logs import printable
from headtail_models.splitting.errors import MalformedGraphError

_SHAPE_READERS: Final = frozenset({"Shape", "Size"})
_RANDOM: Final = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
_DEFAULT_DOMAINS: Final = ("", "ai.onnx")


class Kind(Enum):
    """What a node computes from."""

    WORK = "work"
    SHAPE = "shape"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node of the graph. `index` is its place in `ModelProto.graph.node`.

    `label` is unique in the graph; it is the node's own name where that is.
    """

    index: int
    label: str
    op: str
    kind: Kind
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    inner_nodes: int = 0

    @property
    def reads_shape(self) -> bool:
        """Whether it depends on its input's shape only."""
        return self.op in _SHAPE_READERS


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The live nodes, each behind what it reads; nodes that no output depends on are left out."""

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    initialisers: frozenset[str]

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """The node that writes each tensor."""
        return {name: node for node in self.nodes for name in node.outputs}

    @cached_property
    def work(self) -> tuple[Node, ...]:
        """The nodes that a cut divides, in order."""
        return tuple(node for node in self.nodes if node.kind is Kind.WORK)


def normalise(model: Any) -> Any:
    """The model without local functions, inputs that have a value already, or two nodes of a name.

    An input with an initialiser (usual up to IR 3) becomes a constant. ONNX Runtime refuses names
    that come twice. Raises MalformedGraphError.
    """
    if model.functions:
        try:
            model = onnx.inliner.inline_local_functions(model)
        except (RuntimeError, ValueError) as error:
            raise MalformedGraphError(f"functions can't be inlined: {error}") from None
    graph = model.graph
    given = {tensor.name for tensor in graph.initializer} | {
        sparse.values.name for sparse in graph.sparse_initializer
    }
    kept = [one for one in graph.input if one.name not in given]
    del graph.input[:]
    graph.input.extend(kept)
    for node, label in zip(graph.node, _labels(graph.node), strict=True):
        node.name = label
    return model


def graph_of(model: Any) -> Graph:
    """The graph of a normalised model. Raises MalformedGraphError."""
    proto = model.graph
    initialisers = frozenset(tensor.name for tensor in proto.initializer) | {
        sparse.values.name for sparse in proto.sparse_initializer
    }
    inputs = tuple(one.name for one in proto.input)
    outputs = tuple(dict.fromkeys(one.name for one in proto.output))
    reads = [tuple(_reads(node)) for node in proto.node]
    kinds: dict[str, Kind] = dict.fromkeys(initialisers, Kind.CONSTANT)
    kinds.update((name, Kind.WORK) for name in inputs)
    nodes = []
    for index in _sorted(proto.node, reads, set(inputs) | initialisers):
        node = proto.node[index]
        kind = _kind(node, {kinds[name] for name in reads[index]})
        written = tuple(name for name in node.output if name)
        kinds.update((name, kind) for name in written)
        nodes.append(
            Node(
                index=index,
                label=node.name,
                op=_op(node),
                kind=kind,
                inputs=reads[index],
                outputs=written,
                inner_nodes=sum(len(body.node) for body in _bodies(node)),
            )
        )
    for name in outputs:
        if name not in kinds:
            raise MalformedGraphError(f"no node writes the output {printable(name)!r}")
    return Graph(
        nodes=_live(nodes, outputs), inputs=inputs, outputs=outputs, initialisers=initialisers
    )


def _op(node: Any) -> str:
    if node.domain in _DEFAULT_DOMAINS:
        return str(node.op_type)
    return f"{node.domain}.{node.op_type}"


def _labels(nodes: Any) -> list[str]:
    """Names that tell the nodes apart: many exporters leave them out or repeat them."""
    seen: set[str] = set()
    labels = []
    for index, node in enumerate(nodes):
        label = node.name or f"{node.op_type}_{index}"
        if label in seen:
            label = f"{label}#{index}"
        seen.add(label)
        labels.append(label)
    return labels


def _bodies(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def _reads(node: Any) -> Iterator[str]:
    """What a node reads, each once: its inputs and what its bodies capture."""
    names = dict.fromkeys(name for name in node.input if name)
    for body in _bodies(node):
        names.update(dict.fromkeys(captures(body)))
    yield from names


def captures(body: Any) -> Iterator[str]:
    """The tensors that the body of a node takes from the scopes around it."""
    own = {one.name for one in body.input} | {tensor.name for tensor in body.initializer}
    own.update(sparse.values.name for sparse in body.sparse_initializer)
    for node in body.node:
        yield from (name for name in _reads(node) if name not in own)
        own.update(node.output)
    yield from (one.name for one in body.output if one.name not in own)


def _kind(node: Any, sources: set[Kind]) -> Kind:
    if any(True for _ in _bodies(node)) or _op(node) in _RANDOM:
        return Kind.WORK
    if sources <= {Kind.CONSTANT}:
        return Kind.CONSTANT
    if _op(node) in _SHAPE_READERS or sources <= {Kind.CONSTANT, Kind.SHAPE}:
        return Kind.SHAPE
    return Kind.WORK


def _sorted(nodes: Any, reads: list[tuple[str, ...]], known: set[str]) -> list[int]:
    """The order of the file, save that a node never comes before what it reads."""
    writers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.output:
            if name and (name in writers or name in known):
                raise MalformedGraphError(f"two nodes write {printable(name)!r}")
            writers[name] = index
    order: list[int] = []
    done: set[int] = set()
    for start in range(len(nodes)):
        pending, waiting = [start], set()
        while pending:
            index = pending[-1]
            if index in done:
                pending.pop()
                continue
            missing = []
            for name in reads[index]:
                if name in known:
                    continue
                if name not in writers:
                    raise MalformedGraphError(
                        f"node {printable(nodes[index].name)!r} reads {printable(name)!r}, which "
                        "nothing writes"
                    )
                if writers[name] not in done:
                    missing.append(writers[name])
            if not missing:
                done.add(index)
                order.append(index)
                pending.pop()
            elif index in waiting:
                raise MalformedGraphError(f"node {printable(nodes[index].name)!r} waits for itself")
            else:
                waiting.add(index)
                pending.extend(reversed(missing))
    return order


def _live(nodes: list[Node], outputs: tuple[str, ...]) -> tuple[Node, ...]:
    needed = set(outputs)
    kept = []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    return tuple(reversed(kept))
