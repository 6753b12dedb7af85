"""Built-in networks: recipes that make a bundle of published weights."""

import tempfile
from pathlib import Path
from typing import Final

from headtail_models.assets import fetch
from headtail_models.assets.progress import ProgressSink, Silence
from headtail_models.bundle import write_bundle
from headtail_models.zoo.errors import UnknownModelError

__all__ = ["build", "known"]

_YOLOV3_TINY: Final = "yolov3-tiny-coco"


def known() -> tuple[str, ...]:
    """The names of the bundles that `build` makes."""
    return (_YOLOV3_TINY,)


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
    from headtail_models.zoo import records, yolov3_tiny

    files = fetch(yolov3_tiny.ASSET, cache_dir=cache_dir, progress=progress or Silence())
    with tempfile.TemporaryDirectory(prefix="headtail-build-") as folder:
        manifest = yolov3_tiny.write(
            yolov3_tiny.read(files),
            yolov3_tiny.labels(files),
            Path(folder),
            calibration=records.read_calibration(name),
            accuracy=records.read_accuracy(name),
        )
        return write_bundle(Path(folder), manifest, out)
