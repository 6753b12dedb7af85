"""What a network sees of a picture, at its own resolution, as a picture again.

A device that sends the picture may scale and crop it first as the network would. A *view* is that:
the whole picture scaled into the letterbox, without its grey, or the square in the middle.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from headtail_models.bundle.manifest import Preprocess
from headtail_models.vision.geometry import Geometry
from headtail_models.vision.prepare import Picture, centre_crop, letterbox


class Viewer:
    """Goes from pictures to views, and from views to the network's input."""

    def __init__(self, preprocess: Preprocess) -> None:
        self._way = preprocess

    def geometry(self, picture: Picture) -> Geometry:
        """How the picture lies in the network's input."""
        way, (height, width) = self._way, picture.shape[:2]
        if way.kind == "letterbox":
            return Geometry.letterbox(height, width, to_height=way.height, to_width=way.width)
        return Geometry.centre_crop(
            height, width, resize=way.resize or way.height, to_height=way.height, to_width=way.width
        )

    def view(self, picture: Picture) -> Picture:
        """Scaled and cropped exactly as the network's own preparation does it."""
        geometry = self.geometry(picture)
        size = (geometry.inner_width, geometry.inner_height)
        scaled = _resized(picture, size, cv2.INTER_LINEAR)
        if self._way.kind == "letterbox":
            return scaled
        top, left = -int(geometry.top), -int(geometry.left)
        middle = scaled[top : top + self._way.height, left : left + self._way.width]
        return np.ascontiguousarray(middle)

    def tensor(self, view: Picture, size: tuple[int, int]) -> NDArray[np.float32]:
        """The network's input (1, 3, h, w) for a view that has arrived, in whatever size it was
        sent; `size` (width, height) is that of the view it stands for."""
        whole = _resized(view, size, cv2.INTER_CUBIC)
        way, (height, width) = self._way, whole.shape[:2]
        if way.kind == "letterbox":
            geometry = Geometry.letterbox(height, width, to_height=way.height, to_width=way.width)
            return letterbox(whole, geometry, fill=way.fill)
        geometry = Geometry.centre_crop(
            height, width, resize=min(height, width), to_height=way.height, to_width=way.width
        )
        return centre_crop(whole, geometry, mean=way.mean, std=way.std)


def shrunk(view: Picture, share: float) -> Picture:
    """The view with sides of `share` times its own, averaged over areas."""
    size = [max(8, round(length * share)) for length in view.shape[1::-1]]
    return _resized(view, (size[0], size[1]), cv2.INTER_AREA)


def _resized(picture: Picture, size: tuple[int, int], way: int) -> Picture:
    if (picture.shape[1], picture.shape[0]) == size:
        return picture
    return cv2.resize(picture, size, interpolation=way).astype(np.uint8, copy=False)
