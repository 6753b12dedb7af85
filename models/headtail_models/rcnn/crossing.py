"""What crosses from an R-CNN's head to its tail: one tensor, and sizes."""

from dataclasses import dataclass

from torch import Tensor

Size = tuple[int, int]
"""Height and width in pixels."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Crossing:
    """`tensor` (N, b, ...) of N pictures; `padded` is the size of the batch that they were laid
    into, `resized` theirs in it, `original` theirs before. No pixel crosses."""

    tensor: Tensor
    padded: Size
    resized: tuple[Size, ...]
    original: tuple[Size, ...]
