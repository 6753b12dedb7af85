"""What crosses a cut, as bytes: one place where device, edge and measurements get their codecs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from headtail_fabric.codec import CodecError, Quantiser, TensorCodec, codec_for
from headtail_fabric.rans import AffineLevels, CodingModel, LevelQuantiser, RansCodec, StepLevels
from headtail_fabric.wire import DType
from headtail_models.bundle.content import open_plain, storage_errors
from headtail_models.bundle.errors import BadCoderError, CodecNotAllowedError
from headtail_models.bundle.limits import MAX_CODER_BYTES
from headtail_models.bundle.manifest import INPUT, Coder, Cut, QuantiserTable

PICTURE_CODECS: Final = ("jpeg", "webp")


class CutCodecs(Protocol):
    """The codecs of one cut. Safe to share by threads; what `new` makes is for one thread."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Those that are allowed."""
        ...

    def table(self, codec_id: str) -> str:
        """The name of the quantiser table that goes with a codec, as a request states it; empty
        where there is none."""
        ...

    def new(self, codec_id: str) -> TensorCodec:
        """Raises CodecNotAllowedError."""
        ...


class TensorCodecs:
    """At a cut of the network: tables and coding models are read once, for all codecs made."""

    def __init__(self, cut: Cut, models: Mapping[str, CodingModel]) -> None:
        """`models` by coder id. Raises BadCoderError when one does not fit the cut."""
        self._cut = cut.name
        self.ids = cut.codecs
        self._dtype = DType[cut.tensor.dtype.upper()]
        self._quantisers = {base: table.quantiser() for base, table in cut.quantisers.items()}
        self._coders = {
            codec_id: (_levels(cut, codec_id, coder, models[codec_id]), models[codec_id])
            for codec_id, coder in cut.coders.items()
        }
        for codec_id in self._coders:
            self._coded(codec_id)

    def table(self, codec_id: str) -> str:
        base = codec_id.partition("+")[0]
        return base if base in self._quantisers else ""

    def quantiser(self, codec_id: str) -> Quantiser | None:
        """The table itself, or None."""
        return self._quantisers.get(self.table(codec_id))

    def new(self, codec_id: str) -> TensorCodec:
        _check_allowed(codec_id, self.ids, cut=self._cut)
        if codec_id in self._coders:
            return self._coded(codec_id)
        return codec_for(codec_id, dtype=self._dtype, quantiser=self.quantiser(codec_id))

    def _coded(self, codec_id: str) -> RansCodec:
        levels, model = self._coders[codec_id]
        try:
            return RansCodec(levels, model, codec_id=codec_id)
        except ValueError as error:
            raise BadCoderError(f"coder {codec_id!r} at cut {self._cut!r}: {error}") from None


class PictureCodecs:
    """At the cut `input`, where whole pictures are sent. `quality` (1-100) matters to the encoder
    only."""

    ids: Final = PICTURE_CODECS

    def __init__(self, *, quality: int = 75) -> None:
        self._quality = quality

    def table(self, codec_id: str) -> str:
        return ""

    def new(self, codec_id: str) -> TensorCodec:
        _check_allowed(codec_id, self.ids, cut=INPUT)
        return codec_for(codec_id, dtype=DType.UINT8, quality=self._quality)


def packed_levels(
    *, bits: int, scale: float, zero: int, channels: int
) -> tuple[str, QuantiserTable]:
    """Codec id and quantiser table of a cut whose tensor a microcontroller sends: real = scale *
    (level - zero), `bits` (8, 4 or 2) a value, channels last (`headtail_models.mcu.features`)."""
    low, high = -zero * scale, ((1 << bits) - 1 - zero) * scale
    return f"q{bits}-nhwc", QuantiserTable(low=(low,) * channels, high=(high,) * channels)


def read_coding_model(folder: Path, cut: Cut, codec_id: str) -> CodingModel:
    """A coding model out of a bundle's files. Raises CodecNotAllowedError when the cut has no such
    coder, BadCoderError, BundleStorageError."""
    coder = cut.coders.get(codec_id)
    if coder is None:
        known = ", ".join(cut.coders) or "none"
        raise CodecNotAllowedError(
            f"cut {cut.name!r} has no coder {codec_id[:32]!r}, only {known}", cut=cut.name
        )
    path = folder / coder.file
    with storage_errors(path), open_plain(path) as file:
        data = file.read(MAX_CODER_BYTES + 1)
    try:
        if len(data) > MAX_CODER_BYTES:
            raise CodecError(f"more than {MAX_CODER_BYTES} bytes")
        return CodingModel.from_bytes(data)
    except CodecError as error:
        raise BadCoderError(f"{coder.file!r}: {error.message}", path=str(path)) from None


def read_codecs(folder: Path, cut: Cut) -> TensorCodecs:
    """The codecs of a cut with what they need out of a bundle's files. Raises BadCoderError,
    BundleStorageError."""
    return TensorCodecs(
        cut, {codec_id: read_coding_model(folder, cut, codec_id) for codec_id in cut.coders}
    )


def _levels(cut: Cut, codec_id: str, coder: Coder, model: CodingModel) -> LevelQuantiser:
    if coder.bits is not None:
        return AffineLevels(cut.quantisers[codec_id].quantiser(), bits=coder.bits)
    return StepLevels(steps=coder.scales(cut.tensor.shape[0]), alphabet=model.alphabet)


def _check_allowed(codec_id: str, allowed: tuple[str, ...], *, cut: str) -> None:
    if codec_id not in allowed:
        raise CodecNotAllowedError(
            f"codec {codec_id[:40]!r} at cut {cut!r}, allowed there: {', '.join(allowed)}",
            cut=cut,
            codec=codec_id,
        )
