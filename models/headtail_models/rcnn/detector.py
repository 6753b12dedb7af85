"""torchvision's three R-CNNs with a ResNet-50 and FPN, and a bottleneck in their backbone."""

import copy
from collections.abc import Callable
from typing import Final, Literal, cast, get_args

import torch
from torch import nn
from torchvision.models import detection
from torchvision.models.detection.generalized_rcnn import GeneralizedRCNN

from headtail_models.bottleneck.block import Bottleneck
from headtail_models.rcnn.errors import BackboneError, RcnnError

Variant = Literal["faster", "mask", "keypoint"]
VARIANTS: Final[tuple[Variant, ...]] = get_args(Variant)
STEM: Final = ("conv1", "bn1", "relu", "maxpool")
"""layer0: what runs before the bottleneck, in order."""
REPLACED: Final = "layer1"
LATER: Final = ("layer2", "layer3", "layer4")
"""The frozen layers behind the bottleneck, in order."""

_BUILDERS: Final[dict[Variant, Callable[..., GeneralizedRCNN]]] = {
    "faster": detection.fasterrcnn_resnet50_fpn,
    "mask": detection.maskrcnn_resnet50_fpn,
    "keypoint": detection.keypointrcnn_resnet50_fpn,
}


def pretrained(variant: Variant) -> GeneralizedRCNN:
    """The detector with the weights that torchvision publishes for it.

    They are fetched once; without a network, put their file into torch's folder of checkpoints.
    Raises RcnnError.
    """
    try:
        return _BUILDERS[variant](weights="COCO_V1", progress=False).eval()
    except OSError as error:
        folder = f"{torch.hub.get_dir()}/checkpoints"
        raise RcnnError(
            f"the weights of {variant} R-CNN can't be fetched ({error}); "
            f"put the file that torchvision publishes for COCO_V1 into {folder}"
        ) from error


def untrained(variant: Variant, **options: object) -> GeneralizedRCNN:
    """The detector with random weights; `options` of torchvision's builder."""
    return _BUILDERS[variant](weights=None, weights_backbone=None, **options).eval()


def injected(detector: GeneralizedRCNN, bottleneck: Bottleneck) -> GeneralizedRCNN:
    """A copy of the detector with the bottleneck in place of layer1. Raises BackboneError."""
    backbone(detector)
    student = copy.deepcopy(detector)
    backbone(student)[REPLACED] = bottleneck
    return student


def backbone(detector: GeneralizedRCNN) -> nn.ModuleDict:
    """Its ResNet, layer by layer. Raises BackboneError."""
    body = getattr(detector.backbone, "body", None)
    expected = [*STEM, REPLACED, *LATER]
    found = list(body) if isinstance(body, nn.ModuleDict) else []
    if not isinstance(body, nn.ModuleDict) or found != expected:
        raise BackboneError(f"the backbone has the layers {found}, not {expected}")
    given = cast("dict[str, str]", body.return_layers)
    if set(given) != {REPLACED, *LATER}:
        raise BackboneError(f"the backbone gives {sorted(given)} to its FPN")
    return body


def feature_names(detector: GeneralizedRCNN) -> dict[str, str]:
    """What the FPN calls the output of each layer. Raises BackboneError."""
    return dict(cast("dict[str, str]", backbone(detector).return_layers))


def block_of(detector: GeneralizedRCNN) -> Bottleneck:
    """The bottleneck in its backbone. Raises BackboneError if there is none."""
    block = backbone(detector)[REPLACED]
    if not isinstance(block, Bottleneck):
        raise BackboneError("the detector has no bottleneck; make a copy with `injected` first")
    return block
