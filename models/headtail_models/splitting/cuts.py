"""Where a graph can be cut, and what crosses there.

A cut puts every work node on one side: the head is a set of work nodes closed under what they
read. Two such sets are tried for each work node: the node with all that it depends on, and the
node with all that come before it in the model's order. The first finds each place where a single
tensor crosses; the second finds those where parallel branches cross together.

Constants and shape computations are on whichever side needs them. Where the tail needs the shape of
a tensor that stays in the head, it makes it anew from a tensor that crosses (`rebuilt`); only when
that can't be done does the shape cross as well.
"""

from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from headtail_fabric.logs import printable
from headtail_models.splitting.errors import NotACutError, UnknownTensorError
from headtail_models.splitting.graph import Graph, Kind, Node
from headtail_models.splitting.tensors import Tensor

MAX_CROSSING: Final = 3
_TOLD: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A place to cut. `head`: the labels of its work nodes.

    `crossing`: what the head computes and the tail reads. `passed`: inputs that the tail reads,
    too. `early`: outputs of the model that the head has already. `rebuilt`: shapes that the tail
    makes anew, by the tensor they belong to.
    """

    head: frozenset[str]
    crossing: tuple[Tensor, ...]
    passed: tuple[Tensor, ...] = ()
    early: tuple[str, ...] = ()
    rebuilt: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The names of the tensors that must be sent, joined by `+`."""
        return "+".join(tensor.name for tensor in self.sent)

    @property
    def sent(self) -> tuple[Tensor, ...]:
        """All that goes from the device to the server."""
        return (*self.crossing, *self.passed)

    @property
    def size_bytes(self) -> int:
        """Of what is sent for one frame, as it is."""
        return sum(tensor.size_bytes for tensor in self.sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A node behind which the model can't be cut, and why."""

    node: str
    op: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class CutFinder:
    """Finds the cuts of a graph whose tensors are known."""

    graph: Graph
    tensors: Mapping[str, Tensor]
    max_crossing: int = MAX_CROSSING

    def cuts(self) -> tuple[Cut, ...]:
        """Every cut with at most `max_crossing` tensors sent, the smallest head first."""
        found: dict[tuple[Tensor, ...], Cut] = {}
        for mask in sorted(self._candidates(), key=lambda mask: (mask.bit_count(), mask)):
            if self._frontier(mask) > self.max_crossing:
                continue
            cut = self._cut(mask)
            if isinstance(cut, Cut) and len(cut.sent) <= self.max_crossing:
                found.setdefault(cut.sent, cut)
        return tuple(found.values())

    def cut_at(self, names: Collection[str]) -> Cut:
        """The cut with the smallest head where the tensors `names` cross, and no other that a work
        node makes. `names` as `Cut.name` lists them: inputs and shapes may be left out.

        Raises UnknownTensorError, NotACutError.
        """
        mask = 0
        for name in self._work_names(names):
            mask |= self._ancestors[self._work_index(name)]
        cut = self._cut(mask)
        if isinstance(cut, Cut) and self._others(cut, names):
            # A branch that ends in an output may be in the head as well.
            cut = next((one for one in self.cuts() if self._is_at(one, names)), cut)
        if isinstance(cut, str):
            raise NotACutError(f"no cut at {_told(names)}: {cut}", names=tuple(names))
        if idle := [name for name in names if name not in {one.name for one in cut.sent}]:
            raise NotACutError(f"no cut at {_told(names)}: nothing behind reads {_told(idle)}")
        if others := self._others(cut, names):
            more = " ".join(f"--at {printable(name)}" for name in others[:_TOLD])
            raise NotACutError(
                f"no cut at {_told(names)} alone: {_told(others)} would cross, too ({more})",
                others=tuple(others),
            )
        return cut

    def _is_at(self, cut: Cut, names: Collection[str]) -> bool:
        return set(names) <= {one.name for one in cut.sent} and not self._others(cut, names)

    def _others(self, cut: Cut, names: Collection[str]) -> list[str]:
        """What a work node makes and crosses, without being named."""
        crossing = (tensor.name for tensor in cut.crossing if tensor.name not in names)
        return [name for name in crossing if self.graph.producers[name].kind is Kind.WORK]

    def _work_names(self, names: Collection[str]) -> list[str]:
        """Those of the names that a work node makes; all, when there are none."""
        producers = self.graph.producers
        made = [name for name in names if name in producers]
        work = [name for name in made if producers[name].kind is Kind.WORK]
        unknown = [name for name in names if name not in made and name not in self.graph.inputs]
        return unknown or work or list(names)

    def obstacles(self, cuts: Collection[Cut]) -> tuple[Obstacle, ...]:
        """The work nodes behind which none of the `cuts` lies, and the bodies that stay whole."""
        crossed = {tensor.name for cut in cuts for tensor in cut.crossing}
        return tuple(
            Obstacle(node=node.label, op=node.op, reason=reason)
            for at, node in enumerate(self.graph.work)
            for reason in self._reasons(at, node, crossed)
        )

    def _reasons(self, at: int, node: Node, crossed: Set[str]) -> Iterator[str]:
        if node.inner_nodes:
            yield f"control flow is kept whole: the {node.inner_nodes} nodes inside stay together"
        is_end = not any(self._readers.get(name) for name in node.outputs)
        if not is_end and not crossed & set(node.outputs):
            cut = self._cut(self._ancestors[at])
            if isinstance(cut, str):
                yield cut
            elif len(cut.sent) > self.max_crossing:
                yield f"{len(cut.sent)} tensors would cross: {_told([t.name for t in cut.sent])}"

    def _work_index(self, name: str) -> int:
        graph = self.graph
        if name in graph.inputs:
            raise NotACutError(f"{name!r} is an input: the head would be empty", name=name)
        node = graph.producers.get(name)
        if node is None and name not in graph.initialisers:
            raise UnknownTensorError(f"the model has no tensor {printable(name)!r}", name=name)
        if node is None or node.kind is Kind.CONSTANT:
            raise NotACutError(f"{name!r} is a constant: both sides have it", name=name)
        if node.kind is Kind.SHAPE:
            raise NotACutError(f"{name!r} depends on the input's shape alone", name=name)
        return self._work_at[node.label]

    @cached_property
    def _work_at(self) -> dict[str, int]:
        return {node.label: at for at, node in enumerate(self.graph.work)}

    @cached_property
    def _ancestors(self) -> list[int]:
        """For each work node, itself and all that it depends on, as bits."""
        masks: list[int] = []
        for at, node in enumerate(self.graph.work):
            mask = 1 << at
            for name in (*node.inputs, *self._shape_sources(node.inputs)):
                source = self.graph.producers.get(name)
                if source is not None and source.kind is Kind.WORK:
                    mask |= masks[self._work_at[source.label]]
            masks.append(mask)
        return masks

    @cached_property
    def _readers(self) -> dict[str, int]:
        """For each tensor, the work nodes that read what it holds, as bits."""
        masks: dict[str, int] = {}
        for at, node in enumerate(self.graph.work):
            for name in node.inputs:
                masks[name] = masks.get(name, 0) | 1 << at
        return masks

    def _frontier(self, mask: int) -> int:
        """How many work nodes of the head are read from behind: cheap, and few pass."""
        rest = ((1 << len(self.graph.work)) - 1) & ~mask
        read = 0
        for parents, bit in zip(self._parents, bin(rest)[:1:-1], strict=False):
            if bit == "1":
                read |= parents
        return (read & mask).bit_count()

    @cached_property
    def _parents(self) -> list[int]:
        """For each work node, those whose outputs it reads, as bits."""
        found = []
        for node in self.graph.work:
            sources = (self.graph.producers.get(name) for name in node.inputs)
            work = {self._work_at[one.label] for one in sources if one and one.kind is Kind.WORK}
            found.append(sum(1 << at for at in work))
        return found

    @cached_property
    def _shape_leaves(self) -> dict[str, frozenset[Node]]:
        """For each tensor made from shapes, the nodes that read those shapes off."""
        leaves: dict[str, frozenset[Node]] = {}
        for node in self.graph.nodes:
            if node.kind is Kind.SHAPE:
                source = self.graph.producers.get(node.inputs[0]) if node.inputs else None
                is_leaf = node.reads_shape and (source is None or source.kind is Kind.WORK)
                found = (
                    frozenset({node})
                    if is_leaf
                    else frozenset().union(*(leaves.get(name, frozenset()) for name in node.inputs))
                )
                leaves.update((name, found) for name in node.outputs)
        return leaves

    def _shape_sources(self, names: Collection[str]) -> Iterator[str]:
        for name in names:
            yield from (leaf.inputs[0] for leaf in self._shape_leaves.get(name, ()))

    def _candidates(self) -> set[int]:
        prefixes = {(2 << at) - 1 for at in range(len(self.graph.work))}
        return prefixes.union(self._ancestors)

    def _cut(self, mask: int) -> Cut | str:
        """The cut whose head is `mask`, or why there is none."""
        graph = self.graph
        rest = ((1 << len(graph.work)) - 1) & ~mask
        head = [node for at, node in enumerate(graph.work) if mask >> at & 1]
        made = [name for node in head for name in node.outputs]
        crossing = [name for name in made if self._readers.get(name, 0) & rest]
        passed = [name for name in graph.inputs if self._readers.get(name, 0) & rest]
        early = tuple(name for name in graph.outputs if name in set(made))
        late = [name for name in graph.outputs if name not in early]
        passed += [name for name in late if name in graph.inputs and name not in passed]
        if not rest:
            return "nothing is left for the tail"
        if not crossing:
            return "nothing behind it reads it"
        if unknown := [name for name in (*crossing, *passed) if name not in self.tensors]:
            return f"{_told(unknown)} is not a plain tensor of numbers"
        kept, rebuilt = self._shapes(rest, made, crossing, passed, late)
        if lost := [name for name in kept if name not in self.tensors]:
            return f"{_told(lost)} is not a plain tensor of numbers"
        return Cut(
            head=frozenset(node.label for node in head),
            crossing=tuple(self.tensors[name] for name in (*crossing, *kept)),
            passed=tuple(self.tensors[name] for name in passed),
            early=early,
            rebuilt=rebuilt,
        )

    def _shapes(
        self,
        rest: int,
        made: list[str],
        crossing: list[str],
        passed: list[str],
        late: list[str],
    ) -> tuple[list[str], tuple[str, ...]]:
        """Shape tensors that must cross, and those that the tail makes anew."""
        read = [
            name
            for at, node in enumerate(self.graph.work)
            if rest >> at & 1
            for name in node.inputs
        ]
        leaves = {
            leaf.label: leaf for name in (*read, *late) for leaf in self._shape_leaves.get(name, ())
        }
        here = {*crossing, *passed}
        away = {*made, *self.graph.inputs} - here
        missing = [leaf for leaf in leaves.values() if leaf.inputs[0] in away]
        anchored = any(self._is_anchor(name) for name in (*crossing, *passed))
        kept, rebuilt = [], []
        for leaf in missing:
            source = self.tensors.get(leaf.inputs[0])
            if source is None or not source.proven or leaf.op != "Shape":
                kept.append(leaf.outputs[0])
            elif not source.batched or (anchored and source.counts_frames):
                rebuilt.append(leaf.outputs[0])
            else:
                kept.append(leaf.outputs[0])
        return kept, tuple(rebuilt)

    def _is_anchor(self, name: str) -> bool:
        """Whether the tensor's first axis is the number of frames itself."""
        tensor = self.tensors.get(name)
        return tensor is not None and tensor.counts_frames


def _told(names: Collection[str]) -> str:
    listed = [repr(printable(name)) for name in names]
    more = f" and {len(listed) - _TOLD} more" if len(listed) > _TOLD else ""
    return ", ".join(listed[:_TOLD]) + more
