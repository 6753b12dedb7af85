"""YAMNet in torch, so that parts of it can be trained and trained through."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from headtail_models.zoo.yamnet_layers import LAYERS, Convolution, Yamnet


class SameConvolution(nn.Conv2d):
    """A convolution with TensorFlow's SAME padding for even sides, and the ReLU behind it."""

    def __init__(self, step: Convolution) -> None:
        outputs, inputs, side, _ = step.kernel.shape
        begin, end = step.pads
        super().__init__(
            inputs * step.groups,
            outputs,
            side,
            stride=step.stride,
            padding=begin if begin == end else 0,
            groups=step.groups,
        )
        self._pads = (begin, end) if begin != end else None
        with torch.no_grad():
            self.weight.copy_(torch.from_numpy(step.kernel.copy()))
            assert self.bias is not None
            self.bias.copy_(torch.from_numpy(step.bias.copy()))

    def forward(self, tensor: Tensor) -> Tensor:
        if self._pads is not None:
            tensor = functional.pad(tensor, self._pads * 2)
        return functional.relu(super().forward(tensor))


class YamnetNet(nn.Module):
    """Layers L1 .. L14 and the classifier."""

    def __init__(self, network: Yamnet) -> None:
        super().__init__()
        self.layers = nn.ModuleList(yamnet_layer(network, number + 1) for number in range(LAYERS))
        self.classifier = nn.Linear(*network.classifier.shape[::-1])
        with torch.no_grad():
            self.classifier.weight.copy_(torch.from_numpy(network.classifier.copy()))
            self.classifier.bias.copy_(torch.from_numpy(network.bias.copy()))

    def forward(self, patches: Tensor) -> Tensor:
        """Logits (N, 521) of patches (N, 1, 96, 64)."""
        return self.finish(patches, after=0)

    def finish(self, tensor: Tensor, *, after: int) -> Tensor:
        """Logits of what L`after` puts out."""
        for layer in self.layers[after:]:
            tensor = layer(tensor)
        return self.classify(tensor)

    def classify(self, tensor: Tensor) -> Tensor:
        """Logits of what L14 puts out."""
        logits: Tensor = self.classifier(tensor.mean(dim=(2, 3)))
        return logits

    def walk(
        self, tensor: Tensor, *, after: int, until: int = LAYERS
    ) -> Iterator[tuple[int, Tensor]]:
        """What L`after` + 1 to L`until` put out, numbered, one by one."""
        for number in range(after + 1, until + 1):
            tensor = self.layers[number - 1](tensor)
            yield number, tensor


def yamnet_layer(network: Yamnet, number: int) -> nn.Sequential:
    """Layer L`number` with its weights."""
    return nn.Sequential(*(SameConvolution(step) for step in network.layers[number - 1]))
