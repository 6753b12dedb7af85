"""The versions of the built-in bundles, which rise when a release makes other bytes of them."""

from typing import Final

VERSIONS: Final = {
    "yolov3-tiny-coco": "1.4",
    "mobilenetv2-imagenet": "1.1",
    "yamnet-audio": "1.1",
    "resnet-cifar10": "1.1",
    "spoken-digits": "1.0",
    "motion": "1.0",
}
