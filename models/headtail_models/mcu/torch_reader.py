"""A head in torch as a `HeadGraph`: the same graph as the ONNX reader's of the exported network.

The module is traced (`torch.fx`); batch normalisations go into the convolutions before them, and
what does nothing outside training goes away.
"""

import copy
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch
from torch import fx, nn
from torch.fx.passes.shape_prop import ShapeProp
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from headtail_models.mcu.errors import UnsupportedLayerError
from headtail_models.mcu.graph_builder import GraphBuilder, Origin, check_pads
from headtail_models.mcu.layers import Floats, HeadGraph, LayerKind, Shape


def read_module(module: nn.Module, shape: tuple[int, ...]) -> HeadGraph:
    """Of one input (1, *shape) and one output or several. Raises UnsupportedLayerError."""
    return read_traced(trace(module, shape))


def trace(module: nn.Module, shape: tuple[int, ...]) -> fx.GraphModule:
    """A copy of the module, folded, whose nodes know their shapes. Parameters keep their names.

    Raises UnsupportedLayerError.
    """
    plain = copy.deepcopy(module).eval()
    try:
        traced = fx.GraphModule(plain, _Tracer().trace(plain))
    except (fx.proxy.TraceError, TypeError) as error:
        raise UnsupportedLayerError(f"the module can't be traced: {error}") from None
    inputs = [node for node in traced.graph.nodes if node.op == "placeholder"]
    if len(inputs) != 1:
        raise UnsupportedLayerError(f"the module has {len(inputs)} inputs, a head has one")
    _fold(traced)
    with torch.no_grad():
        try:
            ShapeProp(traced).propagate(torch.zeros(1, *shape))
        except RuntimeError as error:
            last = str(error).strip().splitlines()[0]
            raise UnsupportedLayerError(f"the module does not take {shape}: {last}") from None
    return traced


