"""The table of codecs by id."""

from headtail_fabric.codec.affine import CHANNELS_LAST, AffineCodec
from headtail_fabric.codec.base import CodecError, TensorCodec
from headtail_fabric.codec.picture import PictureCodec
from headtail_fabric.codec.quantiser import Quantiser
from headtail_fabric.codec.raw import RawCodec
from headtail_fabric.codec.zstd import ZstdCodec
from headtail_fabric.wire import DType


def codec_ids() -> tuple[str, ...]:
    """Every codec id that `codec_for` knows."""
    tensors = ("raw", "raw+zstd", "q8", "q8+zstd", "q4", "q4+zstd")
    packed = tuple(f"q{bits}{CHANNELS_LAST}" for bits in (8, 4, 2))
    return (*tensors, *packed, "jpeg", "webp")


def codec_for(
    codec_id: str,
    *,
    dtype: DType = DType.FLOAT32,
    quantiser: Quantiser | None = None,
    quality: int = 75,
    zstd_level: int = 3,
) -> TensorCodec:
    """The codec named `codec_id`.

    `dtype` is the tensor's type (quantisers take float32 only, pictures uint8 only); `quantiser`
    is needed by the ids that begin with q; `quality` (1-100) and `zstd_level` matter to the
    encoder only.
    Raises CodecError when the id is unknown or what it needs is missing.
    """
    if codec_id not in codec_ids():
        raise CodecError(f"unknown codec {codec_id[:40]!r}, known: {', '.join(codec_ids())}")
    base, _, wrapper = codec_id.partition("+")
    inner: RawCodec | AffineCodec
    if base in ("jpeg", "webp"):
        if dtype is not DType.UINT8:
            raise CodecError(f"{base} carries uint8 pictures, not {dtype.name.lower()}")
        return PictureCodec(base, quality=quality)
    if base == "raw":
        inner = RawCodec(dtype)
    else:
        if quantiser is None or dtype is not DType.FLOAT32:
            raise CodecError(f"{base} needs float32 and a quantiser table")
        inner = AffineCodec(
            bits=int(base[1:2]),
            quantiser=quantiser,
            channels_last=base.endswith(CHANNELS_LAST),
        )
    return ZstdCodec(inner, level=zstd_level) if wrapper else inner
