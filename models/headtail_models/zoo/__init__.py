"""Built-in networks: recipes that make a bundle of published weights."""

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Final

from headtail_models.assets import fetch
from headtail_models.assets.progress import ProgressSink, Silence
from headtail_models.bundle import write_bundle
from headtail_models.zoo.errors import UnknownModelError

__all__ = ["build", "known"]

_RECIPES: Final = {
    "yolov3-tiny-coco": "yolov3_tiny",
    "mobilenetv2-imagenet": "mobilenet_v2",
    "yamnet-audio": "yamnet",
    "resnet-cifar10": "resnet_cifar",
    "spoken-digits": "spoken_digits",
    "motion": "motion",
}
"""The module of each bundle: its `ASSETS`, and `make(files, folder)`, which writes the files of the
bundle, of those of the assets, and gives their manifest."""


def known() -> tuple[str, ...]:
    """The names of the bundles that `build` makes."""
    return tuple(_RECIPES)


def build(
    name: str, out: Path, *, progress: ProgressSink | None = None, cache_dir: Path | None = None
) -> Path:
    """Make the bundle `name` in the new folder `out`, fetching its weights first if need be.

    Needs the extra `build`. Takes a second once the weights are there. The same release of
    Headtail makes the same bytes, so bundles built on two machines have one digest. Raises
    UnknownModelError, MissingExtraError, the errors of `headtail_models.assets.errors` and those
    of `write_bundle`.
    """
    if name not in known():
        raise UnknownModelError(
            f"no built-in bundle is called {name!r}; there are: {', '.join(known())}", name=name
        )
    # Needs onnx, which a machine that only runs bundles lacks.
    recipe = import_module(f"headtail_models.zoo.{_RECIPES[name]}")
    files: dict[str, Path] = {}
    for asset in recipe.ASSETS:
        files |= fetch(asset, cache_dir=cache_dir, progress=progress or Silence())
    with tempfile.TemporaryDirectory(prefix="headtail-build-") as folder:
        return write_bundle(Path(folder), recipe.make(files, Path(folder)), out)
