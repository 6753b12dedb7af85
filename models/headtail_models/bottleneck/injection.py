"""Put a bottleneck in place of named layers of any torch network, which falls in two there.

    x -> before -> [replaced layers]  -> after -> y            the network
    x -> before -> encoder ~~~ decoder -> after -> y           the split network: head ~~~ tail

What comes before and after is taken from the graph of the network's forward (`torch.fx`), so any
modules may lie there. Only the modules that *hold* a named layer are looked into; all others stay
whole, whatever their code does. What can't be cut, and is said by name: a holding module whose
forward depends on values or shapes, connections that go around the named layers, layers that are
called twice or never, networks of several inputs.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches

import torch
from torch import Tensor, fx, nn

from headtail_models.bottleneck.block import Bottleneck
from headtail_models.bottleneck.errors import (
    BottleneckShapeError,
    NoSuchLayerError,
    NotSeparableError,
    UntraceableError,
)


class SplitNetwork(nn.Module):
    """A network with a bottleneck inside. The modules around it are the network's own, not copies,
    under the names they had there."""

    def __init__(self, before: nn.Module, bottleneck: Bottleneck, after: nn.Module) -> None:
        super().__init__()
        self.before = before
        self.bottleneck = bottleneck
        self.after = after

    @property
    def head(self) -> nn.Sequential:
        """From the input to what crosses: what the device runs."""
        return self._joined(self.before, self.bottleneck.encoder)

    @property
    def tail(self) -> nn.Sequential:
        """From what crossed to the answer: what the server runs."""
        return self._joined(self.bottleneck.decoder, self.after)

    def forward(self, tensor: Tensor) -> Tensor:
        answer: Tensor = self.after(self.bottleneck(self.before(tensor)))
        return answer

    def _joined(self, *parts: nn.Module) -> nn.Sequential:
        joined = nn.Sequential(*parts)
        # An exporter puts back the mode that it found here, into all parts.
        joined.training = self.training
        return joined


def inject(
    backbone: nn.Module,
    *,
    replaces: Iterable[str],
    bottleneck: Bottleneck,
    input_shape: tuple[int, ...] | None = None,
) -> SplitNetwork:
    """`replaces` names layers as `named_modules()` does; all that lies between them goes too.

    The backbone itself stays as it is and shares its parameters. With an `input_shape` (without the
    batch axis) the decoder's shape is compared with that of the replaced layers. Raises
    NoSuchLayerError, UntraceableError, NotSeparableError, BottleneckShapeError.
    """
    names = _outermost(replaces)
    _check_names(backbone, names)
    cut = _Cut(backbone, names)
    split = SplitNetwork(cut.before(), bottleneck, cut.after())
    # Not `split.train()`: a layer of the backbone may have been frozen in another mode.
    bottleneck.train(backbone.training)
    split.training = backbone.training
    if input_shape is not None:
        _check_shape(split, cut.replaced(), input_shape)
    return split


class _Holders(fx.Tracer):
    """Looks into the modules that hold one of the named layers."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self._names = names
        self._inside: list[str] = []

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        prefix = f"{module_qualified_name}."
        holds = any(name.startswith(prefix) for name in self._names)
        if holds:
            self._inside.append(module_qualified_name)
        return not holds

    @property
    def last(self) -> str:
        """The module that was looked into last."""
        return self._inside[-1] if self._inside else "the network itself"


