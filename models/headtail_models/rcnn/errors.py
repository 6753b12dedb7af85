"""What can go wrong with the R-CNNs."""

from headtail_fabric.errors import ConfigError


class RcnnError(ConfigError):
    """The R-CNN can't be built or used like this. See the message."""


class NoTorchvisionError(RcnnError):
    """The R-CNNs are torchvision's, and it can't be imported here. Install it with
    `pip install 'headtail[rcnn]'`; it must be the release made for the installed torch."""


class BackboneError(RcnnError):
    """The detector's backbone is not a ResNet whose layer1 to layer4 feed an FPN. Build it with
    torchvision's functions named `..._resnet50_fpn`."""


class CocoFolderError(RcnnError):
    """The folder does not hold COCO 2017 as it is published: train2017/, val2017/ and
    annotations/instances_train2017.json, ..._val2017.json (person_keypoints_... for Keypoint
    R-CNN), from https://cocodataset.org/#download."""


class OnePictureError(RcnnError):
    """A filter decides about one picture at a time. Give the head one picture, or leave the filter
    out."""
