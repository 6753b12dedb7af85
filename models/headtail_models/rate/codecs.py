"""Picture codecs as rivals: the best encoders that a registry has, at settings that favour size."""

import io
from typing import Final, Literal

import numpy as np

from headtail_models.rate.errors import RateError
from headtail_models.vision.prepare import Picture

try:
    from PIL import Image, features
except ImportError:
    raise RateError("picture codecs need pillow: pip install 'headtail[bench]'") from None

Kind = Literal["jpeg", "webp", "avif"]

_FORMATS: Final[dict[Kind, str]] = {"jpeg": "JPEG", "webp": "WEBP", "avif": "AVIF"}
_SETTINGS: Final[dict[Kind, tuple[dict[str, object], ...]]] = {
    # Which of the two is smaller depends on the picture.
    "jpeg": ({"optimize": True}, {"optimize": True, "progressive": True}),
    "webp": ({"method": 6},),
    "avif": ({"speed": 6, "max_threads": 1},),
}


def available() -> tuple[Kind, ...]:
    """The codecs that the installed pillow was built with."""
    feature = {"jpeg": "jpg", "webp": "webp", "avif": "avif"}
    return tuple(kind for kind in _FORMATS if features.check(feature[kind]))


def versions() -> dict[str, str]:
    """Of what does the coding."""
    names = ("jpg", "webp", "avif")
    return {name: str(features.version(name)) for name in names if features.check(name)}


def encode(picture: Picture, kind: Kind, quality: int) -> bytes:
    """The smallest file of `picture` (H, W, 3) BGR that the codec's settings give."""
    image = Image.fromarray(np.ascontiguousarray(picture[:, :, ::-1]))
    files = []
    for settings in _SETTINGS[kind]:
        file = io.BytesIO()
        image.save(file, _FORMATS[kind], quality=quality, **settings)
        files.append(file.getvalue())
    return min(files, key=len)


def decode(data: bytes) -> Picture:
    """The picture of a file that `encode` wrote."""
    with Image.open(io.BytesIO(data)) as image:
        rgb = np.asarray(image.convert("RGB"))
    return np.ascontiguousarray(rgb[:, :, ::-1])