class _Cut:
    """The graph of a network, in three parts: before, replaced, after."""

    def __init__(self, backbone: nn.Module, names: tuple[str, ...]) -> None:
        self._backbone = backbone
        self._graph = _trace(backbone, names)
        places = [node for node in self._graph.nodes if node.op == "placeholder"]
        if len(places) != 1 or str(places[0].target).startswith("*"):
            raise NotSeparableError(
                f"{type(backbone).__name__} takes {len(places)} inputs: {places}; "
                "wrap it in a module that takes one tensor"
            )
        self._input = places[0]
        named = [self._call(name) for name in names]
        self._region = _reach(named, _users) & _reach(named, _inputs)
        self._enters = self._single(self._sources(self._region), "enter")
        self._leaves = self._single(
            [node for node in self._graph.nodes if node in self._region and self._goes_on(node)],
            "leave",
        )
        self._later = _reach([self._leaves], _users) - {self._leaves}
        around = [node for node in self._sources(self._later) if node is not self._leaves]
        if around:
            raise NotSeparableError(
                f"{_label(around[0])} is used after {', '.join(names)} too: it goes around them"
            )

    def before(self) -> nn.Module:
        """From the network's input to what the replaced layers are given."""
        wanted = _reach([self._enters], _inputs) | {self._input}
        return self._part(wanted, given=None, result=self._enters)

    def replaced(self) -> nn.Module:
        """The layers themselves."""
        return self._part(self._region, given=self._enters, result=self._leaves)

    def after(self) -> nn.Module:
        """From what the replaced layers gave to the network's output."""
        return self._part(self._later, given=self._leaves, result=None)

    def _part(
        self, wanted: set[fx.Node], *, given: fx.Node | None, result: fx.Node | None
    ) -> nn.Module:
        part = fx.Graph()
        there: dict[fx.Node, fx.Node] = {}
        if given is not None:
            there[given] = part.placeholder("crossing")

        def moved(node: fx.Node) -> fx.Node:
            # A constant of the network itself is fetched by whoever uses it.
            if node not in there:
                there[node] = part.node_copy(node)
            return there[node]

        for node in self._graph.nodes:
            if node in wanted and node.op != "get_attr":
                there[node] = part.node_copy(node, moved)
        if result is not None:
            part.output(there[result])
        return fx.GraphModule(self._backbone, part)

    def _call(self, name: str) -> fx.Node:
        calls = [n for n in self._graph.nodes if n.op == "call_module" and n.target == name]
        if len(calls) != 1:
            raise NotSeparableError(f"{name} is called {len(calls)} times in a forward, not once")
        call: fx.Node = calls[0]
        return call

    def _sources(self, nodes: set[fx.Node]) -> list[fx.Node]:
        """What `nodes` take from outside, in order; a network's own constants don't count."""
        taken = {given for node in nodes for given in node.all_input_nodes} - nodes
        return [node for node in self._graph.nodes if node in taken and node.op != "get_attr"]

    def _goes_on(self, node: fx.Node) -> bool:
        return any(user not in self._region for user in node.users)

    def _single(self, nodes: list[fx.Node], verb: str) -> fx.Node:
        if len(nodes) != 1:
            found = ", ".join(_label(node) for node in nodes) or "none"
            raise NotSeparableError(f"{len(nodes)} tensors {verb} the named layers: {found}")
        return nodes[0]


def _trace(backbone: nn.Module, names: tuple[str, ...]) -> fx.Graph:
    tracer = _Holders(names)
    try:
        return tracer.trace(backbone)
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise UntraceableError(f"{tracer.last} can't be looked into: {reason}") from error


def _users(node: fx.Node) -> Iterable[fx.Node]:
    return node.users


def _inputs(node: fx.Node) -> Iterable[fx.Node]:
    return node.all_input_nodes


def _reach(starts: Iterable[fx.Node], step: Callable[[fx.Node], Iterable[fx.Node]]) -> set[fx.Node]:
    """All that can be come to from `starts`, them included."""
    found: set[fx.Node] = set()
    waiting = list(starts)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(step(node))
    return found


def _label(node: fx.Node) -> str:
    return str(node.target) if node.op in ("call_module", "placeholder") else node.name


def _outermost(names: Iterable[str]) -> tuple[str, ...]:
    """Without those inside another one."""
    chosen = dict.fromkeys(names)
    return tuple(
        name for name in chosen if not any(name.startswith(f"{other}.") for other in chosen)
    )


def _check_names(backbone: nn.Module, names: tuple[str, ...]) -> None:
    known: Mapping[str, nn.Module] = dict(backbone.named_modules())
    if not names:
        raise NoSuchLayerError("no layer is named")
    for name in names:
        if not name or name not in known:
            near = get_close_matches(name, known, n=3) or list(known)[1:9]
            raise NoSuchLayerError(f"there is no layer {name!r}; near it: {', '.join(near)}")


def _check_shape(split: SplitNetwork, replaced: nn.Module, shape: tuple[int, ...]) -> None:
    def ghost(module: nn.Module) -> nn.Module:
        return copy.deepcopy(module).to("meta").eval()

    with torch.no_grad():
        entering = ghost(split.before)(torch.empty(1, *shape, device="meta"))
        wanted = ghost(replaced)(entering).shape
        try:
            given = ghost(split.bottleneck)(entering).shape
        except (RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise BottleneckShapeError(
                f"the encoder can't take {tuple(entering.shape)}: {reason}"
            ) from error
    if given != wanted:
        raise BottleneckShapeError(
            f"the decoder gives {tuple(given)}, the replaced layers gave {tuple(wanted)}"
        )
