"""Zstandard behind another codec."""

import zstandard

from headtail_fabric.codec.affine import AffineCodec
from headtail_fabric.codec.base import Array, CodecError
from headtail_fabric.codec.raw import RawCodec
from headtail_fabric.wire import Buffer, Frames


class ZstdCodec:
    """Compresses what `inner` writes. Not thread-safe: one object a thread.

    The decoder knows the exact size that must come out, so a frame crafted to inflate stops there.
    """

    def __init__(self, inner: RawCodec | AffineCodec, *, level: int) -> None:
        self._inner = inner
        self._compressor = zstandard.ZstdCompressor(level=level, write_content_size=True)
        self._decompressor = zstandard.ZstdDecompressor()

    @property
    def id(self) -> str:
        return f"{self._inner.id}+zstd"

    def encode(self, tensor: Array) -> Buffer:
        return self._compressor.compress(self._inner.encode(tensor))

    def decode(self, payload: Buffer, shape: tuple[int, ...]) -> Array:
        return self._inner.decode(self._plain(payload, shape), shape)

    def decode_all(self, payloads: Frames, shape: tuple[int, ...]) -> Array:
        return self._inner.decode_all([self._plain(one, shape) for one in payloads], shape)

    def _plain(self, payload: Buffer, shape: tuple[int, ...]) -> bytes:
        expected = self._inner.encoded_bytes(shape)
        try:
            announced = zstandard.get_frame_parameters(payload).content_size
            if announced != expected:
                raise CodecError(f"zstd frame of {announced} bytes, shape {shape} needs {expected}")
            return self._decompressor.decompress(payload, allow_extra_data=False)
        except (zstandard.ZstdError, ValueError, TypeError) as error:
            raise CodecError(f"damaged zstd payload: {error}") from None
