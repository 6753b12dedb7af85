"""A Darknet network in torch, so that parts of it can be trained and trained through."""

from collections.abc import Iterable

import torch
from torch import nn
from torch.nn import functional

from headtail_models.zoo.darknet import Convolution, MaxPool, Network, Route, Upsample, Yolo

LEAK = 0.1


class DarknetNet(nn.Module):
    """The layers of `network` by their numbers; batch normalisation is folded, as it was read."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network
        self._convolutions = nn.ModuleDict(
            {
                str(index): convolution(layer)
                for index, layer in enumerate(network.layers)
                if isinstance(layer, Convolution)
            }
        )

    def forward(
        self, tensor: torch.Tensor, *, after: int, keep: Iterable[int]
    ) -> dict[int, torch.Tensor]:
        """The outputs (N, C, H, W) of the layers `keep`, from that of layer `after`.

        `after` -1 begins at the image (N, 3, H, W), RGB / 255. Sides may be any multiple of 32.
        """
        wanted = set(keep)
        known = {after: tensor}
        for index in range(after + 1, max(wanted) + 1):
            sources = [known[source] for source in self._network.sources(index)]
            known[index] = self._layer(index, sources)
        return {index: known[index] for index in wanted}

    def layer(self, index: int) -> nn.Conv2d:
        """The convolution of a layer."""
        found = self._convolutions[str(index)]
        assert isinstance(found, nn.Conv2d)
        return found

    def _layer(self, index: int, sources: list[torch.Tensor]) -> torch.Tensor:
        layer = self._network.layers[index]
        if isinstance(layer, Convolution):
            result: torch.Tensor = self._convolutions[str(index)](sources[0])
            return functional.leaky_relu(result, LEAK) if layer.leaky else result
        if isinstance(layer, MaxPool):
            return max_pool(layer, sources[0])
        if isinstance(layer, Upsample):
            return functional.interpolate(sources[0], scale_factor=layer.factor, mode="nearest")
        if isinstance(layer, Route):
            return torch.cat(sources, dim=1) if len(sources) > 1 else sources[0]
        assert isinstance(layer, Yolo)
        return sources[0]


def convolution(layer: Convolution) -> nn.Conv2d:
    """A torch convolution with the weights of a layer."""
    outputs, inputs, side, _ = layer.kernel.shape
    module = nn.Conv2d(inputs, outputs, side, stride=layer.stride, padding=layer.padding)
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(layer.kernel.copy()))
        assert module.bias is not None
        module.bias.copy_(torch.from_numpy(layer.bias.copy()))
    return module


def max_pool(layer: MaxPool, tensor: torch.Tensor) -> torch.Tensor:
    """Max pooling with Darknet's padding, whose odd pixel lies at the end."""
    if layer.padding:
        begin = layer.padding // 2
        end = layer.padding - begin
        tensor = functional.pad(tensor, (begin, end, begin, end), value=-torch.inf)
    return functional.max_pool2d(tensor, layer.size, layer.stride)