class _Tracer(fx.Tracer):
    """Takes a module that only configures a layer of torch's for that layer."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        known = _layer_kind(m) in _READERS
        return known or super().is_leaf_module(m, module_qualified_name)


def read_traced(traced: fx.GraphModule) -> HeadGraph:
    """Tensors are called as the nodes that compute them, layers as their modules.

    Raises UnsupportedLayerError.
    """
    input = next(node for node in traced.graph.nodes if node.op == "placeholder")
    return _Reader(traced, input).graph()


def _fold(traced: fx.GraphModule) -> None:
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        layer = modules.get(str(node.target)) if node.op == "call_module" else None
        if not isinstance(layer, nn.Identity | nn.Dropout | nn.BatchNorm2d):
            continue
        before = node.args[0]
        assert isinstance(before, fx.Node)  # they take nothing but tensors
        if isinstance(layer, nn.BatchNorm2d):
            convolution = modules.get(str(before.target)) if before.op == "call_module" else None
            if not isinstance(convolution, nn.Conv2d) or len(before.users) > 1:
                raise _origin(node, layer).refused("no convolution before it to go into")
            modules[str(before.target)] = fuse_conv_bn_eval(convolution, layer)
            traced.set_submodule(str(before.target), modules[str(before.target)])
        node.replace_all_uses_with(before)
        traced.graph.erase_node(node)
    traced.recompile()


class _Reader:
    """One pass over the traced nodes."""

    def __init__(self, traced: fx.GraphModule, input: fx.Node) -> None:
        self._traced = traced
        self._modules = dict(traced.named_modules())
        self._builder = GraphBuilder(input.name, _shape(input))

    def graph(self) -> HeadGraph:
        """Raises UnsupportedLayerError."""
        for node in self._traced.graph.nodes:
            if node.op == "output":
                (found,) = node.args
                results = found if isinstance(found, tuple | list) else (found,)
                return self._builder.graph([result.name for result in results])
            if node.op != "placeholder":
                self._read(node)
        raise UnsupportedLayerError("the module has no output")

    def _read(self, node: fx.Node) -> None:
        what = self._modules.get(str(node.target)) if node.op == "call_module" else node.target
        key: Any = _layer_kind(what) if isinstance(what, nn.Module) else what
        reader = _READERS.get(key)
        if reader is None:
            raise _origin(node, what).refused("no kernel for it")
        if not isinstance(node.args[0], fx.Node) or not self._builder.holds(node.args[0].name):
            raise _origin(node, what).refused("its input is a constant")
        reader(self, node, what)

    def _convolution(self, node: fx.Node, layer: nn.Conv2d) -> None:
        if layer.dilation != (1, 1) or layer.padding_mode != "zeros":
            raise _origin(node, layer).refused("dilation, or padding that is not zero")
        if isinstance(layer.padding, str):
            raise _origin(node, layer).refused(f"padding {layer.padding!r}; give it in numbers")
        top, left = layer.padding
        pads = (top, left, top, left)
        kernel = (layer.kernel_size[0], layer.kernel_size[1])
        check_pads(_origin(node, layer), pads, kernel)
        self._builder.convolution(
            _origin(node, layer),
            input=_input(node),
            output=node.name,
            shape=_shape(node),
            weights=_values(layer.weight),
            bias=_bias(layer.bias, layer.out_channels),
            groups=layer.groups,
            stride=layer.stride,
            pads=pads,
        )

    def _linear(self, node: fx.Node, layer: nn.Linear) -> None:
        self._builder.dense(
            _origin(node, layer),
            input=_input(node),
            output=node.name,
            weights=_values(layer.weight),
            bias=_bias(layer.bias, layer.out_features),
        )

    def _addition(self, node: fx.Node, what: Any) -> None:
        names = [one.name if isinstance(one, fx.Node) else "" for one in node.args]
        if len(names) != 2 or node.kwargs:
            raise _origin(node, what).refused("more than a sum of two tensors")
        self._builder.addition(_origin(node, what), inputs=names, output=node.name)

    def _pool(self, node: fx.Node, layer: nn.AvgPool2d | nn.MaxPool2d) -> None:
        kernel, pads = _pair(layer.kernel_size), _pair(layer.padding)
        average = isinstance(layer, nn.AvgPool2d)
        if layer.ceil_mode or _pair(getattr(layer, "dilation", 1)) != (1, 1):
            raise _origin(node, layer).refused("ceil_mode or dilation")
        if isinstance(layer, nn.AvgPool2d) and (
            layer.divisor_override or (any(pads) and not layer.count_include_pad)
        ):
            raise _origin(node, layer).refused("padding that does not count")
        check_pads(_origin(node, layer), pads + pads, kernel)
        self._append_pool(
            node,
            layer,
            average=average,
            kernel=kernel,
            stride=_pair(layer.stride),
            pads=pads + pads,
        )

    def _global_pool(self, node: fx.Node, layer: nn.Module) -> None:
        if _shape(node)[:2] != (1, 1):
            raise _origin(node, layer).refused(f"pools to {_shape(node)}, not to one pixel")
        source = self._builder.shape(_input(node))
        average = isinstance(layer, nn.AdaptiveAvgPool2d)
        self._append_pool(node, layer, average=average, kernel=(source.h, source.w))

    def _append_pool(
        self, node: fx.Node, layer: nn.Module, *, average: bool, **fields: Any
    ) -> None:
        self._builder.append(
            _origin(node, layer),
            LayerKind.AVERAGE_POOL if average else LayerKind.MAX_POOL,
            inputs=(_input(node),),
            output=node.name,
            shape=_shape(node),
            **fields,
        )

    def _clamp(self, node: fx.Node, what: Any) -> None:
        low, high = 0.0, np.inf
        if isinstance(what, nn.Hardtanh):  # and ReLU6, which is one
            low, high = float(what.min_val), float(what.max_val)
        before = node.args[0]
        assert isinstance(before, fx.Node)
        self._builder.clamp(
            _origin(node, what),
            input=before.name,
            output=node.name,
            low=low,
            high=high,
            alone=len(before.users) == 1,
        )

    def _rename(self, node: fx.Node, what: Any) -> None:
        self._builder.rename(
            _origin(node, what), input=_input(node), output=node.name, shape=_shape(node)
        )


_READERS: Final[Mapping[Any, Callable[[_Reader, fx.Node, Any], None]]] = {
    nn.Conv2d: _Reader._convolution,
    nn.Linear: _Reader._linear,
    operator.add: _Reader._addition,
    operator.iadd: _Reader._addition,
    torch.add: _Reader._addition,
    nn.MaxPool2d: _Reader._pool,
    nn.AvgPool2d: _Reader._pool,
    nn.AdaptiveAvgPool2d: _Reader._global_pool,
    nn.AdaptiveMaxPool2d: _Reader._global_pool,
    nn.ReLU: _Reader._clamp,
    nn.ReLU6: _Reader._clamp,
    nn.Hardtanh: _Reader._clamp,
    torch.relu: _Reader._clamp,
    functional.relu: _Reader._clamp,
    nn.Flatten: _Reader._rename,
    torch.flatten: _Reader._rename,
}


def _layer_kind(module: nn.Module) -> type:
    """The class that computes what the module computes."""
    kind = type(module)
    return next(one for one in reversed(kind.__mro__) if getattr(one, "forward", 0) is kind.forward)


def _origin(node: fx.Node, what: Any) -> Origin:
    kind = type(what).__name__ if isinstance(what, nn.Module) else getattr(what, "__name__", what)
    return Origin(str(node.target) if node.op == "call_module" else node.name, str(kind))


def _input(node: fx.Node) -> str:
    before = node.args[0]
    assert isinstance(before, fx.Node)  # `_read` has looked
    return before.name


def _shape(node: fx.Node) -> Shape:
    dims = tuple(node.meta["tensor_meta"].shape)
    if len(dims) not in (2, 4):
        raise UnsupportedLayerError(f"tensor {node.name} of shape {dims}: 1 or 3 axes a sample")
    rows, columns = (1, 1, *dims[2:])[-2:]
    return Shape(rows, columns, dims[1])


def _values(tensor: torch.Tensor) -> Floats:
    values: Floats = tensor.detach().numpy()
    return values


def _bias(tensor: torch.Tensor | None, size: int) -> Floats:
    return np.zeros(size, dtype=np.float32) if tensor is None else _values(tensor)


def _pair(value: Any) -> tuple[int, int]:
    return (int(value), int(value)) if isinstance(value, int) else (int(value[0]), int(value[1]))
