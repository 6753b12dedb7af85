"""The recipe of the bundle `resnet-cifar10`: a small classifier with two early exits.

Trained by `headtail train resnet-cifar10`; its stages, and what was calibrated and measured on
them, lie in `released/resnet-cifar10`, written by `headtail_models.zoo.resnet_cifar_release`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headtail_models.bundle.manifest import Manifest
from headtail_models.zoo.own_bundle import write

NAME: Final = "resnet-cifar10"
CUT: Final = "latents"
"""The name of the cut, and of the tensor that crosses there."""
ASSETS: Final[tuple[str, ...]] = ()
"""None: all of it was trained here."""


def make(files: Mapping[str, Path], folder: Path) -> Manifest:
    """`write`, as a recipe of the zoo: no file of an asset is needed."""
    return write(NAME, folder)
