"""From a decoded picture to a network's input tensor."""

import cv2
import numpy as np
from numpy.typing import NDArray

from headtail_models.vision.geometry import Geometry

Picture = NDArray[np.uint8]
"""H x W x 3, BGR, as OpenCV decodes it."""


def check_picture(picture: Picture) -> None:
    """Raises ValueError unless `picture` is a uint8 array of shape (H, W, 3) with some pixels."""
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
        raise ValueError(f"a picture is uint8 (H, W, 3), not {picture.dtype} {picture.shape}")
    if picture.size == 0:
        raise ValueError(f"a picture without pixels: {picture.shape}")


def letterbox(picture: Picture, geometry: Geometry, *, fill: int) -> NDArray[np.float32]:
    """The picture scaled into the network's input, (1, 3, h, w) float32 RGB / 255.

    Bilinear; what the picture does not cover has the grey `fill` (0-255). Darknet fills with 0.5
    and samples the corners instead of the centres, which costs nothing measurable.
    """
    check_picture(picture)
    inner = _resized(picture, geometry)
    left, top = int(geometry.left), int(geometry.top)
    shape = (geometry.network_height, geometry.network_width, 3)
    canvas = np.full(shape, fill, dtype=np.uint8)
    canvas[top : top + inner.shape[0], left : left + inner.shape[1]] = inner
    return _planes(canvas)


def centre_crop(
    picture: Picture, geometry: Geometry, *, mean: tuple[float, ...], std: tuple[float, ...]
) -> NDArray[np.float32]:
    """The middle of the scaled picture, (1, 3, h, w) float32 RGB / 255, less `mean`, over `std`."""
    check_picture(picture)
    inner = _resized(picture, geometry)
    left, top = -int(geometry.left), -int(geometry.top)
    middle = inner[top : top + geometry.network_height, left : left + geometry.network_width]
    tensor = _planes(middle)
    if mean:
        tensor -= np.asarray(mean, dtype=np.float32).reshape(1, 3, 1, 1)
    if std:
        tensor /= np.asarray(std, dtype=np.float32).reshape(1, 3, 1, 1)
    return tensor


def _resized(picture: Picture, geometry: Geometry) -> Picture:
    size = (geometry.inner_width, geometry.inner_height)
    if (picture.shape[1], picture.shape[0]) == size:
        return picture
    return cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR).astype(np.uint8, copy=False)


def _planes(picture: Picture) -> NDArray[np.float32]:
    planes = np.empty((1, 3, *picture.shape[:2]), dtype=np.float32)
    for plane, channel in enumerate((2, 1, 0)):
        np.multiply(picture[:, :, channel], np.float32(1 / 255), out=planes[0, plane])
    return planes
