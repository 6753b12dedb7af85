"""JPEG and WebP, for the offload of a whole picture."""

import struct
from typing import Final

import cv2
import numpy as np

from headtail_fabric.codec.base import Array, CodecError
from headtail_fabric.wire import Buffer

_QUALITY: Final = {"jpeg": cv2.IMWRITE_JPEG_QUALITY, "webp": cv2.IMWRITE_WEBP_QUALITY}
_SUFFIX: Final = {"jpeg": ".jpg", "webp": ".webp"}


class PictureCodec:
    """A uint8 picture of shape (1, H, W, 3), BGR, as a JPEG or WebP file.

    Lossy. JPEG is at most 65,535 pixels a side, WebP 16,383. The decoder reads the size out of
    the file's own header first and refuses one that is not what was announced, so a small file
    can't ask for a huge picture.
    """

    def __init__(self, kind: str, *, quality: int) -> None:
        if kind not in _SUFFIX or not 1 <= quality <= 100:
            raise ValueError(f"picture codec {kind!r} at quality {quality}")
        self._kind = kind
        self._quality = quality

    @property
    def id(self) -> str:
        return self._kind

    def encode(self, tensor: Array) -> Buffer:
        if tensor.ndim != 4 or tensor.shape[0] != 1 or tensor.shape[3] != 3:
            raise ValueError(f"a picture has shape (1, H, W, 3), not {tensor.shape}")
        options = [_QUALITY[self._kind], self._quality]
        done, encoded = cv2.imencode(_SUFFIX[self._kind], tensor[0], options)
        if not done:
            raise ValueError(f"the picture of shape {tensor.shape} cannot be written as {self.id}")
        return encoded.reshape(-1).data

    def decode(self, payload: Buffer, shape: tuple[int, ...]) -> Array:
        view = memoryview(payload)
        found = _jpeg_size(view) if self._kind == "jpeg" else _webp_size(view)
        if found is None:
            raise CodecError(f"not a {self._kind} file")
        if shape != (1, *found, 3):
            raise CodecError(f"{self._kind} of {found[1]}x{found[0]} pixels, announced {shape}")
        try:
            picture = cv2.imdecode(np.frombuffer(view, dtype=np.uint8), cv2.IMREAD_COLOR)
        except cv2.error as error:
            raise CodecError(f"damaged {self._kind}: {error}") from None
        # An EXIF orientation may have turned the picture since its header was read.
        if picture is None or picture.shape != (*found, 3):
            raise CodecError(f"damaged {self._kind}")
        return picture[np.newaxis]


def _jpeg_size(data: memoryview) -> tuple[int, int] | None:
    """Height and width from the first start-of-frame segment (ITU-T T.81, B.2.2)."""
    if len(data) < 4 or bytes(data[:2]) != b"\xff\xd8":
        return None
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, at + 5)
            return height, width
        (length,) = struct.unpack_from(">H", data, at + 2)
        at += 2 + length
    return None


def _webp_size(data: memoryview) -> tuple[int, int] | None:
    """Height and width from a WebP container's first chunk (RFC 9649, 2.5 to 2.7)."""
    if len(data) < 30 or bytes(data[:4]) != b"RIFF" or bytes(data[8:12]) != b"WEBP":
        return None
    chunk = bytes(data[12:16])
    if chunk == b"VP8 " and bytes(data[23:26]) == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return height & 0x3FFF, width & 0x3FFF
    if chunk == b"VP8L" and data[20] == 0x2F:
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1
    if chunk == b"VP8X":
        width = int.from_bytes(data[24:27], "little") + 1
        return int.from_bytes(data[27:30], "little") + 1, width
    return None
