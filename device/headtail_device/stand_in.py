"""Frames that stand in for those of a source: of the kind that a bundle takes."""

from typing import Final

import cv2
import numpy as np

from headtail_models.bundle.manifest import LogMel, Manifest, Preprocess, Signal
from headtail_models.task import Frame

_SIZE: Final = (480, 640)
_GRAINS: Final = (240, 60, 16, 4)


def nothing(manifest: Manifest) -> Frame:
    """Black, silence, or readings of 0."""
    way = manifest.preprocess
    if isinstance(way, LogMel):
        return np.zeros(way.front().patch_samples, dtype=np.float32)
    if isinstance(way, Signal):
        return np.zeros((way.window, way.channels), dtype=np.float32)
    assert isinstance(way, Preprocess), "there are three ways"
    return np.zeros((way.height, way.width, 3), dtype=np.uint8)


def something(manifest: Manifest) -> Frame:
    """Of coarse and fine structure, as pictures have; noise for the other kinds. It compresses as
    real frames do, roughly. The same each time."""
    draw = np.random.default_rng(1)
    blank = nothing(manifest)
    if blank.ndim < 3:
        return draw.normal(0.0, 0.1, blank.shape).astype(np.float32)
    height, width = _SIZE
    picture = np.full((height, width, 3), 127.0)
    for grain in _GRAINS:
        coarse = draw.normal(0.0, grain**0.5, (height // grain, width // grain, 3))
        picture += cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    return picture.clip(0, 255).astype(np.uint8)
