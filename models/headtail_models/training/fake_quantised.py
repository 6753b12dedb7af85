"""A head that rounds while it is trained, as its blob will on a board.

What passes between layers lies on levels a step apart, one step for each tensor; weights on levels
of one step for each channel, biases on those of the sums that they go into (Jacob et al.,
"Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", CVPR
2018, section 3). Gradients pass the rounding as if there was none (Bengio et al., "Estimating or
Propagating Gradients Through Stochastic Neurons", 2013).

The steps of tensors are learned (Esser et al., "Learned Step Size Quantization", ICLR 2020), as
logarithms, so that a rate means the same to small and to large ones (Jain et al., "Trained
Quantization Thresholds", MLSys 2020). Those of weights follow the largest, as the exporter's do.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import fx, nn

from headtail_models.mcu.layers import Floats, HeadGraph, Layer, LayerKind
from headtail_models.mcu.quantise import LARGEST_BIAS, LARGEST_WEIGHT, settled
from headtail_models.mcu.ranges import Quantiser, calibrate
from headtail_models.mcu.samples import channels_last
from headtail_models.mcu.torch_reader import read_traced, trace

_BITS: Final = 8


class Levels(nn.Module):
    """Rounds a tensor to levels whose step is learned and whose zero stays."""

    zero: torch.Tensor

    def __init__(self, quantiser: Quantiser) -> None:
        super().__init__()
        self.bits = quantiser.bits
        self.log_step = nn.Parameter(torch.tensor(math.log(quantiser.scale)))
        self.register_buffer("zero", torch.tensor(quantiser.zero))

    @property
    def step(self) -> torch.Tensor:
        return self.log_step.exp()

    @property
    def quantiser(self) -> Quantiser:
        """As the exporter takes it."""
        return Quantiser(scale=float(self.step.detach()), zero=int(self.zero), bits=self.bits)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        top = (1 << self.bits) - 1
        # As many values pull at one step: their pull is made as strong as that of one weight.
        pull = 1 / math.sqrt(max(1, x.numel() // len(x)) * top)
        step = self.step * pull + (self.step * (1 - pull)).detach()
        rounded = _rounded((x / step + self.zero).clamp(0, top))
        return (rounded - self.zero) * step


class FakeQuantised(nn.Module):
    """A module whose layers boards have, normalisations folded; takes and gives what it does."""

    def __init__(
        self,
        traced: fx.GraphModule,
        graph: HeadGraph,
        quantisers: dict[str, Quantiser],
        *,
        open_: Sequence[str] = (),
    ) -> None:
        """`traced` is what `graph` was read from; outputs in `open_` are not rounded."""
        super().__init__()
        self.head = traced
        self.graph = graph
        self._given = quantisers
        self._peaks = {
            layer.output: layer.inputs[0]
            for layer in graph.layers
            if layer.kind is LayerKind.MAX_POOL
        }
        self._weighted = {layer.name: layer for layer in graph.layers if layer.weights.size}
        self.levels = nn.ModuleDict(
            {
                name: Levels(quantiser)
                for name, quantiser in quantisers.items()
                if name not in self._peaks and name not in open_
            }
        )

    @classmethod
    def calibrated(
        cls, module: nn.Module, samples: Floats, *, bits: Sequence[int | None] = ()
    ) -> "FakeQuantised":
        """Steps begin at what the exporter would find on `samples` (N, C, H, W).

        `bits` of each output, None for one that somebody else rounds; 8, if left out. Raises
        UnsupportedLayerError, CalibrationError, OutOfRangeError.
        """
        traced = trace(module, samples.shape[1:])
        graph = read_traced(traced)
        widths = dict(zip(graph.outputs, bits, strict=True)) if bits else {}
        found = calibrate(
            graph,
            channels_last(samples, graph.input_shape),
            bits={name: width or _BITS for name, width in widths.items()},
        )
        open_ = [name for name, width in widths.items() if width is None]
        return cls(traced, graph, settled(graph, found), open_=open_)

    def forward(self, x: torch.Tensor) -> Any:
        return _Rounding(self).run(x)

    def quantisers(self) -> dict[str, Quantiser]:
        """Of every tensor of `graph`, the input's first; of open outputs as they were given."""
        found = dict(self._given)
        for name, levels in self.levels.items():
            assert isinstance(levels, Levels)
            found[name] = levels.quantiser
        for name, source in self._peaks.items():
            found[name] = found[source]
        return found

    def settle(self) -> None:
        """Put the weights where they are rounded to. Half precision then loses none of it."""
        with torch.no_grad():
            for name, layer in self._weighted.items():
                module = self.head.get_submodule(name)
                assert isinstance(module, nn.Conv2d | nn.Linear)
                weight, bias = self.rounded(module, layer)
                module.weight.copy_(weight)
                if module.bias is not None:
                    module.bias.copy_(bias)

    def weighted(self, name: str) -> Layer | None:
        """The layer of the submodule `name`, where it has weights."""
        return self._weighted.get(name)

    def rounded(
        self, module: nn.Conv2d | nn.Linear, layer: Layer
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights and biases as `mcu.quantise` has them."""
        name = layer.inputs[0]
        while name in self._peaks:  # which lie on the levels of what they are the peaks of
            name = self._peaks[name]
        source = self.levels[name]
        assert isinstance(source, Levels)
        weight, step = module.weight, source.step.detach()
        bias = module.bias if module.bias is not None else weight.new_zeros(len(weight))
        with torch.no_grad():
            scales = weight.flatten(1).abs().amax(dim=1) / LARGEST_WEIGHT
            scales = torch.maximum(scales, bias.abs() / (step * LARGEST_BIAS))
            scales = torch.where(scales > 0, scales, torch.ones_like(scales))
        by_channel = scales.view(-1, *[1] * (weight.dim() - 1))
        sums = step * scales
        return _rounded(weight / by_channel) * by_channel, _rounded(bias / sums) * sums


class _Rounding(fx.Interpreter):
    """One pass through the traced nodes."""

    def __init__(self, owner: FakeQuantised) -> None:
        super().__init__(owner.head)
        self._owner = owner

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        levels = self._owner.levels
        return levels[n.name](value) if n.name in levels else value

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        layer = self._owner.weighted(str(target))
        if layer is None:
            return super().call_module(target, args, kwargs)
        module = self.fetch_attr(target)
        weight, bias = self._owner.rounded(module, layer)
        return torch.func.functional_call(module, _parameters(module, weight, bias), args)


def _parameters(
    module: nn.Conv2d | nn.Linear, weight: torch.Tensor, bias: torch.Tensor
) -> dict[str, torch.Tensor]:
    return {"weight": weight} if module.bias is None else {"weight": weight, "bias": bias}


def _rounded(x: torch.Tensor) -> torch.Tensor:
    """To whole numbers, halves to even ones as numpy does."""
    result: torch.Tensor = x + (x.round() - x).detach()
    return result
