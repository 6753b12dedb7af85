"""How a picture lies in a network's input, and the way back."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """An axis-parallel scaling and shift: `x_network = x_picture * scale_x + left`.

    Coordinates are continuous: pixel i covers [i, i + 1). `left` and `top` are the padding of a
    letterbox, or negative where a crop cuts off the picture's edge.
    """

    picture_width: int
    picture_height: int
    network_width: int
    network_height: int
    scale_x: float
    scale_y: float
    left: float
    top: float

    @classmethod
    def letterbox(cls, height: int, width: int, *, to_height: int, to_width: int) -> Self:
        """The picture as large as fits, centred; sides are rounded to whole pixels, at least 1."""
        scale = min(to_width / width, to_height / height)
        inner_width = min(to_width, max(1, round(width * scale)))
        inner_height = min(to_height, max(1, round(height * scale)))
        return cls(
            picture_width=width,
            picture_height=height,
            network_width=to_width,
            network_height=to_height,
            scale_x=inner_width / width,
            scale_y=inner_height / height,
            left=float((to_width - inner_width) // 2),
            top=float((to_height - inner_height) // 2),
        )

    @classmethod
    def centre_crop(
        cls, height: int, width: int, *, resize: int, to_height: int, to_width: int
    ) -> Self:
        """The shorter side scaled to `resize` pixels, then the middle of the picture."""
        scale = resize / min(height, width)
        inner_width, inner_height = round(width * scale), round(height * scale)
        return cls(
            picture_width=width,
            picture_height=height,
            network_width=to_width,
            network_height=to_height,
            scale_x=inner_width / width,
            scale_y=inner_height / height,
            left=float((to_width - inner_width) // 2),
            top=float((to_height - inner_height) // 2),
        )

    @property
    def inner_width(self) -> int:
        """Columns of the scaled picture, before any crop."""
        return round(self.picture_width * self.scale_x)

    @property
    def inner_height(self) -> int:
        """Rows of the scaled picture, before any crop."""
        return round(self.picture_height * self.scale_y)

    def to_picture(self, boxes: NDArray[np.float32]) -> NDArray[np.float32]:
        """Boxes (n, 4) x1, y1, x2, y2 from network pixels to picture pixels, clipped to it."""
        shift = np.array([self.left, self.top, self.left, self.top], dtype=np.float64)
        scale = np.array([self.scale_x, self.scale_y] * 2, dtype=np.float64)
        limit = np.array([self.picture_width, self.picture_height] * 2, dtype=np.float64)
        moved = (boxes.astype(np.float64) - shift) / scale
        return np.clip(moved, 0.0, limit).astype(np.float32)

    def to_network(self, boxes: NDArray[np.float32]) -> NDArray[np.float32]:
        """Boxes (n, 4) from picture pixels to network pixels; the inverse of `to_picture`."""
        shift = np.array([self.left, self.top, self.left, self.top], dtype=np.float64)
        scale = np.array([self.scale_x, self.scale_y] * 2, dtype=np.float64)
        return (boxes.astype(np.float64) * scale + shift).astype(np.float32)
