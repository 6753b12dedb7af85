"""What a network costs: parameters and multiply-adds, counted without running it."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from headtail_models.bottleneck.gdn import GDN


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """`by_module`: multiply-adds of convolutions, linear layers and GDNs, by module name.

    Element-wise layers, pooling and batch normalisation (which folds into a convolution) count
    nothing.
    """

    parameters: int
    by_module: Mapping[str, int]

    @property
    def macs(self) -> int:
        return sum(self.by_module.values())


def cost(module: nn.Module, *shape: int) -> Cost:
    """For an input of `shape`, batch axis included. Runs a copy whose tensors have no values."""
    ghost = copy.deepcopy(module).to("meta").eval()
    counts: dict[str, int] = {}
    handles = []
    for name, layer in ghost.named_modules():
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear | GDN):
            handles.append(layer.register_forward_hook(_counter(name, counts)))
    with torch.no_grad():
        ghost(torch.empty(*shape, device="meta"))
    return Cost(parameters=parameter_count(module), by_module=counts)


def parameter_count(module: nn.Module) -> int:
    """Numbers that are trained, each counted once."""
    return sum(parameter.numel() for parameter in module.parameters())


def _counter(
    name: str, counts: dict[str, int]
) -> Callable[[Any, tuple[Tensor, ...], Tensor], None]:
    def count(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        counts[name] = counts.get(name, 0) + _macs(layer, inputs[0], output)

    return count


def _macs(layer: nn.Module, entering: Tensor, leaving: Tensor) -> int:
    if isinstance(layer, nn.ConvTranspose2d):
        return entering.numel() * prod(layer.weight.shape[1:])
    if isinstance(layer, nn.Conv2d):
        return leaving.numel() * prod(layer.weight.shape[1:])
    if isinstance(layer, nn.Linear):
        return leaving.numel() * layer.in_features
    if isinstance(layer, GDN):
        return leaving.numel() * layer.channels
    return 0
