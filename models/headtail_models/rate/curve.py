"""Accuracy against bytes, and bytes at equal accuracy.

A method with a setting (a codec with its quality, a coder with its step) is a point; the points of
one family make a curve. Its *envelope* leaves out every point that another one beats in both, so
accuracy rises with bytes. Between neighbours of the envelope the logarithm of the bytes is linear
in the accuracy, as rate-distortion curves of pictures are compared (Bjontegaard, VCEG-M33, 2001,
there with polynomials). Beyond its ends a curve says nothing: it is never extrapolated.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One point of a curve: mean payload bytes and accuracy, 0..1."""

    size_bytes: float
    accuracy: float


def envelope(places: Sequence[Place]) -> tuple[Place, ...]:
    """Those that no other place beats, by bytes; accuracy rises strictly."""
    kept: list[Place] = []
    for place in sorted(places, key=lambda place: (place.size_bytes, -place.accuracy)):
        if not kept or place.accuracy > kept[-1].accuracy:
            kept.append(place)
    return tuple(kept)


def bytes_at(places: Sequence[Place], accuracy: float) -> float | None:
    """Bytes that the envelope of `places` needs for `accuracy`.

    None where it is not reachable: the best place falls short of it, or the worst one already has
    more, so that fewer bytes were never tried.
    """
    return bytes_on(envelope(places), accuracy)


def bytes_on(upper: Sequence[Place], accuracy: float) -> float | None:
    """`bytes_at` for what is an envelope already."""
    if not upper or not upper[0].accuracy <= accuracy <= upper[-1].accuracy:
        return None
    for low, high in pairwise(upper):
        if accuracy <= high.accuracy:
            share = (accuracy - low.accuracy) / (high.accuracy - low.accuracy)
            lows, highs = math.log(low.size_bytes), math.log(high.size_bytes)
            return math.exp(lows + share * (highs - lows))
    return upper[0].size_bytes


def accuracy_at(places: Sequence[Place], size_bytes: float) -> float | None:
    """Accuracy of the envelope at `size_bytes`; None outside it."""
    upper = envelope(places)
    if not upper or not upper[0].size_bytes <= size_bytes <= upper[-1].size_bytes:
        return None
    for low, high in pairwise(upper):
        if size_bytes <= high.size_bytes:
            lows, highs = math.log(low.size_bytes), math.log(high.size_bytes)
            share = (math.log(size_bytes) - lows) / (highs - lows)
            return low.accuracy + share * (high.accuracy - low.accuracy)
    return upper[0].accuracy
