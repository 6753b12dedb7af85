"""The recipe of the bundle `spoken-digits`: ten words for a microcontroller and its edge.

Trained by `headtail train spoken-digits`, written by `headtail_models.training.digits_release`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headtail_models.bundle.manifest import Manifest
from headtail_models.zoo.own_bundle import write

NAME: Final = "spoken-digits"
ASSETS: Final[tuple[str, ...]] = ()
"""None: all of it was trained here."""


def make(files: Mapping[str, Path], folder: Path) -> Manifest:
    """`write`, as a recipe of the zoo: no file of an asset is needed."""
    return write(NAME, folder)
