"""Photo sets made by hand, in the layout of `headtail_models.data.coco_photos`."""

import io
import tarfile
from pathlib import Path

import cv2
import numpy as np


def jpeg(height: int = 40, width: int = 80) -> bytes:
    """A photo of noise."""
    picture = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return cv2.imencode(".jpg", picture)[1].tobytes()


def write_tar(path: Path, files: dict[str, bytes]) -> Path:
    """A tar file of those files at `path`."""
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path
