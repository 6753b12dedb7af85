"""MobileNetV2 (Sandler et al., CVPR 2018, table 2): a small classifier of 1000 classes.

Parameters have the names that torchvision gives them, so that its weights fit.

    picture (3, 224, 224) -> features[0] .. features[18] -> mean over places -> classifier -> logits
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

SIDE: Final = 224
CLASSES: Final = 1000
LAST: Final = 18
"""The number of the last of `features`."""
_STEM: Final = 32
_TOP: Final = 1280
_STAGES: Final = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks and the first block's stride: t, c, n, s of table 2."""


class ConvNormActivation(nn.Sequential):
    """Convolution, batch norm, ReLU6."""

    def __init__(self, inputs: int, outputs: int, *, kernel: int, stride: int, groups: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU6(),
        )


class InvertedResidual(nn.Module):
    """Widen, filter each channel, narrow; added to the input where shapes allow."""

    def __init__(self, inputs: int, outputs: int, *, stride: int, expansion: int) -> None:
        super().__init__()
        width = inputs * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers.append(ConvNormActivation(inputs, width, kernel=1, stride=1, groups=1))
        layers += [
            ConvNormActivation(width, width, kernel=3, stride=stride, groups=width),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        self.conv = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, tensor: Tensor) -> Tensor:
        changed: Tensor = self.conv(tensor)
        return tensor + changed if self.residual else changed


class MobileNetV2(nn.Module):
    """Width 1.0, for pictures (N, 3, 224, 224) less ImageNet's mean over its deviation."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [ConvNormActivation(3, _STEM, kernel=3, stride=2, groups=1)]
        inputs = _STEM
        for expansion, outputs, blocks, stride in _STAGES:
            for block in range(blocks):
                layers.append(
                    InvertedResidual(
                        inputs, outputs, stride=stride if block == 0 else 1, expansion=expansion
                    )
                )
                inputs = outputs
        layers.append(ConvNormActivation(inputs, _TOP, kernel=1, stride=1, groups=1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(_TOP, CLASSES))

    def forward(self, tensor: Tensor) -> Tensor:
        return self.finish(tensor, after=-1)

    def finish(self, tensor: Tensor, *, after: int) -> Tensor:
        """Logits (N, 1000) of the output of `features[after]`."""
        for _, last in self.walk(tensor, after=after):
            tensor = last
        logits: Tensor = self.classifier(pooled(tensor))
        return logits

    def walk(
        self, tensor: Tensor, *, after: int, until: int = LAST
    ) -> Iterator[tuple[int, Tensor]]:
        """The outputs of `features[after + 1]` to `features[until]`, numbered, one by one."""
        for number in range(after + 1, until + 1):
            tensor = self.features[number](tensor)
            yield number, tensor

    def block(self, number: int) -> InvertedResidual:
        """One of `features` 1 to 17."""
        found = self.features[number]
        assert isinstance(found, InvertedResidual)
        return found


def pooled(tensor: Tensor) -> Tensor:
    """The mean over all places: (N, C)."""
    return tensor.mean(dim=(2, 3))


def fold_norms(module: nn.Module) -> None:
    """Put each batch norm into the convolution before it, in place; an identity takes its place.

    What the module computes in evaluation stays the same.
    """
    for child in module.modules():
        if not isinstance(child, nn.Sequential):
            continue
        for at in range(len(child) - 1):
            first, second = child[at], child[at + 1]
            if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
                child[at] = fuse_conv_bn_eval(first.eval(), second.eval())
                child[at + 1] = nn.Identity()


def frozen(parameters: Mapping[str, NDArray[Any]]) -> MobileNetV2:
    """The network with those parameters by name, norms folded, not to be trained.

    Raises RuntimeError for missing or unknown names and for wrong shapes.
    """
    net = MobileNetV2()
    net.load_state_dict(
        {name: torch.from_numpy(values.copy()) for name, values in parameters.items()}
    )
    net.eval()
    with torch.no_grad():
        fold_norms(net)
    return net.requires_grad_(False)
