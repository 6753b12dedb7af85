"""ResNets (He et al., CVPR 2016, table 1), with the stride of a narrow block in its 3 x 3 layer.

Parameters have the names that torchvision gives them, so that its weights fit.

    picture (3, H, W) -> conv1 bn1 relu maxpool -> layer1 .. layer4 -> mean over places -> fc
                         stride 4                  4, 8, 16, 32
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from torch import Tensor, nn

from headtail_fabric.errors import ConfigError

Norm = Callable[[int], nn.Module]

_WIDTHS: Final = (64, 128, 256, 512)
_STEM: Final = 64


class UnknownDepthError(ConfigError):
    """There is no ResNet of that depth. The message lists those there are."""


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    expansion: Final = 1

    def __init__(self, inputs: int, width: int, *, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = norm(width)
        self.relu = nn.ReLU()
        self.downsample = _shortcut(inputs, width, stride=stride, norm=norm)

    def forward(self, tensor: Tensor) -> Tensor:
        branch = self.relu(self.bn1(self.conv1(tensor)))
        branch = self.bn2(self.conv2(branch))
        joined: Tensor = self.relu(branch + self.downsample(tensor))
        return joined


class NarrowBlock(nn.Module):
    """1 x 1, 3 x 3, 1 x 1: the paper's bottleneck block, narrow in its middle."""

    expansion: Final = 4

    def __init__(self, inputs: int, width: int, *, stride: int, norm: Norm) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = norm(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = norm(outputs)
        self.relu = nn.ReLU()
        self.downsample = _shortcut(inputs, outputs, stride=stride, norm=norm)

    def forward(self, tensor: Tensor) -> Tensor:
        branch = self.relu(self.bn1(self.conv1(tensor)))
        branch = self.relu(self.bn2(self.conv2(branch)))
        branch = self.bn3(self.conv3(branch))
        joined: Tensor = self.relu(branch + self.downsample(tensor))
        return joined


Block = type[BasicBlock] | type[NarrowBlock]

_DEPTHS: Final[Mapping[int, tuple[Block, tuple[int, int, int, int]]]] = MappingProxyType(
    {
        18: (BasicBlock, (2, 2, 2, 2)),
        34: (BasicBlock, (3, 4, 6, 3)),
        50: (NarrowBlock, (3, 4, 6, 3)),
        101: (NarrowBlock, (3, 4, 23, 3)),
        152: (NarrowBlock, (3, 8, 36, 3)),
    }
)


class ResNet(nn.Module):
    """Pictures (N, 3, H, W), less ImageNet's mean over its deviation, to logits (N, classes)."""

    def __init__(
        self,
        block: Block,
        counts: tuple[int, int, int, int],
        *,
        classes: int = 1000,
        norm: Norm = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, _STEM, 7, 2, 3, bias=False)
        self.bn1 = norm(_STEM)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs = _STEM
        for number, (width, count) in enumerate(zip(_WIDTHS, counts, strict=True), start=1):
            blocks = []
            for index in range(count):
                stride = 2 if number > 1 and index == 0 else 1
                blocks.append(block(inputs, width, stride=stride, norm=norm))
                inputs = width * block.expansion
            self.add_module(f"layer{number}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(inputs, classes)
        _initialise(self)

    def forward(self, picture: Tensor) -> Tensor:
        tensor = self.maxpool(self.relu(self.bn1(self.conv1(picture))))
        for number in range(1, len(_WIDTHS) + 1):
            tensor = self.get_submodule(f"layer{number}")(tensor)
        logits: Tensor = self.fc(self.flatten(self.avgpool(tensor)))
        return logits


def resnet(depth: int, *, classes: int = 1000, norm: Norm = nn.BatchNorm2d) -> ResNet:
    """With random weights. Raises UnknownDepthError."""
    if depth not in _DEPTHS:
        raise UnknownDepthError(f"no ResNet has depth {depth}; there are {sorted(_DEPTHS)}")
    block, counts = _DEPTHS[depth]
    return ResNet(block, counts, classes=classes, norm=norm)


def _shortcut(inputs: int, outputs: int, *, stride: int, norm: Norm) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))


def _initialise(network: nn.Module) -> None:
    """He et al., "Delving Deep into Rectifiers", ICCV 2015, eq. 15."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
